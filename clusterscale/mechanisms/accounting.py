"""What a guarantee means for all of one user, by the accountants of ``dp-accounting``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from clusterscale.contracts import Bounds, Mechanism, PrivacyLossSpec

__all__ = ["ACCOUNTED_DELTA", "UserLevel", "gaussian_epsilon", "user_level"]

ACCOUNTED_DELTA = 1e-6
"""The δ that accounting may use beside those of the parts."""

_CURVE = (1e-6, 1e-4, 1e-2, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
_HOPELESS = 500.0  # ε of one part from which on nothing is saved, and e^ε soon overflows
_FINEST, _MOST_STEPS = 1e-4, 200_000  # of the grid of privacy losses


@dataclass(frozen=True, slots=True)
class UserLevel:
    """What the presence of all of one user can change.

    ``epsilon`` and ``delta`` are the plain sums over all that the user is counted in (the basic
    composition theorem), ``composed_epsilon`` holds at ``composed_delta`` by accounting of privacy
    losses; both under adding or removing the user. ``curve`` are pairs (ε, δ) that hold when the
    user is replaced by another, as in the distinguishability game, where groups keep their size.
    """

    epsilon: float
    delta: float
    composed_epsilon: float
    composed_delta: float
    curve: tuple[tuple[float, float], ...]


def gaussian_epsilon(deviation: float, delta: float) -> float:
    """Return the exact ε at ``delta`` of normal noise (Balle and Wang, ICML 2018, Theorem 8).

    ``deviation`` is that of the noise for one unit of L2 sensitivity.
    """
    from dp_accounting import get_epsilon_gaussian  # half a second, spared those who need none

    with np.errstate(divide="ignore"):  # the logarithm of a δ that is too small for a float
        return float(get_epsilon_gaussian(deviation, delta))


def user_level(mechanism: Mechanism, bounds: Bounds) -> UserLevel:
    """Convert the guarantee of a bound mechanism to that for all of one user.

    A user changes no more than ``bounds`` says: so many counts by 1, or so many series. What is
    spent on each is composed; the unit of the stated guarantee does not matter. Replacing a user
    is removing one and adding another, which takes twice as many parts.
    """
    spending = mechanism.user_privacy_loss(bounds)
    if spending is None:
        return UserLevel(np.inf, 0.0, np.inf, 0.0, ())
    return _convert(spending)


@cache
def _convert(spending: PrivacyLossSpec) -> UserLevel:
    epsilon, delta = _sum(spending, 1)
    once, twice = _accountant(spending, 1), _accountant(spending, 2)
    composed_delta = min(1.0, _own_delta(spending) + ACCOUNTED_DELTA)
    curve = (_sum(spending, 2), *((twice(delta), delta) for delta in _CURVE))
    return UserLevel(
        epsilon=epsilon,
        delta=delta,
        composed_epsilon=once(composed_delta),
        composed_delta=composed_delta,
        curve=tuple(pair for pair in curve if np.isfinite(pair[0])),
    )


def _sum(spending: PrivacyLossSpec, times: int) -> tuple[float, float]:
    """Return the plain sum of all parts, ``times`` over: (nε, 1 − (1 − δ)ⁿ)."""
    n = spending.n * times
    if spending.law == "laplace":
        return n * spending.ratio, 0.0
    if spending.law == "gaussian":
        return _accountant(spending, times)(spending.delta), spending.delta
    return n * spending.epsilon, float(-np.expm1(n * np.log1p(-spending.delta)))


def _own_delta(spending: PrivacyLossSpec) -> float:
    return 0.0 if spending.law == "gaussian" else _sum(spending, 1)[1]


def _accountant(spending: PrivacyLossSpec, times: int) -> Callable[[float], float]:
    """Return the least ε known at a given δ, for all parts ``times`` over."""
    if spending.law == "gaussian":
        # two users' counts are apart, so replacing one by the other moves √2 times as much
        deviation = 1 / (spending.ratio * np.sqrt(times))
        return lambda delta: gaussian_epsilon(deviation, delta)
    plain, least = _sum(spending, times)
    if not 0 < _each(spending) < _HOPELESS:
        return lambda delta: plain if delta >= least else np.inf
    losses = _losses(spending, spending.n * times)

    def found(delta: float) -> float:
        with np.errstate(over="ignore"):  # a tail of next to no mass: its loss is infinite
            accounted = float(losses.get_epsilon_for_delta(delta))
        return min(accounted, plain if delta >= least else np.inf)

    return found


def _each(spending: PrivacyLossSpec) -> float:
    """Return ε of one part."""
    return spending.ratio if spending.law == "laplace" else spending.epsilon


def _losses(spending: PrivacyLossSpec, n: int) -> Any:
    """Return the distribution of the privacy losses of ``n`` parts, rounded up, never down."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    each = _each(spending)
    step = max(_FINEST, n * each / _MOST_STEPS)
    if spending.law == "laplace":
        part = pld.from_laplace_mechanism(1 / each, value_discretization_interval=step)
    else:
        parameters = common.DifferentialPrivacyParameters(each, spending.delta)
        part = pld.from_privacy_parameters(parameters, value_discretization_interval=step)
    return part.self_compose(n)
