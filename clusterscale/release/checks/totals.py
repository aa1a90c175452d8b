"""Check for hidden cells that follow from totals published with the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Count, Values
from clusterscale.mechanisms.chain import steps_of
from clusterscale.mechanisms.rounding import RoundToBase
from clusterscale.mechanisms.scaling import BottomCode, Expand, ShareOfTotal, TopCode
from clusterscale.release.checks.table import (
    Check,
    CheckResult,
    Flags,
    PublishedTable,
    Whole,
    agree,
    count_bounds,
    fill_suppressed,
    smallest_shown,
    suppressed_up_to,
)
from clusterscale.release.intervals import Relations, bound_counts
from clusterscale.validation_messages import plural

_ROUNDING = 1e-6  # of a visit: sums of floats
CHANGE_TOTALS = (RoundToBase, Expand, ShareOfTotal, TopCode, BottomCode)


class Totals(Check):
    """Check whether redacted or suppressed cells follow from totals of ROIs and of epochs.

    The check computes exactly which cells are equal in all tables of whole numbers that match the
    published values and the totals (Gusfield 1988). It is inconsistent if a hidden cell is
    determined, other than a published 0 whose count is 0, or if no table has these totals.

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
        rois, epochs = _totals(table)
        n_totals = int(np.isfinite(rois).sum() + np.isfinite(epochs).sum())
        if not n_totals:
            return CheckResult.of_faults(self.name, 0, 0, f"{table.name} has no totals")
        if _are_sums(table, rois, epochs):
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
        return self._solved(table, *bounds, *_unsuppressed(table, rois, epochs))

    def _solved(
        self,
        table: PublishedTable,
        low: NDArray[np.int64],
        high: NDArray[np.int64],
        rois: Values,
        epochs: Values,
    ) -> CheckResult:
        hidden = low < high
        n_hidden = int(hidden.sum())
        whole = all(
            bool((np.isnan(totals) | (totals == np.rint(totals))).all())
            for totals in (rois, epochs)
        )
        solution = solve(low, high, rois, epochs) if whole else None
        if solution is None:
            text = f"no counts that match {table.name} have the published totals"
            if np.isnan(table.values).any() and suppressed_up_to(table.mechanism) is not None:
                text += "; if larger values are hidden too, to protect others, declare exact"
            return CheckResult(self.name, "inconsistent", 0.0, 0.0, table.values.size, text)
        known = hidden & solution.determined & (fill_suppressed(table) != solution.counts)
        small, counts = smallest_shown(self.small, table), solution.counts[known]
        n_small = int(np.count_nonzero((counts >= 1) & (counts < small)))
        n = len(counts)
        text = (
            f"{n:,} of {plural(n_hidden, 'hidden cell')} {agree(n, 'follow')} from the totals; "
            f"{n_small:,} of them {agree(n_small, 'count')} 1 to {small - 1} people"
        )
        return CheckResult.of_faults(self.name, n, table.values.size, text)


def _totals(table: PublishedTable) -> tuple[Values, Values]:
    """Return the totals, NaN where there are none, shapes (roi,) and (epoch,)."""
    published = (table.roi_totals, table.epoch_totals)
    rois, epochs = (
        np.full(n, np.nan) if totals is None else totals
        for n, totals in zip(table.values.shape, published, strict=True)
    )
    return rois, epochs


def _are_sums(table: PublishedTable, rois: Values, epochs: Values) -> bool:
    """Return whether each total is the sum of the published cells."""
    sums = (np.nansum(table.values, axis=1), np.nansum(table.values, axis=0))
    return all(
        bool((np.isnan(totals) | (np.abs(totals - total) < _ROUNDING)).all())
        for totals, total in zip((rois, epochs), sums, strict=True)
    )


def _unsuppressed(table: PublishedTable, rois: Values, epochs: Values) -> tuple[Values, Values]:
    """Return the totals, with NaN for those that may be suppressed."""
    if suppressed_up_to(table.mechanism) is None:
        return rois, epochs
    return np.where(rois == 0, np.nan, rois), np.where(epochs == 0, np.nan, epochs)


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """One table with the totals, and the cells that are equal in all such tables.

    ``counts`` are int64 visits, those of ``determined`` cells; both of shape (roi, epoch).
    """

    counts: Whole
    determined: Flags


def solve(
    low: Whole, high: Whole, roi_totals: NDArray[np.float64], epoch_totals: NDArray[np.float64]
) -> Solution | None:
    """Return which cells with known bounds are determined by the totals; None if no table has them.

    ``low`` and ``high`` are the smallest and largest count of each cell, int64, shape (roi, epoch),
    visits; totals are whole float64, NaN where unknown. Raises InputError if they need a flow of
    2³¹ or more.
    """
    cells = np.arange(low.size).reshape(low.shape)
    totals = np.concatenate([roi_totals, epoch_totals])
    known = np.flatnonzero(~np.isnan(totals))
    lines = [*cells, *cells.T]
    relations = Relations.of((low.size + i, lines[line], True) for i, line in enumerate(known))
    stated = totals[known].astype(np.int64)
    least, largest = (np.concatenate([end.ravel(), stated]) for end in (low, high))
    found = bound_counts(least, largest, relations, most=0)
    if found.contradiction is not None:
        return None
    counts = np.asarray(found.low[: low.size].reshape(*low.shape), np.int64)
    return Solution(counts, counts == found.high[: low.size].reshape(*low.shape))
