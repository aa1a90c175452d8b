"""Noise has the law it claims, and what follows it comes in order."""

import numpy as np
import pytest
from scipy import stats

from clusterscale import mechanisms
from clusterscale.errors import ConfigError

COUNTS = np.full((50, 40, 20), 6, dtype=np.int32)


def release(counts=COUNTS, *, group_size=10, **params):
    mechanism = mechanisms.create("laplace", **params)
    return mechanism.release(counts, group_size=group_size, rng=np.random.default_rng(5))


@pytest.mark.parametrize(
    ("params", "scale"),
    [
        ({"epsilon": 2.0, "unit": "event"}, 0.5),
        ({"epsilon": 0.5, "sensitivity": 7.0}, 14.0),
        ({"epsilon": 1, "sensitivity": 3, "unit": "user_day"}, 3.0),
    ],
)
def test_noise_has_the_stated_law(params, scale):
    noise = (release(**params) - COUNTS).ravel()
    # With this seed the statistic is fixed; a sound law falls below .001 once in a thousand seeds.
    assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > 0.001
    assert noise.var() == pytest.approx(2 * scale**2, rel=0.05)


def test_clip_comes_before_integers():
    values = release(epsilon=0.1, unit="event", clip=True, integers="floor")
    assert values.min() == 0
    assert values.max() == 10
    assert (values == np.floor(values)).all()


@pytest.mark.parametrize(("integers", "function"), [("round", np.rint), ("floor", np.floor)])
def test_integers(integers, function):
    plain = release(epsilon=1.0, unit="event")
    np.testing.assert_array_equal(
        release(epsilon=1.0, unit="event", integers=integers), function(plain)
    )


def test_guarantee_names_unit_and_epsilon():
    guarantee = mechanisms.create("laplace", epsilon=0.5, sensitivity=20.0).guarantee
    assert (guarantee.unit, guarantee.epsilon, guarantee.delta) == ("user", 0.5, 0.0)
    assert mechanisms.create("exact").guarantee.epsilon == np.inf


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"epsilon": 0.0, "unit": "event"},
            "mechanism.laplace.epsilon: is 0.0, but should be greater than 0",
        ),
        (
            {"epsilon": np.inf, "unit": "event"},
            "mechanism.laplace.epsilon: is inf, but should be a finite number",
        ),
        (
            {"epsilon": "1", "unit": "event"},
            "mechanism.laplace.epsilon: is '1', but should be a number: write 1.0, without quotes",
        ),
        ({"unit": "event"}, "mechanism.laplace.epsilon: is missing"),
        (
            {"epsilon": 1.0, "unit": "week"},
            "mechanism.laplace.unit: is 'week', but should be 'event', 'user_day' or 'user'",
        ),
        (
            {"epsilon": 1.0, "unit": "event", "sigma": 1},
            "mechanism.laplace.sigma: is not known here: choose from clip, integers, name, "
            "epsilon, sensitivity, unit",
        ),
    ],
)
def test_nonsense_is_refused(params, message):
    with pytest.raises(ConfigError) as caught:
        mechanisms.create("laplace", **params)
    assert str(caught.value) == message


def test_a_sensitivity_is_needed_beyond_events():
    with pytest.raises(ConfigError, match="give a sensitivity, or unit: event"):
        mechanisms.create("laplace", epsilon=1.0, unit="user")
