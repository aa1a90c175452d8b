"""Check for hidden cells that follow from totals published with the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import Count, Values
from clusterscale.mechanisms.chain import steps_of
from clusterscale.mechanisms.rounding import RoundToBase
from clusterscale.mechanisms.scaling import BottomCode, Expand, ShareOfTotal, TopCode
from clusterscale.release.checks.count_intervals import count_bounds
from clusterscale.release.checks.table import (
    Check,
    CheckResult,
    PublishedTable,
    Whole,
    agree,
    smallest_shown,
    suppressed_up_to,
)
from clusterscale.release.intervals import Ranges, bound_counts
from clusterscale.release.relations import Relations
from clusterscale.validation_messages import plural

_ROUNDING = 1e-6  # of a visit: sums of floats
CHANGE_TOTALS = (RoundToBase, Expand, ShareOfTotal, TopCode, BottomCode)


class Totals(Check):
    """Check whether redacted or suppressed cells follow from totals of ROIs and of epochs.

    The check computes exactly which cells are equal in all tables of whole numbers that match the
    published values and the totals (Gusfield 1988). It is inconsistent if a hidden cell is
    determined, also if it is 0, or if no table has these totals.

    Totals are assumed to be those of the true counts. If each is the sum of the published cells,
    they add no information. A total of 0 next to suppressed cells may be suppressed itself and is
    ignored. For tables with noise the result is unknown, as no cell is determined exactly; and for
    values that are rounded, expanded, cut or relative, since totals may be changed likewise.

    Attributes
    ----------
    small
        Number of people below which a count discloses, e.g. ``5``; None: by the mechanism.
    """

    name: Literal["totals"] = "totals"
    compares: ClassVar[bool] = False
    small: Count | None = None

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return how many hidden cells are determined; ``others`` and ``rng`` are not used."""
        totals = _totals(table)
        n_totals = int(np.isfinite(totals).sum())
        if not n_totals:
            return CheckResult.of_faults(self.name, 0, 0, f"{table.name} has no totals")
        sums = np.concatenate([np.nansum(table.values, axis=axis) for axis in (1, 0)])
        if (np.isnan(totals) | (np.abs(totals - sums) < _ROUNDING)).all():
            text = (
                f"{plural(n_totals, 'total')}: only sums of published cells, which disclose nothing"
            )
            return CheckResult.of_faults(self.name, 0, table.values.size, text)
        if any(isinstance(step, CHANGE_TOTALS) for step in steps_of(table.mechanism)):
            text = (
                f"under {table.mechanism.label} totals may be changed as values are, so the check "
                "cannot decide what they disclose"
            )
            return CheckResult.unknown(self.name, table.values.size, text)
        bounds = count_bounds(table)
        if bounds is None:
            text = (
                f"under {table.mechanism.label} a value does not determine its count, so the check "
                "cannot decide what totals disclose"
            )
            return CheckResult.unknown(self.name, table.values.size, text)
        if suppressed_up_to(table.mechanism) is not None:
            totals[totals == 0] = np.nan
        return self._solved(table, *bounds, totals)

    def _solved(
        self, table: PublishedTable, low: Whole, high: Whole, totals: Values
    ) -> CheckResult:
        found = None if (totals % 1 > 0).any() else bound_cells(low, high, totals)
        if found is None or found.contradiction is not None:
            text = f"no counts that match {table.name} have the published totals"
            if np.isnan(table.values).any() and suppressed_up_to(table.mechanism) is not None:
                text += "; if larger values are hidden too, to protect others, declare exact"
            return CheckResult(self.name, "inconsistent", 0.0, 0.0, table.values.size, text)
        hidden = (low < high).ravel()
        hidden &= True if table.secondary is None else ~table.secondary.ravel()
        counts, most = found.low[: low.size], found.high[: low.size]
        counts = counts[hidden & (counts == most)]
        small = smallest_shown(self.small, table)
        n, n_small = len(counts), int(((counts >= 1) & (counts < small)).sum())
        text = (
            f"{n:,} of {plural(int(hidden.sum()), 'hidden cell')} {agree(n, 'follow')} from "
            f"the totals; {n_small:,} of them {agree(n_small, 'count')} 1 to {small - 1} people"
        )
        return CheckResult.of_faults(self.name, n, table.values.size, text)


def _totals(table: PublishedTable) -> Values:
    """Return the totals of ROIs and then of epochs, NaN where there are none."""
    published = zip(table.values.shape, (table.roi_totals, table.epoch_totals), strict=True)
    return np.concatenate([np.full(n, np.nan) if one is None else one for n, one in published])


def bound_cells(low: Whole, high: Whole, totals: Values) -> Ranges:
    """Return what totals say of cells with known bounds, and of the totals themselves.

    ``low`` and ``high`` are the smallest and largest count of each cell, int64, shape (roi, epoch),
    visits; totals are those of ROIs and then of epochs, whole float64, NaN where unknown. Raises
    InputError if they need a flow of 2³¹ or more.
    """
    cells = np.arange(low.size).reshape(low.shape)
    known = np.flatnonzero(~np.isnan(totals))
    lines = [*cells, *cells.T]
    relations = Relations.of((low.size + i, lines[line], True) for i, line in enumerate(known))
    stated = totals[known].astype(np.int64)
    least, largest = np.append(low, stated), np.append(high, stated)
    return bound_counts(least, largest, relations, most=0, wanted=np.empty(0, np.int64))
