"""The numbers of a recovery's report, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from clusterscale.recovery import privacy_loss
from clusterscale.report.figures import Floats
from clusterscale.validation_messages import name_best

__all__ = ["BARE", "GOALS", "PRIOR", "Best", "Errors", "Goal", "find_best", "read_errors"]

BARE, PRIOR = 0, 0  # the places of bare counts, and of what is known without any release


@dataclass(frozen=True, slots=True)
class Goal:
    """What the adversary is after: ``profiling`` or ``localization``, and words for it."""

    name: str
    title: str
    error: str


GOALS = (
    Goal(
        "profiling",
        "Profiling: how likely a user is in each region",
        "Jensen–Shannon distance, mean over epochs",
    ),
    Goal("localization", "Localization: in which regions a user is", "1 − F1 over all epochs"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Errors of one goal.

    Arrays have the axes (mechanism, prior, strategy, user), ``of_epoch`` (…, epoch) instead. For
    localization a strategy's shares are read as it serves the adversary better on average.
    """

    goal: Goal
    mechanisms: tuple[str, ...]
    priors: tuple[str, ...]
    strategies: tuple[str, ...]
    error: Floats
    loss: Floats
    gain: Floats
    of_epoch: Floats


def read_errors(found: xr.Dataset, goal: Goal) -> Errors:
    """Read what a report says of one goal."""
    names = ["error", "loss", "gain", "error_of_epoch"]
    arrays = [found[f"{goal.name}_{name}"].values.astype(np.float64) for name in names]
    if goal.name == "localization":
        best = arrays[0].mean(axis=-1).argmin(axis=-1)
        arrays = [_pick(array, best) for array in arrays]
    mechanisms, priors, strategies = (
        tuple(map(str, found[dim].values)) for dim in ("mechanism", "prior", "strategy")
    )
    return Errors(goal, mechanisms, priors, strategies, *arrays)


def _pick(array: Floats, reading: Any) -> Floats:
    """Take one reading of each mechanism, prior and strategy."""
    return np.take_along_axis(array, reading[..., None, None], axis=-2)[..., 0, :]


@dataclass(frozen=True, slots=True)
class Best:
    """The best that an adversary reaches with bare counts, beside the best without any release.

    ``without`` names the priors with the lowest mean error without the release, ``known``;
    ``within`` the strategies and priors with the lowest from bare counts, ``left``. Several are
    named where they agree to three digits. ``share`` is what is gone of the error, 0 where bare
    counts do not help; ``hit`` the share of users whose error falls at all, ``hard`` the share of
    those who lose a quarter of it.
    """

    without: str
    known: float
    within: str
    left: float
    share: float
    hit: float
    hard: float


def find_best(errors: Errors) -> Best:
    """Return the best with bare counts and without, over all priors and strategies."""
    alone, bare = errors.error[BARE, :, PRIOR], errors.error[BARE, :, PRIOR + 1 :]
    names = [
        f"{strategy} with {prior}"
        for prior in errors.priors
        for strategy in errors.strategies[PRIOR + 1 :]
    ]
    known, left = alone.mean(axis=-1), bare.mean(axis=-1).ravel()
    gone = privacy_loss(alone[known.argmin()], bare.reshape(-1, bare.shape[-1])[left.argmin()])
    return Best(
        without=name_best(errors.priors, known, lowest=True),
        known=float(known.min()),
        within=name_best(names, left, lowest=True),
        left=float(left.min()),
        share=float(privacy_loss(known.min(), left.min())),
        hit=float((gone > 0).mean()),
        hard=float((gone >= 0.25).mean()),
    )
