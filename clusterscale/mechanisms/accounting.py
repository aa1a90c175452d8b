"""Privacy losses, their composition, and what guarantees say of one person."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from clusterscale.contracts import Bounds, Guarantee, Mechanism, NoiseScope, PrivacyLoss, TraceStep
from clusterscale.contracts.mechanism import group_privacy
from clusterscale.foreign import is_foreign
from clusterscale.mechanisms.chain import Chain
from clusterscale.mechanisms.sampling import CapContributions
from clusterscale.phrases import privacy_unit, round_up
from clusterscale.validation_messages import plural


def scope_of_noise(mechanism: Mechanism) -> NoiseScope:
    """Return how far the same noise reaches: what a chain does after noise does not matter."""
    if isinstance(mechanism, Chain):
        drawing = [step for step in mechanism.steps if step.stage in ("sample", "noise")]
        if drawing:
            return Chain(steps=tuple(drawing)).noise_scope
    return mechanism.noise_scope


def needs_equal_numbers(mechanism: Mechanism) -> bool:
    """Return whether its guarantee says nothing of people with different numbers of its units.

    It is so if units are replaced by others, and the noise is shared: how many there are may be
    published as it is. If each count has noise of its own, one that changes is bounded alone.
    """
    stated = mechanism.guarantee
    is_smaller = stated.neighbours == "replace" and stated.unit not in ("user", "none")
    return is_smaller and scope_of_noise(mechanism) != "cell"


def describe_guarantee(stated: Guarantee, n_days: int, mechanism: Mechanism) -> str:
    """Return ε and δ of a unit, and what they mean for a person, for display.

    The parameters are those of :func:`describe_person`.
    """
    person = describe_person(stated, n_days, mechanism)
    unit = f"{_pair(stated.epsilon, stated.delta)} per {privacy_unit(stated.unit)}"
    return unit + (f"; {person}" if person else "")


def describe_person(stated: Guarantee, n_days: int, mechanism: Mechanism) -> str:
    """Return what a guarantee means for somebody who changes as many units as possible; a clause.

    ``n_days`` are the local days of the releases of a ``mechanism``, whose trace steps may limit
    the events of a person. Empty if the unit is the person, or there is no guarantee.
    """
    unit, delta = stated.unit, stated.delta
    if unit in ("user", "none") or not np.isfinite(stated.epsilon):
        return ""
    if needs_equal_numbers(mechanism):
        return f"nothing for people with different numbers of {unit.replace('_', ' ')}s"
    n = units_of_person(unit, n_days, mechanism.trace_steps)
    if n is None:
        many = "at n places" if unit == "roi_series" else f"with n {unit}s"
        times = "n times that"
        if delta and not _are_independent(unit, mechanism):
            times += " ε, and δ·(1 + e^ε + … + e^((n−1)ε))"
        return f"for a person {many}, up to {times}"
    who = f"with {plural(n, 'event')}, the most that are counted"
    if unit == "user_day":
        who = f"who is there on {'that day' if n == 1 else f'all {n:,} days'}"
    epsilon, delta, n_parts = divide_person(stated, n_days, mechanism)
    return f"for a person {who}, up to {_pair(n_parts * epsilon, min(n_parts * delta, 1.0))}"


def divide_person(stated: Guarantee, n_days: int, mechanism: Mechanism) -> tuple[float, float, int]:
    """Return ε and δ of each independent part of what a person can lose, and how many there are.

    Days, or events, whose counts have noise of their own are a part each; others are a group, as
    the same noise can be in all of them. ε is infinite if nothing limits their number. The
    parameters are those of :func:`describe_person`.
    """
    n = units_of_person(stated.unit, n_days, mechanism.trace_steps)
    if n is None:
        return np.inf, 1.0, 1
    if _are_independent(stated.unit, mechanism):
        return stated.epsilon, stated.delta, n
    return *stated.imply(0, n), 1


def _are_independent(unit: str, mechanism: Mechanism) -> bool:
    """Return whether units change different values, each with noise of its own."""
    # of days, too: an epoch that is on two days counts for the one on which it begins
    scope = scope_of_noise(mechanism)
    return scope == "cell" or (scope == "series" and unit == "roi_series")


def units_of_person(unit: str, n_days: int, steps: Sequence[TraceStep]) -> int | None:
    """Return how many units of a release one person changes at most; None if that is unlimited.

    ``n_days`` are its local days; trace steps may limit the events of a person.
    """
    caps = (one for one in steps if isinstance(one, CapContributions) and not is_foreign(type(one)))
    per_day = [step.per_day for step in caps]
    if unit == "event" and per_day:
        return min(per_day) * n_days
    return {"user": 1, "user_day": n_days}.get(unit)


def _pair(epsilon: float, delta: float) -> str:
    epsilon, delta = round_up(epsilon), round_up(delta)
    return f"ε {epsilon:.6g}" + (f", δ {delta:.6g}" if delta else "")


ACCOUNTED_DELTA = 1e-6
"""The δ that accounting may use in addition to those of the components."""

_CURVE = (1e-6, 1e-4, 1e-2, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
LARGEST_ACCOUNTED = 500.0
"""Sum of ε above which accounting saves nothing, and e^ε overflows."""


@dataclass(frozen=True, slots=True)
class UserLevel:
    """User-level privacy loss.

    Attributes
    ----------
    epsilon, delta
        Plain sums over everything the user is counted in (the basic composition theorem), for
        adding or removing the user.
    composed_epsilon, composed_delta
        The same by privacy-loss accounting: ε holds at this δ.
    curve
        Pairs (ε, δ) that hold for replacing the user by another, as in the distinguishability game,
        where group size is fixed.
    """

    epsilon: float
    delta: float
    composed_epsilon: float
    composed_delta: float
    curve: tuple[tuple[float, float], ...]


def loss_step(total: float) -> float:
    """Return the step of a grid for privacy losses whose ε add up to ``total``."""
    return max(1e-4, total / 200_000)  # grid of privacy losses: smallest step, most steps


def gaussian_epsilon(deviation: float, delta: float) -> float:
    """Return the exact ε at ``delta`` of normal noise (Balle and Wang, ICML 2018, Theorem 8).

    ``deviation`` is the standard deviation of the noise for an L2 sensitivity of 1.
    """
    from dp_accounting import get_epsilon_gaussian  # takes half a second to import

    with np.errstate(divide="ignore"):  # log(0) if δ underflows
        return float(get_epsilon_gaussian(deviation, delta))


_ORDERS = 1 + np.geomspace(1e-4, 1e6, 4000)


def concentrated_epsilon(rho: float, delta: float) -> float:
    """Return an ε at ``delta`` of ``rho``-zCDP (Canonne, Kamath and Steinke 2020, prop. 12)."""
    if not 0 < delta < 1:
        return np.inf if delta <= 0 else 0.0
    a = _ORDERS  # each is a bound, so the least one is
    bounds = a * rho + (a * np.log1p(-1 / a) - np.log(a - 1) - np.log(delta)) / (a - 1)
    return max(0.0, float(bounds.min()))


def user_level(mechanism: Mechanism, bounds: Bounds) -> UserLevel:
    """Return the user-level privacy loss of a bound mechanism.

    The privacy losses of the counts or series that a user changes, which ``bounds`` limit, are
    composed, whatever the unit of the stated guarantee. To replace a user is to remove one and
    add another, which doubles their number. ε is infinite if the mechanism has no guarantee
    from which it follows, as of one about replaced events.
    """
    loss = None if needs_equal_numbers(mechanism) else mechanism.user_privacy_loss(bounds)
    return UserLevel(np.inf, 0.0, np.inf, 0.0, ()) if loss is None else _convert(loss)


@cache
def _convert(loss: PrivacyLoss) -> UserLevel:
    epsilon, delta = loss.total(1)
    once, twice = loss.accountant(1), loss.accountant(2)
    composed_delta = min(1.0, loss.least_delta + ACCOUNTED_DELTA)
    curve = (loss.total(2), *((twice(delta), delta) for delta in _CURVE))
    return UserLevel(
        epsilon=epsilon,
        delta=delta,
        composed_epsilon=once(composed_delta),
        composed_delta=composed_delta,
        curve=tuple(pair for pair in curve if np.isfinite(pair[0])),
    )


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """Privacy loss of normal noise on a change of ``ratio`` deviations in L2 norm.

    ``delta`` is the δ at which the loss is stated; ``discrete`` noise is ½·ratio²-zCDP.
    """

    ratio: float
    delta: float
    discrete: bool = False
    least_delta: ClassVar[float] = 0.0

    def total(self, times: int) -> tuple[float, float]:
        """Return ε at ``delta``, exact for continuous noise, and ``delta``."""
        return self.accountant(times)(self.delta), self.delta

    def accountant(self, times: int) -> Callable[[float], float]:
        """Return the function from δ to ε."""
        # −1 in the cells of one user, +1 in those of the other: √2 times the L2 norm of one
        if self.discrete:
            return partial(concentrated_epsilon, self.ratio**2 * times / 2)
        return partial(gaussian_epsilon, 1 / (self.ratio * np.sqrt(times)))


def rho_of_unit(mechanism: Mechanism) -> float | None:
    """Return ρ of zero-concentrated privacy of one unit; None unless noise is discrete normal."""
    loss = mechanism.user_privacy_loss(Bounds(1, 1, 1, 1, 1, False))  # of one count
    if not isinstance(loss, GaussianLoss) or not loss.discrete:
        return None
    return float((loss.ratio * mechanism.guarantee.sensitivity) ** 2 / 2)


@dataclass(frozen=True, slots=True)
class ApproximateLoss:
    """Privacy loss of ``n`` independent (``epsilon``, ``delta``)-DP mechanisms.

    ``distinct``: whether a user who replaces another changes other parts than that user, such as
    counts; else all parts change twice, such as the series of one ROI in which both are.
    """

    n: int
    epsilon: float
    delta: float = 0.0
    distinct: bool = False

    @property
    def least_delta(self) -> float:
        """1 − (1 − δ)ⁿ."""
        return self.total(1)[1]

    def total(self, times: int) -> tuple[float, float]:
        """Return the basic composition of all components, ``times`` over: (nε, 1 − (1 − δ)ⁿ)."""
        many = self._repeated(times)
        with np.errstate(divide="ignore"):  # log(0) if δ is 1
            delta = -np.expm1(many.n * np.log1p(-many.delta))
        return many.n * many.epsilon, float(delta)

    def accountant(self, times: int) -> Callable[[float], float]:
        """Return the function from δ to the smallest known ε of all components."""
        many, (plain, least) = self._repeated(times), self.total(times)
        if not 0 < many.epsilon < LARGEST_ACCOUNTED or many.delta == 1:
            return lambda delta: plain if delta >= least else np.inf
        losses = many.distribution(loss_step(plain)).self_compose(many.n)

        def smallest_epsilon(delta: float) -> float:
            with np.errstate(over="ignore"):  # the loss of a tail of negligible mass is infinite
                accounted = float(losses.get_epsilon_for_delta(delta))
            return min(accounted, plain if delta >= least else np.inf)

        return smallest_epsilon

    def _repeated(self, times: int) -> "ApproximateLoss":
        if self.distinct:
            return replace(self, n=self.n * times)
        epsilon, delta = group_privacy(self.epsilon, self.delta, times)
        return replace(self, epsilon=epsilon, delta=delta)

    def distribution(self, step: float) -> Any:
        """Return the privacy-loss distribution of one component, rounded up, never down."""
        from dp_accounting.pld import common
        from dp_accounting.pld import privacy_loss_distribution as pld

        parameters = common.DifferentialPrivacyParameters(self.epsilon, self.delta)
        return pld.from_privacy_parameters(parameters, value_discretization_interval=step)


@dataclass(frozen=True, slots=True)
class LaplaceLoss(ApproximateLoss):
    """Privacy loss of Laplace noise on ``n`` counts that change by ``epsilon`` times its scale."""

    distinct: bool = True

    def distribution(self, step: float) -> Any:
        """Return that of one component, rounded up, never down."""
        from dp_accounting.pld import privacy_loss_distribution as pld

        return pld.from_laplace_mechanism(1 / self.epsilon, value_discretization_interval=step)
