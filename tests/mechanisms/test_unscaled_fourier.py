"""FPA as it was published: its law, its default sensitivity, and that it promises nothing."""

import numpy as np
import pytest
from mechanisms.published import RARE, publish
from scipy import stats

from clusterscale import mechanisms
from clusterscale.contracts import Bounds
from clusterscale.errors import ConfigError

COUNTS = np.random.default_rng(3).integers(0, 20, (3000, 2, 12)).astype(np.int32)


def unscaled(coefficients, epsilon=2.0, **more):
    more = {"l2_sensitivity": 1.5} | more
    return mechanisms.create("unscaled_fourier", epsilon=epsilon, coefficients=coefficients, **more)


def transform(series):
    """Not normalised: F_k = Σ x_t exp(−2πikt/T)."""
    at = np.arange(series.shape[-1])
    return series @ np.exp(-2j * np.pi * np.outer(at, at) / series.shape[-1])


@pytest.mark.parametrize("kept", [1, 4, 6])
def test_law_of_coefficients(kept):
    """Of the real part half of each wave is left, with half its noise; 11 tests at .001 each."""
    found = transform(publish(unscaled(kept), COUNTS))
    bare = transform(COUNTS.astype(float))
    law = stats.laplace(scale=np.sqrt(kept) * 1.5 / 2.0).cdf
    assert stats.kstest((found - bare)[..., 0].real.ravel(), law).pvalue > RARE
    noise = 2 * found[..., 1:kept] - bare[..., 1:kept]
    for k in range(kept - 1):
        assert stats.kstest(noise[..., k].real.ravel(), law).pvalue > RARE
        assert stats.kstest(noise[..., k].imag.ravel(), law).pvalue > RARE
    assert np.abs(found[..., kept : 12 - kept + 1]).max() < 1e-9


def test_all_coefficients_give_the_series_back():
    values = publish(unscaled(12, epsilon=1e12), COUNTS[:5])
    np.testing.assert_allclose(values, COUNTS[:5], atol=1e-9)


def test_sensitivity_is_of_all_that_a_user_reports():
    bounds = Bounds(event=1, user_day=9, user=25, series=4, rois=5, null_roi=False)
    bound = mechanisms.create("unscaled_fourier", epsilon=1.0, coefficients=4).bind(bounds)
    assert bound.scale == pytest.approx(2 * 5.0)


def test_it_promises_nothing():
    mechanism = unscaled(4)
    assert mechanism.guarantee.unit == "none"
    assert mechanism.guarantee.epsilon == np.inf


def test_more_coefficients_than_epochs_are_refused():
    with pytest.raises(ConfigError, match="coefficients is 13, but a series of 12 epochs has 12"):
        publish(unscaled(13), COUNTS)
