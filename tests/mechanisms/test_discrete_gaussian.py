"""Discrete normal noise, against its definition and the bounds of another library."""

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import compute_epsilon
from scipy.stats import chisquare

from clusterscale import mechanisms
from clusterscale.analyses.certify import ceiling
from clusterscale.analyses.publish.source import SecretNumbers
from clusterscale.contracts import Bounds
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.accounting import concentrated_epsilon, user_level
from clusterscale.mechanisms.noise import DiscreteGaussianNoise

SIGMAS = (0.4, 1.0, 7.5)


@pytest.mark.parametrize("sigma", SIGMAS)
def test_probabilities_are_those_of_the_definition(sigma):
    noise, values = DiscreteGaussianNoise(sigma), np.arange(-200.0, 201)
    weights = np.exp(-(values**2) / 2 / sigma**2)
    expected = weights / weights.sum()
    np.testing.assert_allclose(noise.density(values), expected, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(noise.cdf(values + 0.5), np.cumsum(expected), atol=1e-15)
    assert noise.variance == pytest.approx(expected @ values**2, rel=1e-12)
    levels = np.array([1e-9, 0.3, 0.5, 0.975])
    found = noise.quantile(levels)
    assert ((noise.cdf(found) >= levels) & (noise.cdf(found - 1) < levels)).all()


@pytest.mark.parametrize("source", ["stream", "opendp"])
@pytest.mark.parametrize("sigma", SIGMAS)
def test_draws_have_these_probabilities(sigma, source):
    """A right law is rejected in 1 of 10^5 runs; that of OpenDP is drawn anew in each run."""
    noise, n = DiscreteGaussianNoise(sigma), 20_000
    if source == "stream":
        drawn = noise.sample(n, rng=np.random.default_rng(1))
    else:
        drawn = SecretNumbers().draw(noise, n)
    edge = int(noise.quantile(np.array([0.999]))[0])
    values = np.arange(-edge, edge + 1)
    seen = np.array([(np.clip(drawn, -edge, edge) == value).sum() for value in values])
    expected = noise.density(values.astype(float))
    expected[[0, -1]] = noise.cdf(np.array([-float(edge)]))[0]
    assert chisquare(seen, n * expected / expected.sum()).pvalue > 1e-5


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5, 8.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
def test_epsilon_of_a_concentrated_guarantee(rho, delta):
    """The bound of Canonne, Kamath and Steinke, as dp-accounting has it for Rényi divergences."""
    orders = 1 + np.geomspace(1e-3, 1e4, 400)
    theirs, _ = compute_epsilon(orders, orders * rho, delta)
    found = concentrated_epsilon(rho, delta)
    assert found <= theirs * (1 + 1e-5) + 1e-9
    assert found == pytest.approx(theirs, rel=0.02, abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 6.0])
def test_the_guarantee_holds(epsilon):
    """For one count and for nine, by the composition of exact privacy losses."""
    noisy = mechanisms.create(
        "gaussian", epsilon=epsilon, delta=1e-5, l2_sensitivity=3.0, discrete=True
    )
    guarantee, sigma = noisy.guarantee, noisy.noise.scale
    exact = pld.from_discrete_gaussian_mechanism(sigma).self_compose(9)  # nine counts by 1 each
    assert exact.get_delta_for_epsilon(guarantee.epsilon) <= guarantee.delta
    one = pld.from_discrete_gaussian_mechanism(sigma, sensitivity=3)
    assert one.get_delta_for_epsilon(guarantee.epsilon) <= guarantee.delta
    bounds = Bounds(1, 9, 9, 9, 9, False)
    level = user_level(noisy, bounds)
    assert level.epsilon >= exact.get_epsilon_for_delta(1e-5) - 1e-3
    assert noisy.required_sensitivity(bounds) == 3.0


def test_the_ceiling_is_that_of_the_exact_composition():
    """With a deviation of 2, all privacy losses are multiples of ⅛, so nothing is rounded."""
    epsilon = float(np.sqrt(2 * np.log(2 / 1e-5)) / 2)
    noisy = mechanisms.create(
        "gaussian", epsilon=epsilon, delta=1e-5, l2_sensitivity=1.0, discrete=True
    )
    found = ceiling(noisy, n_changed=24, group_size=5000)
    exact = pld.from_discrete_gaussian_mechanism(2.0, value_discretization_interval=1 / 8)
    composed = exact.self_compose(24).get_delta_for_epsilon(0.0)
    assert found.tight
    assert found.total_variation == pytest.approx(composed, abs=1e-9)


def test_each_unit_has_its_norm():
    bounds = Bounds(1, 1, 4, 25, 9, False)
    norms = [
        mechanisms.create("gaussian", epsilon=1.0, delta=1e-5, unit=unit).bind(bounds)
        for unit in ("event", "user_day", "user")
    ]
    assert [one.l2_sensitivity**2 for one in norms] == pytest.approx(
        [getattr(bounds, unit) for unit in ("event", "user_day", "user")]
    )


def test_too_large_noise_is_refused():
    noisy = mechanisms.create(
        "gaussian", epsilon=1e-4, delta=1e-5, l2_sensitivity=30.0, discrete=True
    )
    with pytest.raises(ConfigError, match="discrete Gaussian noise of deviation"):
        noisy.release(np.zeros((2, 2), np.int32), group_size=10, rng=np.random.default_rng(1))
