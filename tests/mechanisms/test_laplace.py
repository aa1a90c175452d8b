"""Noise has the law it claims, and what follows it comes in order."""

import numpy as np
import pytest
from loops import for_each
from mechanisms.published import BOUNDS, RARE, WITH_NULL, fits, publish, refusal
from scipy import stats

from clusterscale import mechanisms
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.accounting import ApproximateLoss, LaplaceLoss
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise, LaplaceNoise

COUNTS = np.full((50, 40, 20), 6, dtype=np.int32)


def laplace(**params):
    return mechanisms.create("laplace", **params)


@pytest.mark.parametrize(
    ("params", "scale"),
    [
        ({"epsilon": 2.0, "sensitivity": 1.0, "unit": "event"}, 0.5),
        ({"epsilon": 0.5, "sensitivity": 7.0}, 14.0),
        ({"epsilon": 1, "sensitivity": 3, "unit": "user_day"}, 3.0),
    ],
)
def test_noise_has_the_stated_law(params, scale):
    mechanism = laplace(**params)
    noise = (publish(mechanism, COUNTS) - COUNTS).ravel()
    assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > RARE
    assert noise.var() == pytest.approx(2 * scale**2, rel=0.05)
    assert mechanism.scale == scale
    assert mechanism.noise == LaplaceNoise(scale)


@pytest.mark.parametrize("scale", [0.4, 1.0, 3.0, 20.0])
def test_discrete_noise_is_two_sided_geometric(scale):
    """NumPy draws geometric numbers one way above a success of 1/3, another below."""
    mechanism = laplace(epsilon=2.0, sensitivity=2 * scale, discrete=True)
    noise = (publish(mechanism, COUNTS) - COUNTS).ravel()
    assert (noise == np.rint(noise)).all()
    assert mechanism.noise == DiscreteLaplaceNoise(pytest.approx(scale))
    share = np.exp(-1 / scale)
    reach = int(40 * scale) + 2
    at = np.arange(-reach, reach + 1)
    law = share ** np.abs(at) * (1 - share) / (1 + share)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)
    observed = np.bincount(noise.astype(np.int64) + reach, minlength=len(at))
    assert fits(observed, law * noise.size)


@pytest.mark.parametrize("discrete", [False, True])
def test_counts_have_independent_noise(discrete):
    """A correlation passes 4.5 standard errors once in 150,000 seeds."""
    mechanism = laplace(epsilon=1.0, sensitivity=1.0, discrete=discrete)
    noise = publish(mechanism, np.zeros((30_000, 2, 3), np.int32)).reshape(30_000, 6)
    correlation = np.corrcoef(noise.T) - np.eye(6)
    assert np.abs(correlation).max() < 4.5 / np.sqrt(30_000)


def test_clip_comes_before_integers():
    mechanism = laplace(epsilon=0.1, sensitivity=1.0, clip=True, integers="floor")
    values = publish(mechanism, COUNTS)
    assert values.min() == 0
    assert values.max() == 10
    assert (values == np.floor(values)).all()
    clipped = publish(laplace(epsilon=0.1, sensitivity=1.0, clip=True), COUNTS)
    np.testing.assert_array_equal(values, np.floor(clipped))


@pytest.mark.parametrize(("integers", "function"), [("round", np.rint), ("floor", np.floor)])
def test_integers(integers, function):
    plain = publish(laplace(epsilon=1.0, sensitivity=1.0), COUNTS)
    whole = publish(laplace(epsilon=1.0, sensitivity=1.0, integers=integers), COUNTS)
    np.testing.assert_array_equal(whole, function(plain))


def test_nothing_is_cut_to_few_bits():
    """Noise and counts beyond 32 bits come out as they are."""
    largest = np.full((1, 1, 1000), np.iinfo(np.int32).max, np.int32)
    for discrete in (False, True):
        mechanism = laplace(epsilon=1.0, sensitivity=1e10, discrete=discrete)
        noise = publish(mechanism, largest, group_size=2**31) - float(2**31 - 1)
        assert np.abs(noise).mean() == pytest.approx(1e10, rel=0.15)  # 5 standard errors
        assert abs((noise > 0).mean() - 0.5) < 0.08


def test_discrete_noise_beyond_whole_numbers_is_refused():
    """Two geometric numbers at the largest integer would cancel, and bare counts come out."""
    counts = np.zeros((1, 1, 100), np.int32)
    with pytest.raises(ConfigError) as caught:
        publish(laplace(epsilon=1e-18, sensitivity=1.0, discrete=True), counts)
    assert (
        str(caught.value)
        == "laplace: discrete noise of scale 1e+18 is too large for 64-bit integers"
    )
    noise = publish(laplace(epsilon=1.0, sensitivity=2.0**48, discrete=True), counts)
    assert np.abs(noise).min() > 1e6
    assert 20 < (noise > 0).sum() < 80


def test_epsilon_without_end_leaves_counts_alone():
    for discrete in (False, True):
        values = publish(laplace(epsilon=1e12, sensitivity=1.0, discrete=discrete), COUNTS)
        np.testing.assert_allclose(values, COUNTS, atol=1e-9)


@for_each("discrete", [False, True])
@for_each("unit", ["event", "user_day", "user"])
def test_guarantee_is_pure(unit, discrete):
    guarantee = laplace(epsilon=0.5, sensitivity=20.0, unit=unit, discrete=discrete).guarantee
    assert (guarantee.unit, guarantee.epsilon, guarantee.delta) == (unit, 0.5, 0.0)
    assert (guarantee.neighbours, guarantee.sensitivity) == ("add_remove", 20.0)
    law = "two-sided geometric" if discrete else "Laplace"
    meaning = {"event": "one event", "user_day": "one user's day", "user": "one user"}[unit]
    assert guarantee.reason == f"{law} noise of scale sensitivity/epsilon; L1 norm of {meaning}"


def test_unit_is_a_user_unless_stated():
    assert laplace(epsilon=1.0).unit == "user"


@for_each("unit", ["event", "user_day", "user"])
@for_each("bounds", [BOUNDS, WITH_NULL])
def test_sensitivity_is_taken_from_the_cube(unit, bounds):
    free = laplace(epsilon=0.5, unit=unit)
    known = 1.0 if unit == "event" else np.nan
    np.testing.assert_equal(free.guarantee.sensitivity, known)
    np.testing.assert_equal(free.noise.scale, 2 * known)
    bound = free.bind(bounds)
    assert bound.sensitivity == free.required_sensitivity(bounds) == getattr(bounds, unit)
    assert bound.scale == 2 * getattr(bounds, unit)
    assert bound.bind(WITH_NULL) == bound
    assert bound.user_privacy_loss(bounds) == LaplaceLoss(bounds.user, 1 / bound.scale)
    given = laplace(epsilon=0.5, sensitivity=3.0, unit=unit)
    assert given.bind(bounds) is given
    assert given.required_sensitivity(bounds) == getattr(bounds, unit)


def test_discrete_noise_is_not_spent_as_laplace():
    mechanism = laplace(epsilon=0.5, sensitivity=2.0, discrete=True)
    assert mechanism.user_privacy_loss(BOUNDS) == ApproximateLoss(9, 0.25, distinct=True)


@pytest.mark.parametrize("unit", ["user_day", "user"])
def test_unbound_release_is_refused(unit):
    mechanism = laplace(epsilon=1.0, unit=unit)
    assert np.isnan(mechanism.noise.scale)
    for ask in (lambda: publish(mechanism, COUNTS), lambda: mechanism.user_privacy_loss(BOUNDS)):
        with pytest.raises(ConfigError) as caught:
            ask()
        assert str(caught.value) == (
            f"{mechanism.label}: sensitivity is not known: give it, or bind the mechanism to the "
            "bounds of a cube, as an audit does"
        )
    assert laplace(epsilon=1.0).label == "laplace(epsilon=1.0)"


def test_an_event_changes_one_count_until_there_is_a_null_roi():
    free = laplace(epsilon=1.0, unit="event")
    given = laplace(epsilon=1.0, unit="event", sensitivity=1.0)
    np.testing.assert_array_equal(publish(free, COUNTS), publish(given, COUNTS))
    assert free.scale == 1.0
    assert free.bind(BOUNDS).scale == 1.0
    assert free.bind(WITH_NULL).scale == 2.0


@for_each(
    ("params", "message"),
    [
        ({"epsilon": 0.0}, "epsilon: is 0.0, but should be greater than 0"),
        ({"epsilon": -1.0}, "epsilon: is -1.0, but should be greater than 0"),
        ({"epsilon": np.inf}, "epsilon: is inf, but should be a finite number"),
        ({"epsilon": np.nan}, "epsilon: is nan, but should be a finite number"),
        ({"epsilon": True}, "epsilon: is True, but should be a number"),
        ({"epsilon": "1"}, "epsilon: is '1', but should be a number: write 1.0, without quotes"),
        ({"unit": "event"}, "epsilon: is missing"),
        (
            {"epsilon": 1.0, "sensitivity": 0.0},
            "sensitivity: is 0.0, but should be greater than 0",
        ),
        (
            {"epsilon": 1.0, "unit": "week"},
            "unit: is 'week', but should be 'event', 'user_day' or 'user'",
        ),
        (
            {"epsilon": 1.0, "integers": "ceil"},
            "integers: is 'ceil', but should be 'round', 'floor' or 'none'",
        ),
        (
            {"epsilon": 1.0, "sigma": 1},
            "sigma: is not a known key: choose from title, clip, "
            "integers, name, epsilon, sensitivity, "
            "unit, discrete",
        ),
    ],
)
def test_nonsense_is_refused(params, message):
    assert refusal("laplace", **params) == message
