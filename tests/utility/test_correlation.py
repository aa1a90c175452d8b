"""Correlation over time against NumPy; series that are constant."""

from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.utility import pearson

SEEDS = st.integers(0, 10**6)


def draw(seed, *, n_rois=8, n_epochs=10):
    """Draw counts and noisy values, all of which vary over time."""
    rng = np.random.default_rng(seed)
    raw = rng.poisson(4, (n_rois, n_epochs))
    raw[:, 0] = raw[:, 1] + 1
    return raw, raw + rng.laplace(0, 2, raw.shape)


@given(SEEDS)
def test_equals_numpy(seed):
    raw, released = draw(seed)
    each = [np.corrcoef(pair)[0, 1] for pair in zip(raw, released, strict=True)]
    assert pearson(raw, released) == pytest.approx(np.mean(each))


@given(SEEDS)
def test_ideal_range_and_sign(seed):
    raw, released = draw(seed)
    assert pearson(raw, raw) == pytest.approx(1)
    found = pearson(raw, released)
    assert -1 <= found <= 1
    assert pearson(raw, -released) == pytest.approx(-found)


@given(SEEDS, st.floats(0.01, 100), st.floats(-100, 100))
def test_unit_offset_and_order_do_not_matter(seed, factor, offset):
    raw, released = draw(seed)
    rng = np.random.default_rng(seed)
    rois, epochs = rng.permutation(len(raw)), rng.permutation(raw.shape[1])
    moved = pearson(3 * raw[rois][:, epochs], factor * released[rois][:, epochs] + offset)
    assert moved == pytest.approx(pearson(raw, released))


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e9 + 0.1])
def test_constant_released_counts_zero(constant):
    raw, released = draw(2)
    assert pearson(raw, np.full(raw.shape, constant)) == 0
    rest = pearson(raw[1:], released[1:])
    released[0] = constant
    assert pearson(raw, released) == pytest.approx(rest * (len(raw) - 1) / len(raw))


@pytest.mark.parametrize("constant", [0, 0.1, 7])
def test_roi_constant_in_raw_is_left_out(constant):
    raw, released = draw(3)
    with_constant = np.vstack([raw, np.full((1, raw.shape[1]), constant)])
    published = np.vstack([released, released[:1]])
    assert pearson(with_constant, published) == pytest.approx(pearson(raw, released))


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e300])
def test_extreme_values(size):
    raw = np.array([[0, 1, 3, 1]])
    assert pearson(raw, size * raw) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("raw", [[[2, 2], [0, 0]], [[5]]])
def test_nothing_varies(raw):
    assert isnan(pearson(raw, raw))
