"""Errors of a recovery, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from clusterscale.recovery import privacy_loss
from clusterscale.report.figures import Floats
from clusterscale.validation_messages import name_best

__all__ = ["BARE", "GOALS", "PRIOR", "Best", "Errors", "Goal", "find_best", "read_errors"]

BARE, PRIOR = 0, 0  # indices of the mechanism of raw counts, and of the strategy without a release


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal of the adversary: ``profiling`` or ``localization``, with a title and its error."""

    name: str
    title: str
    error: str


GOALS = (
    Goal(
        "profiling",
        "Profiling: the probability that a user is in each region",
        "Jensen–Shannon distance, mean over epochs",
    ),
    Goal("localization", "Localization: the regions where a user is", "1 − F1 over all epochs"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Errors for one goal.

    Arrays have the axes (mechanism, prior, strategy, user), ``of_epoch`` (…, epoch) instead. For
    localization, each strategy uses the decision rule with the lower mean error.
    """

    goal: Goal
    mechanisms: tuple[str, ...]
    priors: tuple[str, ...]
    strategies: tuple[str, ...]
    error: Floats
    loss: Floats
    gain: Floats
    of_epoch: Floats


def read_errors(recovered: xr.Dataset, goal: Goal) -> Errors:
    """Return the errors of a recovery for one goal."""
    names = ["error", "loss", "gain", "error_of_epoch"]
    arrays = [recovered[f"{goal.name}_{name}"].values.astype(np.float64) for name in names]
    if goal.name == "localization":
        best = arrays[0].mean(axis=-1).argmin(axis=-1)
        arrays = [_pick(array, best) for array in arrays]
    mechanisms, priors, strategies = (
        tuple(map(str, recovered[dim].values)) for dim in ("mechanism", "prior", "strategy")
    )
    return Errors(goal, mechanisms, priors, strategies, *arrays)


def _pick(array: Floats, reading: Any) -> Floats:
    """Return the chosen decision rule of each mechanism, prior and strategy."""
    return np.take_along_axis(array, reading[..., None, None], axis=-2)[..., 0, :]


@dataclass(frozen=True, slots=True)
class Best:
    """Lowest mean error of an adversary with raw counts, and without any release.

    ``without`` names the priors with the lowest mean error without the release, ``known``;
    ``within`` the strategies and priors with the lowest from raw counts, ``left``. Several are
    named if equal to three digits. ``share`` is the relative reduction of the error, 0 if raw
    counts do not help; ``hit`` the share of users whose error decreases, ``hard`` the share of
    users whose error decreases by a quarter or more.
    """

    without: str
    known: float
    within: str
    left: float
    share: float
    hit: float
    hard: float


def find_best(errors: Errors) -> Best:
    """Return the best with raw counts and without, over all priors and strategies."""
    alone, raw = errors.error[BARE, :, PRIOR], errors.error[BARE, :, PRIOR + 1 :]
    names = [
        f"{strategy} with {prior}"
        for prior in errors.priors
        for strategy in errors.strategies[PRIOR + 1 :]
    ]
    known, left = alone.mean(axis=-1), raw.mean(axis=-1).ravel()
    reduction = privacy_loss(alone[known.argmin()], raw.reshape(-1, raw.shape[-1])[left.argmin()])
    return Best(
        without=name_best(errors.priors, known, lowest=True),
        known=float(known.min()),
        within=name_best(names, left, lowest=True),
        left=float(left.min()),
        share=float(privacy_loss(known.min(), left.min())),
        hit=float((reduction > 0).mean()),
        hard=float((reduction >= 0.25).mean()),
    )
