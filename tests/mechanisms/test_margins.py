"""The margin that a mechanism states holds with the probability that it states."""

import numpy as np
import pytest

from clusterscale import mechanisms
from clusterscale.mechanisms.base import Margin

N = 100_000  # cells: the standard error of a share of .95 is .0007, and .003 is 4.3 of it
EVENTS = {"name": "laplace", "unit": "event", "sensitivity": 1}
DISCRETE = {**EVENTS, "epsilon": 0.4, "discrete": True}


def chain(*steps):
    return {"name": "chain", "steps": list(steps)}


def distances(settings, low=30, high=200):
    """Return how far released values are from counts, and the margin."""
    mechanism = mechanisms.create(**settings)
    rng = np.random.default_rng(46)
    counts = rng.integers(low, high, (1000, N // 1000), dtype=np.int32)
    released = mechanism.release(counts, group_size=1000, rng=rng)
    factor = released.mean() / counts.mean() if "expand" in mechanism.label else 1.0
    return np.abs(released - counts * round(factor, 1)), mechanism.widen(Margin())


@pytest.mark.parametrize(
    "settings",
    [
        DISCRETE,
        {**EVENTS, "epsilon": 0.4},
        {"name": "gaussian", "epsilon": 0.5, "delta": 1e-6, "l2_sensitivity": 1},
        chain(DISCRETE, {"name": "threshold", "k": 5}),
        chain(DISCRETE, {"name": "expand", "factor": 2.5}),
    ],
    ids=["discrete", "continuous", "gaussian", "threshold", "expanded"],
)
def test_values_are_within_the_margin_of_noise_as_often_as_is_stated(settings):
    far, margin = distances(settings)
    assert margin.share >= 0.95
    within = (far <= margin.size * (1 + 1e-12)).mean()
    assert within == pytest.approx(margin.share, abs=0.003)
    assert np.sqrt((far**2).mean()) == pytest.approx(margin.scale, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({"name": "exact"}, 0),
        ({"name": "round_to_base", "base": 5}, 4),
        ({"name": "round_to_base", "base": 5, "rule": "nearest"}, 2.5),
        ({"name": "bottom_code", "at": 100, "least": 30}, 70),
        (chain({"name": "expand", "factor": 2.5}, {"name": "round_to_base", "base": 1}), 1),
    ],
)
def test_without_noise_the_margin_is_never_exceeded(settings, most):
    far, margin = distances(settings)
    assert (margin.size, margin.share) == (most, 1.0)
    assert 0.5 * most <= far.max() <= most
    assert np.sqrt((far**2).mean()) <= max(margin.scale, most)


@pytest.mark.parametrize("rounded", ["round", "floor"])
def test_rounded_noise_is_within_a_wider_margin(rounded):
    far, margin = distances({**EVENTS, "epsilon": 0.4, "integers": rounded})
    assert (far <= margin.size).mean() > margin.share
    assert np.sqrt((far**2).mean()) < margin.scale


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "expand", "factor": "weights"},
        {"name": "share_of_total"},
        {"name": "fourier", "epsilon": 1.0, "coefficients": 5},
        chain({"name": "sample_events", "remove": 0.5}, DISCRETE),
        {"name": "laplace", "epsilon": 1.0, "unit": "user_day"},
    ],
)
def test_a_margin_that_is_not_known_is_not_stated(settings):
    assert mechanisms.create(**settings).widen(Margin()) is None
