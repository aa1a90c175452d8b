"""User-level privacy loss of a mechanism, by the accountants of ``dp-accounting``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from clusterscale.contracts import Bounds, Mechanism, PrivacyLossSpec

__all__ = ["ACCOUNTED_DELTA", "UserLevel", "gaussian_epsilon", "user_level"]

ACCOUNTED_DELTA = 1e-6
"""The δ that accounting may use in addition to those of the components."""

_CURVE = (1e-6, 1e-4, 1e-2, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
_HOPELESS = 500.0  # ε of a component: accounting saves nothing above it, and e^ε soon overflows
_FINEST, _MOST_STEPS = 1e-4, 200_000  # grid of privacy losses: smallest step, most steps


@dataclass(frozen=True, slots=True)
class UserLevel:
    """User-level privacy loss.

    ``epsilon`` and ``delta`` are the plain sums over everything the user is counted in (the basic
    composition theorem); ``composed_epsilon`` holds at ``composed_delta`` by privacy-loss
    accounting. Both are for adding or removing the user. ``curve`` has pairs (ε, δ) that hold for
    replacing the user by another, as in the distinguishability game, where group size is fixed.
    """

    epsilon: float
    delta: float
    composed_epsilon: float
    composed_delta: float
    curve: tuple[tuple[float, float], ...]


def gaussian_epsilon(deviation: float, delta: float) -> float:
    """Return the exact ε at ``delta`` of normal noise (Balle and Wang, ICML 2018, Theorem 8).

    ``deviation`` is the standard deviation of the noise for an L2 sensitivity of 1.
    """
    from dp_accounting import get_epsilon_gaussian  # takes half a second to import

    with np.errstate(divide="ignore"):  # log(0) if δ underflows
        return float(get_epsilon_gaussian(deviation, delta))


def user_level(mechanism: Mechanism, bounds: Bounds) -> UserLevel:
    """Return the user-level privacy loss of a bound mechanism.

    ``bounds`` limits how many counts a user changes by 1, or how many series. The privacy losses
    of these components are composed, whatever the unit of the stated guarantee. To replace a user
    is to remove one and add another, which doubles the number of components.
    """
    loss_spec = mechanism.user_privacy_loss(bounds)
    if loss_spec is None:
        return UserLevel(np.inf, 0.0, np.inf, 0.0, ())
    return _convert(loss_spec)


@cache
def _convert(loss_spec: PrivacyLossSpec) -> UserLevel:
    epsilon, delta = _sum(loss_spec, 1)
    once, twice = _accountant(loss_spec, 1), _accountant(loss_spec, 2)
    composed_delta = min(1.0, _own_delta(loss_spec) + ACCOUNTED_DELTA)
    curve = (_sum(loss_spec, 2), *((twice(delta), delta) for delta in _CURVE))
    return UserLevel(
        epsilon=epsilon,
        delta=delta,
        composed_epsilon=once(composed_delta),
        composed_delta=composed_delta,
        curve=tuple(pair for pair in curve if np.isfinite(pair[0])),
    )


def _sum(loss_spec: PrivacyLossSpec, times: int) -> tuple[float, float]:
    """Return the basic composition of all components, ``times`` over: (nε, 1 − (1 − δ)ⁿ)."""
    n = loss_spec.n * times
    if loss_spec.law == "laplace":
        return n * loss_spec.ratio, 0.0
    if loss_spec.law == "gaussian":
        return _accountant(loss_spec, times)(loss_spec.delta), loss_spec.delta
    return n * loss_spec.epsilon, float(-np.expm1(n * np.log1p(-loss_spec.delta)))


def _own_delta(loss_spec: PrivacyLossSpec) -> float:
    return 0.0 if loss_spec.law == "gaussian" else _sum(loss_spec, 1)[1]


def _accountant(loss_spec: PrivacyLossSpec, times: int) -> Callable[[float], float]:
    """Return the function from δ to the smallest known ε of all components, ``times`` over."""
    if loss_spec.law == "gaussian":
        # −1 in the cells of one user, +1 in those of the other: √2 times the L2 norm of one
        deviation = 1 / (loss_spec.ratio * np.sqrt(times))
        return lambda delta: gaussian_epsilon(deviation, delta)
    plain, least = _sum(loss_spec, times)
    if not 0 < _component_epsilon(loss_spec) < _HOPELESS:
        return lambda delta: plain if delta >= least else np.inf
    losses = _losses(loss_spec, loss_spec.n * times)

    def smallest_epsilon(delta: float) -> float:
        with np.errstate(over="ignore"):  # the loss of a tail of negligible mass is infinite
            accounted = float(losses.get_epsilon_for_delta(delta))
        return min(accounted, plain if delta >= least else np.inf)

    return smallest_epsilon


def _component_epsilon(loss_spec: PrivacyLossSpec) -> float:
    """Return the ε of one component."""
    return loss_spec.ratio if loss_spec.law == "laplace" else loss_spec.epsilon


def _losses(loss_spec: PrivacyLossSpec, n: int) -> Any:
    """Return the privacy-loss distribution of ``n`` components, rounded up, never down."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    epsilon = _component_epsilon(loss_spec)
    step = max(_FINEST, n * epsilon / _MOST_STEPS)
    if loss_spec.law == "laplace":
        component = pld.from_laplace_mechanism(1 / epsilon, value_discretization_interval=step)
    else:
        parameters = common.DifferentialPrivacyParameters(epsilon, loss_spec.delta)
        component = pld.from_privacy_parameters(parameters, value_discretization_interval=step)
    return component.self_compose(n)
