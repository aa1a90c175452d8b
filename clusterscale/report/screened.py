"""How exposed everyone is, by a screen: a distribution, and nobody in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr

from clusterscale.report.summary import mean

__all__ = ["ABOVE", "Exposed", "Exposure", "read_exposure"]

ABOVE = (0.75, 0.9)
"""The AUC levels above which users are counted."""


@dataclass(frozen=True, slots=True)
class Exposed:
    """What the attack of the highest mean AUC reaches under a mechanism.

    ``high`` is the AUC that 95 % of the users do not pass, ``above`` the shares of users above
    each of :data:`ABOVE`, ``half`` the mean of half an interval of 95 %.
    """

    mechanism: str
    attack: str
    mean: float
    high: float
    above: tuple[float, ...]
    half: float


@dataclass(frozen=True, slots=True)
class Exposure:
    """A period and group size, groups compared (the median of the users), a line a mechanism."""

    period: str
    group_size: int
    n_groups: int
    lines: tuple[Exposed, ...]


def read_exposure(screened: xr.Dataset) -> Iterator[Exposure]:
    """Yield every period and group size; of a large screen one mechanism is in memory at a time."""
    for period, size in product(screened.period.values, screened.group_size.values):
        chosen = screened.sel(period=period, group_size=size)
        lines = tuple(_strongest(chosen.sel(mechanism=name)) for name in chosen.mechanism.values)
        yield Exposure(str(period), int(size), int(np.median(chosen.n_groups.values)), lines)


def _strongest(case: xr.Dataset) -> Exposed:
    auc = case.auc.transpose("user", "attack").values
    means = np.array([mean(values) for values in auc.T])
    best = int(np.argmax(np.nan_to_num(means, nan=-1.0)))
    chosen = case.isel(attack=best)
    known = auc[np.isfinite(auc[:, best]), best]
    return Exposed(
        mechanism=str(case.mechanism.values),
        attack=str(case.attack.values[best]),
        mean=float(means[best]),
        high=float(np.quantile(known, 0.95)) if len(known) else np.nan,
        above=tuple(mean(known > level) for level in ABOVE),
        half=mean((chosen.auc_high.values - chosen.auc_low.values) / 2),
    )
