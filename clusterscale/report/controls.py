"""Negative controls, and the comparison of attacks with the sum of published values."""

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
    """Result of one negative control.

    ``verdict`` is ``chance``, ``off`` or ``unknown``; ``mean`` is the mean AUC of the control,
    ``n_cells`` the number of cells (setting, group size, attack) that could be tested, and ``off``
    lists those whose control differs from 0.5 by more than sampling explains.
    """

    verdict: Verdict
    mean: float
    n_cells: int
    off: tuple[SummaryRow, ...]


@dataclass(frozen=True, slots=True)
class Controls:
    """The controls of an audit.

    ``shuffled`` trains on shuffled labels; ``absent`` replaces the target by another user in all
    groups. ``weak`` lists the cells where the sum of all published values recognises the target
    better than chance, and the attack does no better than the sum.
    """

    shuffled: Control
    absent: Control
    weak: tuple[SummaryRow, ...]

    @property
    def verdict(self) -> Verdict:
        """``off`` if either control is off; ``unknown`` if neither could be tested."""
        verdicts = (self.shuffled.verdict, self.absent.verdict)
        return "off" if "off" in verdicts else "chance" if "chance" in verdicts else "unknown"


def check_controls(table: Cases) -> Controls:
    """Compare every control with chance, and every attack with the sum of published values.

    The tests are those of :func:`off_cells` over both controls together: an audit without fault is
    reported as off at most once in 100 audits.
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
