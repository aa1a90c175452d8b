"""Numbers of a screen: the AUCs of all users, one mechanism at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from clusterscale.report.figures import Floats
from clusterscale.screening import is_counted
from clusterscale.validation_messages import name_best

__all__ = ["AUC_LEVELS", "ScreenCase", "StrongestAttack", "read_places"]

AUC_LEVELS = (0.75, 0.9)
"""The AUC levels above which users are counted."""

_CURVE = 401  # points of a distribution; as many as a panel has pixels


@dataclass(frozen=True, slots=True, eq=False)
class StrongestAttack:
    """The attack with the highest mean AUC on a mechanism's releases, and its AUCs.

    ``attack`` names all attacks whose means are equal to three digits; the numbers are of the
    highest. ``auc`` has shape (user,), NaN for users with too few groups to compare and users who
    do not count (:func:`~clusterscale.screening.is_counted`). ``high`` is the 95th percentile over
    users, ``above`` the shares above :data:`AUC_LEVELS`, ``half`` half the mean width of the
    interval of a user's AUC, ``curve`` evenly spaced quantiles.
    """

    mechanism: str
    attack: str
    auc: NDArray[np.float32]
    mean: float
    high: float
    above: tuple[float, ...]
    half: float
    curve: Floats


@dataclass(frozen=True, slots=True, eq=False)
class ScreenCase:
    """A period and group size; ``label`` identifies them, and is empty if there is only one.

    ``n_users`` is the number of users who count, ``n_groups`` the median number of groups in which
    a user was compared, and ``n_events`` each user's events in the period, int64, shape (user,).
    """

    label: str
    period: str
    group_size: int
    n_users: int
    n_groups: int
    n_events: NDArray[np.int64]
    exposures: Sequence[StrongestAttack]

    @property
    def worst(self) -> StrongestAttack:
        """The mechanism that exposes most."""
        return max(self.exposures, key=lambda exposure: exposure.mean)

    @property
    def best(self) -> StrongestAttack:
        """The mechanism that exposes least."""
        return min(self.exposures, key=lambda exposure: exposure.mean)


def read_places(screened: xr.Dataset) -> Iterator[ScreenCase]:
    """Yield every period and group size with an AUC of any user, group sizes ascending."""
    screened = screened.sortby("group_size")
    several, counted = screened.sizes["period"] > 1, is_counted(screened)
    for period, size in product(screened.period.values, screened.group_size.values):
        chosen, counts = screened.sel(period=period, group_size=size), counted.sel(period=period)
        exposures = [
            exposure
            for mechanism in screened.mechanism.values
            if (exposure := _read(chosen.sel(mechanism=mechanism), counts.values)) is not None
        ]
        if exposures:
            parts = [str(period)] if several else []
            if several or screened.sizes["group_size"] > 1:
                parts.append(f"Groups of {int(size):,}")
            yield ScreenCase(
                " · ".join(parts),
                str(period),
                int(size),
                int(counts.sum()),
                int(np.median(chosen.n_groups.values[counts.values])),
                chosen.n_events.values,
                exposures,
            )


def _read(case: xr.Dataset, counts: NDArray[np.bool_]) -> StrongestAttack | None:
    auc = case.auc.transpose("user", "attack").values
    if not counts.all():
        auc = np.where(counts[:, None], auc, np.float32(np.nan))
    known = np.isfinite(auc)
    n = known.sum(axis=0)
    if not n.any():
        return None
    sums = np.where(known, auc, 0).sum(axis=0, dtype=np.float64)
    means = np.where(n > 0, sums / np.maximum(n, 1), -np.inf)
    best = int(means.argmax())
    values = auc[known[:, best], best].astype(np.float64)
    one = case.isel(attack=best)
    widths = (one.auc_high.values - one.auc_low.values)[known[:, best]]
    return StrongestAttack(
        mechanism=str(case.mechanism.item()),
        attack=name_best(case.attack.values, means),
        auc=auc[:, best],
        mean=float(values.mean()),
        high=float(np.quantile(values, 0.95)),
        above=tuple(float((values > level).mean()) for level in AUC_LEVELS),
        half=float(widths.mean(dtype=np.float64)) / 2,
        curve=np.quantile(values, np.linspace(0, 1, _CURVE)),
    )
