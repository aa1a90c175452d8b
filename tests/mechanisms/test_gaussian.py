"""Normal noise, and the ε that it truly has."""

import numpy as np
import pytest
from loops import for_each
from mechanisms.published import BOUNDS, RARE, WITH_NULL, publish, refusal
from scipy import optimize, stats

from clusterscale import mechanisms
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.accounting import GaussianLoss
from clusterscale.mechanisms.noise import GaussianNoise

COUNTS = np.full((40, 30, 20), 6, dtype=np.int32)
RULE = "normal noise of deviation √(2 ln(2/δ))·Δ₂/ε; L2 norm of one user"


def gaussian(**params):
    return mechanisms.create("gaussian", **params)


def exact_epsilon(deviation, delta):
    """Theorem 8 of Balle and Wang (ICML 2018), solved for ε; noise for one unit of sensitivity."""

    def excess(epsilon):
        near, far = 1 / (2 * deviation), epsilon * deviation
        held = stats.norm.cdf(near - far) - np.exp(epsilon + stats.norm.logcdf(-near - far))
        return held - delta

    if excess(0.0) <= 0:
        return 0.0
    return optimize.brentq(excess, 0.0, 10 / deviation + 1 / deviation**2, xtol=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "norm"), [(1.0, 0.1, 1.0), (0.5, 1e-5, 9.0), (10.0, 0.1, 2.5)]
)
def test_noise_has_the_stated_law(epsilon, delta, norm):
    mechanism = gaussian(epsilon=epsilon, delta=delta, l2_sensitivity=norm)
    sigma = np.sqrt(2 * np.log(2 / delta)) * norm / epsilon
    assert mechanism.sigma == pytest.approx(sigma, rel=1e-12)
    assert mechanism.noise == GaussianNoise(mechanism.sigma)
    noise = (publish(mechanism, COUNTS) - COUNTS).ravel()
    assert stats.kstest(noise, stats.norm(scale=sigma).cdf).pvalue > RARE
    assert noise.var() == pytest.approx(sigma**2, rel=0.05)


def test_clip_comes_before_integers():
    values = publish(
        gaussian(epsilon=0.1, delta=0.1, l2_sensitivity=1.0, clip=True, integers="round"), COUNTS
    )
    plain = publish(gaussian(epsilon=0.1, delta=0.1, l2_sensitivity=1.0), COUNTS)
    np.testing.assert_array_equal(values, np.rint(np.clip(plain, 0, 10)))


@for_each("delta", [0.5, 0.1, 1e-3, 1e-6])
@for_each("epsilon", [0.01, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0])
def test_guarantee_is_exact_where_the_rule_promises_too_much(epsilon, delta):
    guarantee = gaussian(epsilon=epsilon, delta=delta, l2_sensitivity=3.0).guarantee
    exact = exact_epsilon(np.sqrt(2 * np.log(2 / delta)) / epsilon, delta)
    assert guarantee.epsilon == pytest.approx(max(epsilon, exact), rel=1e-8)
    assert (guarantee.unit, guarantee.delta, guarantee.neighbours, guarantee.sensitivity) == (
        "user",
        delta,
        "add_remove",
        3.0,
    )
    failed = f"; the rule fails at ε = {epsilon:g}, this is the exact ε"
    assert guarantee.reason == RULE + (failed if exact > epsilon else "")


def test_the_rule_holds_at_one_and_fails_at_ten():
    assert gaussian(epsilon=1.0, delta=0.1).guarantee.epsilon == 1.0
    assert gaussian(epsilon=10.0, delta=0.1).guarantee.epsilon == pytest.approx(12.72, abs=0.005)


@for_each("epsilon", [1e-18, 1e-9, 1e6, 1e12])
@for_each("delta", [1e-30, 1e-6, 0.1])
def test_guarantee_at_the_edges_is_a_number(epsilon, delta):
    guarantee = gaussian(epsilon=epsilon, delta=delta).guarantee
    assert np.isfinite(guarantee.epsilon)
    assert guarantee.epsilon >= epsilon


@pytest.mark.parametrize("bounds", [BOUNDS, WITH_NULL])
def test_sensitivity_is_taken_from_the_cube(bounds):
    free = gaussian(epsilon=1.0, delta=0.1)
    assert np.isnan(free.guarantee.sensitivity)
    bound = free.bind(bounds)
    assert bound.l2_sensitivity == free.required_sensitivity(bounds) == np.sqrt(bounds.user)
    assert bound.bind(BOUNDS) == bound
    ratio = 1 / np.sqrt(2 * np.log(20))
    assert bound.user_privacy_loss(bounds) == GaussianLoss(pytest.approx(ratio), 0.1)
    given = gaussian(epsilon=1.0, delta=0.1, l2_sensitivity=1.0)
    assert given.bind(bounds) is given
    assert given.user_privacy_loss(bounds).ratio == pytest.approx(ratio * np.sqrt(bounds.user))


def test_unbound_release_is_refused():
    mechanism = gaussian(epsilon=1.0, delta=0.1)
    assert np.isnan(mechanism.noise.scale)
    with pytest.raises(ConfigError) as caught:
        publish(mechanism, COUNTS)
    assert str(caught.value) == (
        "gaussian(epsilon=1.0, delta=0.1): l2_sensitivity is not known: give it, or bind the "
        "mechanism to the bounds of a cube, as an audit does"
    )


@for_each(
    ("params", "message"),
    [
        ({"epsilon": 0.0, "delta": 0.1}, "epsilon: is 0.0, but should be greater than 0"),
        ({"epsilon": 1.0}, "delta: is missing"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta: is 0.0, but should be greater than 0"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta: is 1.0, but should be less than 1"),
        (
            {"epsilon": 1.0, "delta": 0.1, "l2_sensitivity": -1.0},
            "l2_sensitivity: is -1.0, but should be greater than 0",
        ),
        (
            {"epsilon": 1.0, "delta": 0.1, "sensitivity": 1.0},
            "sensitivity: is not a known key: choose from title, clip, "
            "integers, name, epsilon, delta, "
            "l2_sensitivity, unit, discrete; did you mean 'l2_sensitivity'?",
        ),
    ],
)
def test_nonsense_is_refused(params, message):
    assert refusal("gaussian", **params) == message
