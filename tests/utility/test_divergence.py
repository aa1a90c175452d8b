"""Divergence and distances against scipy and loops; epochs without counts or without mass."""

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from scipy.spatial.distance import jensenshannon

from clusterscale.utility import jensen_shannon, jensen_shannon_distance, total_variation

SEEDS = st.integers(0, 10**6)
FARTHEST = [
    (jensen_shannon, 1.0),
    (jensen_shannon_distance, sqrt(log(2))),
    (total_variation, 1.0),
]
MEASURES = [measure for measure, _ in FARTHEST]


def draw(seed, *, n_rois=9, n_epochs=7):
    """Draw sparse counts and values, some negative, with mass in every epoch."""
    rng = np.random.default_rng(seed)
    raw = rng.poisson(1.5, (n_rois, n_epochs))
    raw[0] += 1
    released = raw + rng.laplace(0, 1.5, raw.shape)
    released[1] += 30
    return raw, released


@given(SEEDS)
def test_equals_scipy(seed):
    raw, released = draw(seed)
    masses = np.maximum(released, 0)
    bits = jensenshannon(raw, masses, base=2, axis=0) ** 2
    assert jensen_shannon(raw, released) == pytest.approx(bits.mean())
    nats = jensenshannon(raw, masses, axis=0)
    assert jensen_shannon_distance(raw, released) == pytest.approx(nats.mean())


def slow_variation(raw, released):
    """Return the total variation by loops."""
    distances = []
    for counts, values in zip(raw.T.tolist(), released.T.tolist(), strict=True):
        whole, left = sum(counts), sum(max(value, 0) for value in values)
        if whole and left:
            pairs = zip(counts, values, strict=True)
            distances.append(sum(abs(c / whole - max(v, 0) / left) for c, v in pairs) / 2)
        elif whole:
            distances.append(1)
    return sum(distances) / len(distances)


@given(SEEDS)
def test_total_variation_equals_the_loop(seed):
    raw, released = draw(seed)
    raw[:, 0] = released[:, 1] = released[:, 2] = 0
    released[:, 2] -= 1
    assert total_variation(raw, released) == pytest.approx(slow_variation(raw, released))


def test_total_variation_by_hand():
    raw = np.array([[6, 1, 0], [2, 0, 0]])
    assert total_variation(raw, np.array([[1, 1, 0], [1, 0, 0]])) == pytest.approx(0.25 / 2)
    assert total_variation(raw, np.array([[6, 0, 5], [2, 0, 0]])) == 0.5
    assert total_variation(raw, np.array([[6, -1, 5], [2, 0, 0]])) == 0.5
    assert total_variation(raw, np.zeros((2, 3))) == 1


@pytest.mark.parametrize(("measure", "farthest"), FARTHEST)
@given(seed=SEEDS)
def test_ideal_and_range(measure, farthest, seed):
    raw, released = draw(seed)
    assert measure(raw, raw) == 0
    assert measure(raw, 3 * raw) == pytest.approx(0, abs=1e-7)
    assert 0 < measure(raw, released) < farthest


@pytest.mark.parametrize("measure", MEASURES)
@given(seed=SEEDS)
def test_symmetric_and_blind_to_order_and_unit(measure, seed):
    raw, released = draw(seed)
    released = np.maximum(released, 0)
    found = measure(raw, released)
    assert measure(released, raw) == pytest.approx(found)
    moved = np.random.default_rng(seed).permutation(len(raw))
    assert measure(raw[moved], released[moved]) == pytest.approx(found)
    assert measure(raw, 0.25 * released) == pytest.approx(found)


@pytest.mark.parametrize(("measure", "farthest"), FARTHEST)
def test_nothing_in_common_is_farthest(measure, farthest):
    assert measure([[3], [1], [0]], [[0], [0], [7]]) == farthest


@pytest.mark.parametrize(
    ("measure", "half_a_bit"), [(jensen_shannon, 0.5), (jensen_shannon_distance, sqrt(log(2) / 2))]
)
def test_epoch_without_released_mass_is_half_a_bit_away(measure, half_a_bit):
    raw = np.array([[3, 3], [1, 1]])
    assert measure(raw, np.zeros_like(raw)) == pytest.approx(half_a_bit)
    assert measure(raw, -raw) == pytest.approx(half_a_bit)
    assert measure(raw, [[3, 0], [1, -2]]) == pytest.approx(half_a_bit / 2)


@pytest.mark.parametrize("measure", MEASURES)
def test_epoch_without_raw_counts_is_left_out(measure):
    raw, released = draw(4)
    found = measure(raw, released)
    quiet = np.zeros((len(raw), 1))
    for published in (quiet, quiet + 5):
        with_quiet = measure(np.hstack([raw, quiet]), np.hstack([released, published]))
        assert with_quiet == pytest.approx(found, abs=1e-15)


@for_each(("measure", "farthest"), FARTHEST)
@for_each("size", [5e-324, 1e-300, 1.7e308])
def test_extreme_values(measure, farthest, size):
    raw = np.array([[1], [1], [0]])
    assert measure(raw, size * raw) == pytest.approx(0, abs=1e-7)
    assert measure(raw, np.array([[0], [0], [size]])) == farthest
    lopsided = measure(raw, np.array([[1.0], [1.0], [5e-324]]))
    assert lopsided == pytest.approx(0, abs=1e-7)
