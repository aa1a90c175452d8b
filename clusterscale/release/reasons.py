"""Why counts are known: a few relations and bounds that suffice to narrow a count, or contradict.

Relations are added around a cell, step by step, until they suffice, and then left out again where
the others suffice without them. What is returned is minimal: without any one of its relations, or
of its cells' bounds, the count has a wider range, or nothing contradicts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from clusterscale.contracts import Ints
from clusterscale.release.intervals import MOST_CELLS, Ranges, bound_counts, supporting
from clusterscale.release.relations import Relations

_MOST_CELLS = 500  # of relations whose cells are left out one by one


@dataclass(frozen=True, slots=True, eq=False)
class Reasons:
    """What suffices to narrow a count, or to contradict.

    Attributes
    ----------
    relations
        Numbers of relations, increasing, int64, shape (relation,).
    cells
        Cells whose bounds are needed, increasing, int64, shape (cell,); the other cells of these
        relations may have any count. These are all cells of the relations if there are above 500.
    """

    relations: Ints
    cells: Ints


@dataclass(frozen=True, slots=True, eq=False)
class _System:
    low: Ints
    high: Ints
    relations: Relations

    def bound(
        self, rows: Ints, known: Ints | None, wanted: Ints, most: int = MOST_CELLS
    ) -> tuple[Ranges, Ints]:
        """Return what relations alone say of their cells; cells that are not known are free."""
        part, cells = self.relations.only(np.sort(rows))
        low, high = self.low[cells], self.high[cells]
        if known is not None:
            free = ~np.isin(cells, known)
            low = np.where(free, np.minimum(low, 0), low)
            high = np.where(free, 4 * (1 + np.abs(high).sum()), high)
        numbers = np.flatnonzero(np.isin(cells, wanted))
        return bound_counts(low, high, part, most=most, wanted=numbers), cells

    def grow(self, start: Ints) -> Iterator[Ints]:
        """Yield relations within 0, 1, 2 … steps of some, over cells with open counts."""
        seen = np.zeros(len(self.relations.whole), np.bool_)
        rows = newest = start
        while len(newest):
            seen[newest] = True
            yield rows
            cells = self.relations.only(newest)[1]
            newest = self.relations.of_cells(cells[self.low[cells] < self.high[cells]])
            newest = newest[~seen[newest]]
            rows = np.concatenate([rows, newest])

    def find(
        self,
        start: Ints,
        suffices: Callable[[Ints, Ints | None], bool],
        fewer: Callable[[Ints], tuple[Ints, Ints | None]] = lambda rows: (rows, None),
    ) -> Reasons:
        """Return relations around some, and cells of theirs, that suffice.

        They are looked for among ``fewer`` ones first.
        """
        rows, known = start, None
        for rows in self.grow(start):
            if suffices(rows, None):
                some, known = fewer(rows)
                if some is not rows and suffices(some, known):
                    rows = some
                rows = np.sort(_minimal(rows[::-1], lambda some: suffices(some, None)))
                break
        cells = self.relations.only(rows)[1]
        if known is not None and suffices(rows, few := np.intersect1d(cells, known)):
            cells = few
        if len(cells) <= _MOST_CELLS:
            cells = _minimal(cells, lambda known: suffices(rows, known))
        return Reasons(rows, cells)


def chain(low: Ints, high: Ints, relations: Relations, cell: int, *, width: int) -> Reasons:
    """Return relations and published cells that suffice to determine a count, or give its range.

    Parameters
    ----------
    low, high
        Smallest and largest possible count of each cell, int64, shape (cell,).
    relations
        Which counts are made of which others.
    cell
        Number of the cell.
    width
        Difference of the bounds that are to follow, 0 for a count that is determined.

    Returns
    -------
    Reasons
        Without relations if the cell's own bounds are no further apart.
    """
    system, this = _System(low, high, relations), np.array([cell])
    if high[cell] - low[cell] <= width:
        return Reasons(np.empty(0, np.int64), this)

    def suffices(rows: Ints, known: Ints | None) -> bool:
        if not len(rows):
            return False
        for most in (0, MOST_CELLS):  # programs only where they may say more
            ranges, cells = system.bound(rows, known, this, most)
            at = np.searchsorted(cells, cell)
            if at == len(cells) or cells[at] != cell or ranges.contradiction is not None:
                return False
            if ranges.high[at] - ranges.low[at] <= width:
                return True
            if ranges.exact[at] or (ranges.settled[at] and width == 0):
                return False
        return False

    def fewer(rows: Ints) -> tuple[Ints, Ints | None]:
        if len(rows) > MOST_CELLS:
            return rows, None  # linear programs would take longer than leaving out relations
        part, cells = relations.only(np.sort(rows))
        needed, known = supporting(low[cells], high[cells], part, int(np.searchsorted(cells, cell)))
        return rows[needed[np.argsort(np.argsort(rows))]], cells[known]

    return system.find(relations.of_cells(this), suffices, fewer)


def conflict(low: Ints, high: Ints, relations: Relations) -> Reasons | None:
    """Return relations and cells with bounds that contradict, none of which can be left out.

    Parameters
    ----------
    low, high
        Smallest and largest possible count of each cell, int64, shape (cell,).
    relations
        Which counts are made of which others.

    Returns
    -------
    Reasons or None
        None if nothing contradicts.
    """
    nothing = np.empty(0, np.int64)
    failed = bound_counts(low, high, relations, wanted=nothing).contradiction
    if failed is None:
        return None
    system = _System(low, high, relations)

    def suffices(rows: Ints, known: Ints | None) -> bool:
        return len(rows) > 0 and system.bound(rows, known, nothing)[0].contradiction is not None

    return system.find(np.array([failed]), suffices)


def _minimal(items: Ints, suffices: Callable[[Ints], bool]) -> Ints:
    """Return items that suffice, and none of which can be left out; the first are left out first.

    Those that are not needed are left out in chunks, which grow while this succeeds.
    """
    at, chunk = 0, max(1, len(items) // 2)
    while at < len(items):
        fewer = np.delete(items, slice(at, at + chunk))
        if suffices(fewer):
            items, chunk = fewer, 2 * chunk
        elif chunk > 1:
            chunk = max(1, min(chunk, len(items) - at) // 2)
        else:
            at += 1
    return items
