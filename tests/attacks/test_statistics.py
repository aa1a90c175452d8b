"""The fused kernel equals NumPy, on counts and on anything a mechanism may publish."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from oracles import statistics as oracle

from clusterscale.attacks.statistics import features, summarise
from clusterscale.contracts import Release

SHAPES = array_shapes(min_dims=3, max_dims=3, max_side=9)


@settings(deadline=None)
@given(arrays(np.int32, SHAPES, elements=st.integers(0, 60)))
def test_counts(counts):
    values = counts.astype(np.float64)
    np.testing.assert_allclose(summarise(values), oracle.summarise(values), rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(arrays(np.float64, SHAPES, elements=st.floats(-1e6, 1e6)))
def test_noisy_values(values):
    np.testing.assert_allclose(summarise(values), oracle.summarise(values), rtol=1e-9, atol=1e-6)


@settings(deadline=None)
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
