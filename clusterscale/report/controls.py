"""Whether what should be at chance is, and whether attacks do better than adding up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.metrics import is_judged, off_cells, weak_cells
from clusterscale.report.summary import Cases, Floats, SummaryRow, mean, row

__all__ = ["Control", "Controls", "check_controls"]

Verdict = Literal["chance", "off", "unknown"]
Cells = NDArray[np.bool_]


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
    off: tuple[SummaryRow, ...]


@dataclass(frozen=True, slots=True)
class Controls:
    """The controls of an audit.

    ``shuffled`` trains on shuffled labels, ``absent`` asks about groups with another user wherever
    the target was. ``weak`` lists the cells where adding up all published values tells the target
    better than chance, and the attack does no better than that.
    """

    shuffled: Control
    absent: Control
    weak: tuple[SummaryRow, ...]

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


def _control(table: Cases, values: Floats, off: Cells) -> Control:
    n_cells = int(is_judged(values).sum())
    verdict: Verdict = "off" if off.any() else "chance" if n_cells else "unknown"
    rows = tuple(row(table, *cell) for cell in np.argwhere(off).tolist())
    return Control(verdict, mean(values), n_cells, rows)
