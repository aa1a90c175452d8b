"""The fused kernel equals NumPy, on counts and on anything a mechanism may publish."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from oracles import statistics as oracle

from clusterscale.attacks.statistics import features, summarise
from clusterscale.contracts import Release

SHAPES = array_shapes(min_dims=3, max_dims=3, max_side=9)


@given(arrays(np.int32, SHAPES, elements=st.integers(0, 60)))
def test_counts(counts):
    expected = oracle.summarise(counts)
    for values in (counts, counts.astype(np.float64)):
        np.testing.assert_allclose(summarise(values), expected, rtol=1e-12, atol=1e-12)


@given(arrays(np.int32, (2, 2, 40), elements=st.integers(-(2**31), 2**31 - 1)))
def test_counts_of_any_size(counts):
    expected = oracle.summarise(counts.astype(np.float64))
    np.testing.assert_allclose(summarise(counts), expected, rtol=1e-9, atol=1e-3)


def test_sums_of_squares_beyond_64_bits():
    counts = np.full((1, 1, 8760), 10**7, np.int32)
    counts[0, 0, ::2] -= 10**7 // 3
    expected = oracle.summarise(counts.astype(np.float64))
    np.testing.assert_allclose(summarise(counts), expected, rtol=1e-9)


@given(arrays(np.float64, (1, 2, 5), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_values_that_are_no_numbers_do_no_harm(values):
    with np.errstate(all="ignore"):
        found = summarise(values)[:, 3::7]
        expected = np.median(values, axis=2)
        finite = np.isfinite(values.sum(axis=2)) & np.isfinite(expected)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-9)


@given(arrays(np.float64, SHAPES, elements=st.floats(-1e6, 1e6)))
def test_noisy_values(values):
    np.testing.assert_allclose(summarise(values), oracle.summarise(values), rtol=1e-9, atol=1e-6)


@given(arrays(np.int64, (2, 3, 4), elements=st.integers(-(10**12), 10**12)))
def test_whole_numbers_too_far_apart_to_be_tallied(whole):
    values = whole.astype(np.float64)
    np.testing.assert_allclose(
        summarise(values)[:, 3::7], np.median(values, axis=2), rtol=1e-12, atol=1e-3
    )


def test_a_release_is_summarised_once():
    release = Release(np.ones((2, 3, 4)), 5, "exact")
    assert features(release) is features(release)
    assert features(Release(release.values, 5, "exact")) is not features(release)
