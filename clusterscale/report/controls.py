"""Whether what should be at chance is, and whether attacks do better than adding up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.report.summary import Cases, Floats, Row, mean, row

__all__ = ["Control", "Controls", "check_controls", "off_cells", "weak_cells"]

Verdict = Literal["chance", "off", "unknown"]
Cells = NDArray[np.bool_]

_RISK = 0.01


@dataclass(frozen=True, slots=True)
class Control:
    """Whether attacks stay at chance where there is nothing to tell.

    ``verdict`` is ``chance``, ``off`` or ``unknown``; ``mean`` is the mean AUC of the control,
    ``n_cells`` counts the cells (setting, group size, attack) that could be judged, and ``off``
    lists those whose control leaves .5 by more than sampling explains.
    """

    verdict: Verdict
    mean: float
    n_cells: int
    off: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Controls:
    """The controls of an audit.

    ``shuffled`` trains on shuffled labels, ``absent`` asks about groups with another user wherever
    the target was. ``weak`` lists the cells where adding up all published values tells the target
    better than chance, and the attack does no better than that.
    """

    shuffled: Control
    absent: Control
    weak: tuple[Row, ...]

    @property
    def verdict(self) -> Verdict:
        """``off`` if either control is; ``unknown`` if neither could be judged."""
        verdicts = (self.shuffled.verdict, self.absent.verdict)
        return "off" if "off" in verdicts else "chance" if "chance" in verdicts else "unknown"


def check_controls(table: Cases) -> Controls:
    """Compare every control with chance, and every attack with adding up.

    The tests are those of :func:`off_cells` over both controls together: an audit without fault is
    reported off at most once in 100 audits.
    """
    both = off_cells(table.control, table.absent)
    shuffled, absent = (
        _control(table, values, off)
        for values, off in zip((table.control, table.absent), both, strict=True)
    )
    weak = np.argwhere(weak_cells(table.auc, table.naive)).tolist()
    return Controls(shuffled, absent, tuple(row(table, *cell) for cell in weak))


def off_cells(*controls: Floats) -> list[Cells]:
    """Return where controls leave .5 by more than sampling explains.

    Two-sided t-tests over the targets of each cell, at a risk of 1 in 100 that is shared by all
    cells of all controls (Bonferroni).

    Parameters
    ----------
    *controls
        AUC of each control, shape (…, target); not a number where it is not known. Cells with
        fewer than two are not judged.

    Returns
    -------
    list of bool arrays
        One a control, shape (…).
    """
    n_cells = sum(int(_usable(values).sum()) for values in controls)
    level = _RISK / max(1, n_cells) / 2
    return [np.abs(_lead(values)) > _reach(values, level) for values in controls]


def weak_cells(auc: Floats, naive: Floats) -> Cells:
    """Return where adding up beats chance and the attack does no better, bool, shape (…).

    Where even adding up is at chance, an attack at chance is no sign of weakness: there may be
    nothing to find. That it beats chance is told by one-sided t-tests at a shared risk of 1 in 100.

    Parameters
    ----------
    auc, naive
        Of the attack and of adding up, shape (…, target); not a number where not known.
    """
    level = _RISK / max(1, int(_usable(naive).sum()))
    return np.asarray((_lead(naive) > _reach(naive, level)) & (_means(auc - naive) <= 1e-9))


def _control(table: Cases, values: Floats, off: Cells) -> Control:
    n_cells = int(_usable(values).sum())
    verdict: Verdict = "off" if off.any() else "chance" if n_cells else "unknown"
    rows = tuple(row(table, *cell) for cell in np.argwhere(off).tolist())
    return Control(verdict, mean(values), n_cells, rows)


def _usable(values: Floats) -> Cells:
    return np.asarray(np.isfinite(values).sum(axis=-1) >= 2)


def _means(values: Floats) -> Floats:
    """Return means over known targets, shape (…), NaN where there are none."""
    known = np.isfinite(values)
    n = known.sum(axis=-1)
    return np.where(n > 0, np.where(known, values, 0.0).sum(axis=-1) / np.maximum(n, 1), np.nan)


def _lead(values: Floats) -> Floats:
    return np.asarray(_means(values) - 0.5)


def _reach(values: Floats, level: float) -> Floats:
    """Return how far means may be off chance at a one-sided ``level``; NaN where not usable."""
    n = np.isfinite(values).sum(axis=-1)
    few = np.maximum(n - 1, 1)
    away = values - _means(values)[..., None]
    variance = (np.where(np.isfinite(away), away, 0.0) ** 2).sum(axis=-1) / few
    reach = np.sqrt(variance / np.maximum(n, 1)) * scipy.stats.t.isf(level, few)
    # rounding alone must not condemn a control that is .5 for every target
    return np.where(n >= 2, reach + 1e-9, np.nan)
