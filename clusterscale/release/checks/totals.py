"""Check for hidden cells that follow from totals published with the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import Count, Values
from clusterscale.mechanisms.chain import steps_of
from clusterscale.mechanisms.rounding import RoundToBase
from clusterscale.mechanisms.scaling import BottomCode, Expand, ShareOfTotal, TopCode
from clusterscale.release.cells import UNKNOWN
from clusterscale.release.checks.count_intervals import count_bounds
from clusterscale.release.checks.table import (
    Check,
    CheckResult,
    Flags,
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

    The check computes exactly which cells and totals are equal in all tables of whole numbers that
    match the published values and the totals (Gusfield 1988). It is inconsistent if a hidden cell
    or a hidden total is determined, also if it is 0, or if no table has these totals.

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
        totals, are_hidden = _totals(table)
        n_totals = int(np.isfinite(totals).sum())
        if not n_totals:
            return CheckResult.of_faults(self.name, 0, 0, f"{table.name} has no totals")
        sums = np.concatenate([np.nansum(table.values, axis=axis).ravel() for axis in (1, 0, None)])
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
        largest = suppressed_up_to(table.mechanism) or 0
        if n := int(((totals > 0) & (totals <= largest)).sum()):
            text = (
                f"{plural(n, 'total')} {agree(n, 'show')} 1 to {largest:,} people, whom "
                f"{table.mechanism.label} hides"
            )
            return CheckResult.of_faults(self.name, n, table.values.size, text)
        bounds = count_bounds(table)
        if bounds is None:
            text = (
                f"under {table.mechanism.label} a value does not determine its count, so the check "
                "cannot decide what totals disclose"
            )
            return CheckResult.unknown(self.name, table.values.size, text)
        if suppressed_up_to(table.mechanism) is not None:
            totals[totals == 0] = np.nan
        return self._solved(table, *bounds, totals, are_hidden)

    def _solved(
        self, table: PublishedTable, low: Whole, high: Whole, totals: Values, are_hidden: Flags
    ) -> CheckResult:
        fractions = bool((totals % 1 > 0).any())
        found = None if fractions else bound_cells(low, high, totals, are_hidden)
        if found is None or found.contradiction is not None:
            text = f"no counts that match {table.name} have the published totals"
            if np.isnan(table.values).any() and suppressed_up_to(table.mechanism) is not None:
                text += "; if larger values are hidden too, to protect others, declare exact"
            return CheckResult(self.name, "inconsistent", 0.0, 0.0, table.values.size, text)
        hidden = (low < high).ravel()
        hidden &= True if table.secondary is None else ~table.secondary.ravel()
        hidden, counts, most = np.append(hidden, are_hidden), found.low, found.high
        counts = counts[hidden & (counts == most)]
        small = smallest_shown(self.small, table)
        n, n_small = len(counts), int(((counts >= 1) & (counts < small)).sum())
        text = (
            f"{n:,} of {plural(int(hidden.sum()), 'hidden cell')} {agree(n, 'follow')} from "
            f"the totals; {n_small:,} of them {agree(n_small, 'count')} 1 to {small - 1} people"
        )
        return CheckResult.of_faults(self.name, n, table.values.size, text)


def _totals(table: PublishedTable) -> tuple[Values, Flags]:
    """Return the totals of ROIs, of epochs and of both, NaN where none, and which are hidden."""
    totals, hidden = list[Values](), list[Flags]()
    every = table.roi_totals, table.epoch_totals, table.grand_total
    for i, (n, one) in enumerate(zip((*table.values.shape, 1), every, strict=True)):
        totals.append(np.full(n, np.nan) if one is None else one)
        listed = table.listed[i] if table.listed else one is not None
        hidden.append(np.isnan(totals[-1]) & listed)
    return np.concatenate(totals), np.concatenate(hidden)


def bound_cells(low: Whole, high: Whole, totals: Values, hidden: Flags) -> Ranges:
    """Return what totals say of cells with known bounds, and of the totals themselves.

    ``low`` and ``high`` are the smallest and largest count of each cell, int64, shape (roi, epoch),
    visits; totals are those of ROIs, of epochs and of both, whole float64, NaN where unknown, and
    what follows for those that are ``hidden`` is wanted too; both of shape (total,). Raises
    InputError if they need a flow of 2³¹ or more.
    """
    n, known = low.size, ~np.isnan(totals)
    cells, at = np.arange(n).reshape(low.shape), n + np.arange(len(totals))
    lines = [*cells, *cells.T]
    largest = np.array([min(int(high.ravel()[line].sum()), UNKNOWN) for line in (*lines, cells)])
    used = known | hidden | known[-1]  # all others are parts of a total of both
    rows = [(int(at[i]), line, True) for i, line in enumerate(lines) if used[i]]
    if used[-1]:
        by_place, by_time, _ = np.split(at, np.cumsum(low.shape))
        rows += [(int(at[-1]), some, True) for some in (by_place, by_time)]
    least, most = (np.append(one, np.where(known, totals, end)).astype(np.int64)
                   for one, end in ((low, 0), (high, largest)))  # fmt: skip
    return bound_counts(least, most, Relations.of(rows), most=0, wanted=np.empty(0, np.int64))
