"""Privacy gain: every case of its definition, its range, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.errors import InputError
from clusterscale.metrics import privacy_gain

AREAS = st.floats(0, 1)
CASES = [
    # raw, released, gain
    (0.9, 0.7, 0.5),
    (1.0, 0.5, 1.0),
    (1.0, 0.75, 0.5),
    (0.75, 0.625, 0.5),
    (1.0, 1.0, 0.0),  # nothing taken away
    (0.7, 0.9, 0.0),  # the release helps
    (0.9, 0.4, 1.0),  # worse than a coin is no edge
    (0.9, 0.0, 1.0),
    (0.5, 0.5, 0.0),  # no edge to lose
    (0.5, 0.3, 0.0),
    (0.4, 0.3, 0.0),
    (0.4, 0.6, 0.0),
    (0.0, 1.0, 0.0),
    (np.nextafter(0.5, 1), 0.5, 1.0),
    (np.nextafter(0.5, 1), 0.0, 1.0),
    (np.nextafter(0.5, 1), 1.0, 0.0),
    (np.nan, 0.6, np.nan),
    (0.6, np.nan, np.nan),
    (0.4, np.nan, np.nan),
    (np.nan, np.nan, np.nan),
]


@for_each(("raw", "released", "gain"), CASES)
def test_a_float_for_floats(raw, released, gain):
    got = privacy_gain(raw, released)
    assert type(got) is float
    assert got == pytest.approx(gain, abs=1e-12, nan_ok=True)


def test_an_array_for_arrays():
    raw, released, gain = np.array(CASES).T
    got = privacy_gain(raw, released)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, gain, atol=1e-12)


def test_arrays_are_broadcast():
    raw, released = np.array([0.5, 0.75, 1.0], dtype=np.float32), np.array([[0.5], [0.625]])
    assert privacy_gain(raw, released).tolist() == [[0, 1, 1], [0, 0.5, 0.75]]
    assert privacy_gain(1.0, released[:, 0]).tolist() == [1, 0.75]
    assert privacy_gain(raw, 0.75).tolist() == [0, 0, 0.5]
    assert privacy_gain(raw[:0], 0.75).shape == (0,)


@given(AREAS, AREAS)
def test_gain_is_the_papers_fraction_and_a_share(raw, released):
    gain = privacy_gain(raw, released)
    assert 0 <= gain <= 1
    if raw > released >= 0.5:
        assert gain == (raw - released) / (raw - 0.5)
    else:
        assert gain == float(raw > 0.5 > released)


@given(AREAS, AREAS, AREAS)
def test_a_lower_released_auc_gains_no_less(raw, one, other):
    assert privacy_gain(raw, min(one, other)) >= privacy_gain(raw, max(one, other))


@pytest.mark.parametrize(
    ("raw", "released", "named"),
    [
        (1.1, 0.5, "1.1"),
        (0.5, -0.1, "-0.1"),
        (np.inf, 0.5, "inf"),
        (np.array([0.5, np.nan, 2.0]), 0.5, "2.0"),
    ],
)
def test_no_auc_is_refused(raw, released, named):
    with pytest.raises(InputError) as caught:
        privacy_gain(raw, released)
    assert str(caught.value) == f"an AUC must be between 0 and 1, not {named}"
