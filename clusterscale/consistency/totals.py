"""Redacted cells that follow from totals published beside the table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.consistency.differencing import smallest_shown
from clusterscale.consistency.finding import CheckResult, told
from clusterscale.consistency.table import (
    PublishedTable,
    count_bounds,
    fill_suppressed,
    suppressed_up_to,
)
from clusterscale.consistency.transport_bounds import solve
from clusterscale.contracts import ConfigModel, Count, Values

__all__ = ["Totals"]

Level = Literal["consistent", "inconsistent", "unknown"]

_ROUNDING = 1e-6  # of a visit: sums of floats


class Totals(ConfigModel):
    """Whether cells that are redacted or suppressed follow from totals of ROIs and of epochs.

    Of all tables of whole numbers that have what is published, and the totals, it is found out
    where they are the same, exactly (Gusfield 1988). A hidden cell that is known so is
    inconsistent, but for a published 0 that is one; so are totals that no table has.

    Totals are taken for those of the true counts. Where each is the sum of the cells published they
    add nothing. A total of 0 beside suppressed cells may be suppressed itself and is left out. Of
    tables with noise nothing is known so, however much the totals narrow it down: that is unknown.
    """

    name: Literal["totals"] = "totals"
    compares: ClassVar[bool] = False
    small: Count | None = None

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return how many hidden cells are known; ``others`` and ``rng`` are not used."""
        rois, epochs = _totals(table)
        n_totals = int(np.isfinite(rois).sum() + np.isfinite(epochs).sum())
        if not n_totals:
            return self._found("consistent", 0, 0, f"{table.name} has no totals beside it")
        if _are_sums(table, rois, epochs):
            text = f"{told(n_totals, 'total')} are the sums of what is published, and add nothing"
            return self._found("consistent", 0, table.values.size, text)
        behind = count_bounds(table)
        if behind is None:
            text = (
                f"under {table.mechanism.label} no count is known from its cell, so what totals "
                "add is not worked out"
            )
            return self._found("unknown", 0, table.values.size, text)
        return self._solved(table, *behind, *_unsuppressed(table, rois, epochs))

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
            bool((np.isnan(each) | (each == np.rint(each))).all()) for each in (rois, epochs)
        )
        solution = solve(low, high, rois, epochs) if whole else None
        if solution is None:
            text = f"no counts that {table.name} can stand for have the totals beside it"
            return self._found("inconsistent", 0, table.values.size, text)
        known = hidden & solution.sure & (fill_suppressed(table) != solution.counts)
        small, counts = smallest_shown(self.small, table), solution.counts[known]
        n_small = int(np.count_nonzero((counts >= 1) & (counts < small)))
        text = (
            f"{len(counts):,} of {told(n_hidden, 'hidden cell')} follow from the totals, "
            f"{n_small:,} of them of 1 to {small - 1} people"
        )
        level: Level = "inconsistent" if len(counts) else "consistent"
        return self._found(level, len(counts), table.values.size, text)

    def _found(self, level: Level, n: int, n_cells: int, text: str) -> CheckResult:
        measured, expected = (np.nan, np.nan) if level == "unknown" else (float(n), 0.0)
        return CheckResult(self.name, level, measured, expected, n_cells, text)


def _totals(table: PublishedTable) -> tuple[Values, Values]:
    """Return the totals, not a number where there are none, shapes (roi,) and (epoch,)."""
    given = (table.roi_totals, table.epoch_totals)
    rois, epochs = (
        np.full(n, np.nan) if totals is None else totals
        for n, totals in zip(table.values.shape, given, strict=True)
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
    """Return totals without those that may be suppressed."""
    if suppressed_up_to(table.mechanism) is None:
        return rois, epochs
    return np.where(rois == 0, np.nan, rois), np.where(epochs == 0, np.nan, epochs)
