"""What a guarantee means for all of one user, against sums and integrals written out."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from loops import for_each, mostly_slow
from mechanisms.published import BOUNDS, WITH_NULL
from mechanisms.test_gaussian import exact_epsilon
from scipy import signal

from clusterscale import mechanisms
from clusterscale.contracts import Bounds, Guarantee
from clusterscale.mechanisms import user_level
from clusterscale.mechanisms.accounting import ACCOUNTED_DELTA

STEP = 2e-4
TINY = 1e-11  # what sums of floats are off


def laplace(scale, **more):
    return mechanisms.create("laplace", epsilon=1.0, sensitivity=scale, **more)


def bounds(user, rois=2, series=4):
    return Bounds(1, min(user, 5), user, series, rois, False)


def losses_of_laplace(ratio, n):
    """Privacy losses of n changes by ``ratio`` scales, on a grid, each rounded down.

    Loss r with probability ½, −r with ½e^−r, and r − 2x between, x having density ½e^−x; rounding
    down makes every δ that follows from it one that is surely needed.
    """
    loss = np.arange(np.floor(-ratio / STEP), np.floor(ratio / STEP) + 1) * STEP
    # P(loss ≥ l) = P(x ≤ (r − l)/2) = 1 − ½e^−(r − l)/2 for −r < l ≤ r
    above = np.where(loss > -ratio, 1 - np.exp(-(ratio - loss) / 2) / 2, 1.0)
    part = above - np.append(above[1:], 0.0)
    total = reduce(signal.fftconvolve, [part] * n)
    return total, n * loss[0] + np.arange(len(total)) * STEP


def delta_needed(total, loss, epsilon):
    """E[1 − e^(ε − L)]⁺."""
    return float((total * np.maximum(-np.expm1(epsilon - loss), 0.0)).sum())


@pytest.mark.parametrize(("n", "scale"), [(1, 1.0), (2, 0.7), (3, 1.5), (6, 3.0)])
def test_laplace_is_accounted_exactly(n, scale):
    """No ε below what the integral needs, and hardly one above."""
    level = user_level(laplace(scale), bounds(n))
    assert (level.epsilon, level.delta) == (pytest.approx(n / scale), 0.0)
    assert level.composed_delta == ACCOUNTED_DELTA
    assert level.composed_epsilon <= level.epsilon
    total, loss = losses_of_laplace(1 / scale, n)
    assert total.sum() == pytest.approx(1.0)
    tolerance = 2 * n * (STEP + 1e-4)  # both grids round, once a part
    assert delta_needed(total, loss, level.composed_epsilon) <= ACCOUNTED_DELTA + TINY
    assert delta_needed(total, loss, level.composed_epsilon - tolerance) > ACCOUNTED_DELTA
    twice, loss = losses_of_laplace(1 / scale, 2 * n)
    for epsilon, delta in level.curve[1:]:
        assert delta_needed(twice, loss, epsilon) <= delta + TINY
        assert epsilon == 0 or delta_needed(twice, loss, max(epsilon - tolerance, 0)) > delta


def delta_of(without, inside, epsilon, n):
    """δ of n independent outcomes with these laws, summed over all of them, both ways."""
    without, inside = (reduce(np.multiply.outer, [law] * n) for law in (without, inside))
    return max(
        np.maximum(inside - np.exp(epsilon) * without, 0).sum(),
        np.maximum(without - np.exp(epsilon) * inside, 0).sum(),
    )


def geometric(scale):
    """Two-sided geometric laws around 0 and around 1."""
    at = np.arange(-14, 16)
    laws = (np.exp(-np.abs(at - shift) / scale) for shift in (0, 1))
    return [law * np.tanh(1 / (2 * scale)) for law in laws]


@mostly_slow(("n", "scale"), [(1, 0.8), (2, 0.8), (2, 0.5)])
def test_discrete_noise_needs_more_than_laplace(n, scale):
    """Its whole privacy loss is ±1/scale, so accounting it as Laplace noise would be too kind."""
    level = user_level(laplace(scale, discrete=True), bounds(n))
    kinder = user_level(laplace(scale), bounds(n))
    assert level.epsilon == kinder.epsilon == pytest.approx(n / scale)
    assert level.composed_epsilon <= level.epsilon
    laws = geometric(scale)
    assert delta_of(*laws, level.composed_epsilon, n) <= ACCOUNTED_DELTA + TINY
    for (epsilon, delta), (less, _) in zip(level.curve[1:], kinder.curve[1:], strict=True):
        needed = delta_of(*laws, epsilon, 2 * n)
        assert needed <= delta + 1e-7  # what is beyond 14 was left out
        assert epsilon == 0 or delta_of(*laws, max(epsilon - 0.01, 0), 2 * n) > delta
        if 0.01 < delta < 0.5:
            assert less < epsilon
            assert delta_of(*laws, less, 2 * n) > delta


@for_each("epsilon", [0.1, 1.0, 4.0])
@for_each("n_rois", [1, 2, 4])
def test_parts_of_pure_epsilon_are_composed_exactly(epsilon, n_rois):
    """The worst of them all is a coin that tells the truth (Kairouz et al. 2015).

    Replacing a user changes each part twice: both users can be in all the ROIs.
    """
    fourier = mechanisms.create("fourier", epsilon=epsilon, coefficients=1)
    wide = bounds(9, rois=n_rois)
    level = user_level(fourier.bind(wide), wide)
    assert (level.epsilon, level.delta) == (pytest.approx(n_rois * epsilon), 0.0)
    truth = 1 / (1 + np.exp(-epsilon))
    coin = np.array([truth, 1 - truth]), np.array([1 - truth, truth])
    assert delta_of(*coin, level.composed_epsilon, n_rois) <= ACCOUNTED_DELTA + TINY
    assert level.composed_epsilon <= level.epsilon
    truth = 1 / (1 + np.exp(-2 * epsilon))
    twice = np.array([truth, 1 - truth]), np.array([1 - truth, truth])
    for ceiling, delta in level.curve[1:]:
        assert delta_of(*twice, ceiling, n_rois) <= delta + TINY
        assert ceiling == 0 or delta_of(*twice, max(ceiling - 0.01, 0), n_rois) > delta


def test_parts_with_a_delta():
    mechanism = mechanisms.create("enhanced_fourier", epsilon=1.0, delta=0.1).bind(BOUNDS)
    level = user_level(mechanism, BOUNDS)  # in two ROIs
    assert (level.epsilon, level.delta) == (2.0, pytest.approx(1 - 0.9**2))
    assert level.composed_delta == pytest.approx(0.19 + ACCOUNTED_DELTA)
    assert level.composed_epsilon <= 2.0
    slip = 0.1 * (1 + np.e)  # of two changes, by group privacy
    assert level.curve[0] == (4.0, pytest.approx(1 - (1 - slip) ** 2))
    assert min(delta for _, delta in level.curve) > 1 - (1 - slip) ** 2 - 1e-12
    # each part slips with that probability, else is a coin that tells the truth
    truth, false = (1 - slip) / (1 + np.exp(-2)), (1 - slip) / (1 + np.exp(2))
    coin = np.array([truth, false, slip, 0.0]), np.array([false, truth, 0.0, slip])
    for ceiling, delta in level.curve:
        assert delta_of(*coin, ceiling, 2) <= delta + TINY


@for_each("bound", [BOUNDS, WITH_NULL])
@for_each(("epsilon", "delta"), [(1.0, 0.1), (10.0, 0.1), (0.3, 1e-6)])
def test_normal_noise_is_one_part(bound, epsilon, delta):
    """And replacing one user by another moves √2 times as much as removing one."""
    for norm in (None, 1.0, 50.0):
        mechanism = mechanisms.create(
            "gaussian", epsilon=epsilon, delta=delta, l2_sensitivity=norm
        ).bind(bound)
        level = user_level(mechanism, bound)
        deviation = mechanism.sigma / np.sqrt(bound.user)
        assert level.epsilon == pytest.approx(exact_epsilon(deviation, delta), abs=1e-9)
        assert (level.delta, level.composed_delta) == (delta, ACCOUNTED_DELTA)
        once = exact_epsilon(deviation, ACCOUNTED_DELTA)
        assert level.composed_epsilon == pytest.approx(once, abs=1e-9)
        for ceiling, slip in level.curve:
            exact = exact_epsilon(deviation / np.sqrt(2), slip)
            assert ceiling == pytest.approx(exact, abs=1e-9)


def test_lies_give_no_epsilon_but_a_delta():
    level = user_level(mechanisms.create("randomized_response", p=0.9), bounds(2))
    assert (level.epsilon, level.delta) == (0.0, pytest.approx(1 - 0.9**2))
    assert level.composed_epsilon == 0.0
    slips = [0.5, 0.7, 0.9]
    assert level.curve == ((0.0, pytest.approx(1 - 0.9**4)), *((0.0, slip) for slip in slips))
    # of four answers, all are told apart unless every one says yes
    told = np.array([1.0, 0.0]), np.array([0.9, 0.1])
    assert delta_of(*told, 0.0, 4) == pytest.approx(1 - 0.9**4)


UNLIMITED = {
    "exact": {},
    "perturb_small": {"below": 3, "epsilon": 1.0},
    "suppress_small": {"below": 3},
    "suppress_unpopular": {"fraction": 0.5},
    "sample_events": {"remove": 0.5},
    "fixed_ranges": {"size": 3},
    "adaptive_ranges": {"ranges": 3},
    "coarsen_space": {"factor": 2},
    "coarsen_time": {"factor": 2},
    "cap_contributions": {"per_day": 2},
    "chain": {"steps": [{"name": "sample_events", "remove": 0.5}]},
}


@for_each("name", UNLIMITED)
def test_without_a_guarantee_nothing_is_known(name):
    mechanism = mechanisms.create(name, **UNLIMITED[name])
    assert isinstance(mechanism.guarantee, Guarantee)
    assert (mechanism.guarantee.unit, mechanism.guarantee.epsilon) == ("none", np.inf)
    assert mechanism.user_privacy_loss(BOUNDS) is None
    level = user_level(mechanism, BOUNDS)
    assert (level.epsilon, level.composed_epsilon, level.curve) == (np.inf, np.inf, ())


LIMITED = {
    "laplace": {},
    "gaussian": {"delta": 0.1},
    "fourier": {"coefficients": 2},
    "enhanced_fourier": {"delta": 0.001},
}


@for_each("epsilon", [1e-12, 0.01, 1.0, 30.0, 1e3, 1e12])
@for_each("name", [*LIMITED, "geometric"])
def test_curves_fall(name, epsilon):
    """The more may slip, the less is ε, and never is it more than the plain sum. At an ε of 710
    and more a library's e^ε overflowed."""
    params = LIMITED.get(name, {"discrete": True}) | {"epsilon": epsilon}
    mechanism = mechanisms.create("laplace" if name == "geometric" else name, **params)
    level = user_level(mechanism.bind(BOUNDS), BOUNDS)
    curve = sorted(level.curve, key=lambda pair: pair[1])
    if name == "enhanced_fourier" and epsilon > 1:  # nothing follows for two changes
        assert [delta for _, delta in curve] == [1.0]
        return
    assert len(curve) > 5
    for (more, _), (less, _) in pairwise(curve):
        assert less <= more * (1 + 1e-7)
    assert all(np.isfinite(value) for pair in curve for value in pair)
    if name != "gaussian":
        assert level.composed_epsilon <= level.epsilon
        assert all(ceiling <= level.curve[0][0] for ceiling, _ in level.curve)


@mostly_slow("discrete", [False, True])
def test_more_activity_costs_more(discrete):
    levels = [user_level(laplace(5.0, discrete=discrete), bounds(n)) for n in (1, 5, 40, 2685)]
    assert [level.epsilon for level in levels] == pytest.approx([0.2, 1.0, 8.0, 537.0])
    for one, more in pairwise(levels):
        assert one.composed_epsilon < more.composed_epsilon
    assert levels[-1].composed_epsilon < 250  # half of the sum and less


def test_the_declared_unit_does_not_matter():
    """What is spent on a user depends on the noise alone."""
    levels = {user_level(laplace(5.0, unit=unit), BOUNDS) for unit in ("event", "user_day", "user")}
    assert len(levels) == 1
    event = mechanisms.create("laplace", epsilon=0.3, unit="event").bind(BOUNDS)
    assert user_level(event, BOUNDS).epsilon == pytest.approx(9 * 0.3)
    user = mechanisms.create("laplace", epsilon=0.3).bind(BOUNDS)
    assert user_level(user, BOUNDS).epsilon == pytest.approx(0.3)
