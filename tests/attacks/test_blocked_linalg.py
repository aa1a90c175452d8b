"""Passes over columns, some at a time, give what numpy gives of all at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from clusterscale.attacks import blocked_linalg as passes
from clusterscale.attacks.blocked_linalg import (
    LinearDistinguisher,
    centre,
    column_variances,
    combine,
    gram,
    product,
)
from clusterscale.contracts import Release


@st.composite
def blocks(draw):
    """Rows of either type, columns in blocks that need not be whole, and a number a row or cell."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 19)))
    numbers = st.floats(-1e3, 1e3, width=32)
    whole = arrays(np.int32, shape, elements=st.integers(-1000, 1000))
    rows = draw(whole | arrays(np.float64, shape, elements=numbers))
    shares, weights = (draw(arrays(np.float64, n, elements=numbers)) for n in shape)
    return rows, shares, weights, draw(st.integers(1, 10))


@given(blocks())
def test_sums_by_blocks_of_columns_are_those_of_numpy(case):
    rows, shares, weights, width = case
    before, wide = rows.copy(), rows.astype(np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "_WIDTH", width)
        exact = {"rtol": 1e-12, "atol": 1e-6}  # of sums up to 1e10
        np.testing.assert_allclose(gram(rows), wide @ wide.T, **exact)
        np.testing.assert_allclose(combine(rows, shares), wide.T @ shares, **exact)
        np.testing.assert_allclose(product(rows, weights), wide @ weights, **exact)
        np.testing.assert_allclose(column_variances(rows), wide.var(axis=0), **exact)
        apart = wide - wide.mean(axis=0)
        np.testing.assert_allclose(centre(gram(rows)), apart @ apart.T, **exact)
        release = Release(rows[:, None, :], 5, "any")
        scores = LinearDistinguisher(weights, intercept=2.0).score(release)
        np.testing.assert_allclose(scores, wide @ weights + 2, **exact)
    np.testing.assert_array_equal(rows, before)


def test_releases_wider_than_a_block():
    rng = np.random.default_rng(9)
    rows = rng.integers(0, 50, (5, 2 * passes._WIDTH + 7), dtype=np.int32)
    wide = rows.astype(np.int64)
    np.testing.assert_array_equal(gram(rows), wide @ wide.T)
    np.testing.assert_array_equal(combine(rows, np.arange(5.0)), wide.T @ np.arange(5))
    weights = np.arange(rows.shape[1]) % 7
    np.testing.assert_array_equal(product(rows, weights.astype(float)), wide @ weights)
