"""Noise that promises too much is caught by the same measurement that sound noise passes."""

import numpy as np
import pytest
from mechanisms.distinguish import measured

from clusterscale import mechanisms


def test_low_bits_of_floats_tell_more():
    """The promise of continuous noise is one of real numbers (Mironov, CCS 2012). A float that is
    no multiple of 2⁻⁵³ is no 1 + noise, so it was bare noise on a count of 0. Rounding the
    published value takes that away, and discrete noise never had it."""
    outside, inside = np.array([[0]]), np.array([[1]])

    def coarse(values):
        return np.ldexp(values, 53)[:, 0, 0] % 1 == 0

    def found(**more):
        mechanism = mechanisms.create("laplace", epsilon=1.0, sensitivity=1.0, **more)
        scores = (coarse, lambda values: values[:, 0, 0])
        return max(measured(mechanism, outside, inside, score) for score in scores)

    assert found() > 4
    assert found(integers="round") <= 1
    assert found(discrete=True) <= 1


class Truncated:
    """Laplace noise cut to whole numbers before it is added, as a published code does.

    Noise between −1 and 1 becomes 0, so P(0) = 1 − e^−ε, but P(±1) = ½e^−ε(1 − e^−ε): a count
    that was changed by one event is told at ε + ln 2.
    """

    def __init__(self, epsilon):
        self.epsilon = epsilon

    def release(self, counts, *, group_size, rng):
        return counts + np.trunc(rng.laplace(0.0, 1 / self.epsilon, counts.shape))


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_a_broken_laplace_is_caught(epsilon):
    """It claims ε for an event; whether a release reaches the larger count tells ln(2e^ε − 1).

    With 10,000 releases of each matrix the bound was 1.37 ± .03 at ε = 1 and 2.44 ± .05 at ε = 2
    (mean and standard deviation) over 1,000 seeds, each of which found it: twelve and nine standard
    deviations above ε, so the power is all but 1. Sound noise of that scale, rounded after it is
    added, passes the same test.
    """
    outside, inside = np.array([[7]]), np.array([[8]])
    found = [
        measured(Truncated(epsilon), outside, inside, lambda values: values[:, 0, 0], seed=seed)
        for seed in range(20)
    ]
    assert min(found) > epsilon
    assert max(found) < epsilon + np.log(2)
    sound = mechanisms.create(
        "laplace", epsilon=epsilon, sensitivity=1.0, unit="event", integers="floor"
    )
    for seed in range(20):
        found = measured(sound, outside, inside, lambda values: values[:, 0, 0], seed=seed)
        assert found <= epsilon
