"""The interval of a proportion is that of an independent implementation."""

import pytest
import scipy

from clusterscale.errors import InputError
from clusterscale.metrics import proportion_interval


@pytest.mark.parametrize(("hits", "n"), [(0, 9), (9, 9), (1, 9), (40, 100), (3, 100_000)])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_it_is_that_of_scipy(hits, n, confidence):
    expected = scipy.stats.binomtest(hits, n).proportion_ci(confidence, method="exact")
    found = proportion_interval(hits, n, confidence=confidence)
    assert found == pytest.approx((expected.low, expected.high), rel=1e-9)


def test_of_nothing_everything_is_possible():
    assert proportion_interval(0, 0) == (0.0, 1.0)
    with pytest.raises(InputError, match="3 hits among 2"):
        proportion_interval(3, 2)
