"""The numbers of a recovery's report, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from clusterscale.report.figures import Floats

__all__ = ["BARE", "GOALS", "PRIOR", "Errors", "Goal", "Strongest"]
__all__ += ["closest", "read_errors", "strongest"]

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
class Strongest:
    """Where bare counts take most from the error of the prior alone.

    ``known`` and ``left`` are mean errors without and with the release, ``loss`` the mean privacy
    loss, ``hit`` the share of users whose error falls at all, ``hard`` those that lose a quarter.
    """

    prior: str
    strategy: str
    known: float
    left: float
    loss: float
    hit: float
    hard: float


def strongest(errors: Errors) -> Strongest | None:
    """Return the prior and strategy of the highest mean loss; None where nothing helps."""
    bare = errors.loss[BARE].mean(axis=-1)
    prior, strategy = np.unravel_index(np.argmax(bare), bare.shape)
    if not bare[prior, strategy] > 0:
        return None
    loss = errors.loss[BARE, prior, strategy]
    return Strongest(
        prior=errors.priors[prior],
        strategy=errors.strategies[strategy],
        known=float(errors.error[BARE, prior, PRIOR].mean()),
        left=float(errors.error[BARE, prior, strategy].mean()),
        loss=float(loss.mean()),
        hit=float((loss > 0).mean()),
        hard=float((loss >= 0.25).mean()),
    )


def closest(errors: Errors) -> tuple[str, str, float]:
    """Return the prior and strategy of the lowest mean error from bare counts, and that error."""
    mean = errors.error[BARE].mean(axis=-1)
    prior, strategy = np.unravel_index(np.argmin(mean), mean.shape)
    return errors.priors[prior], errors.strategies[strategy], float(mean[prior, strategy])
