"""Which counts of tables are sums of which others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints

Flags = NDArray[np.bool_]

_DEPTH = 32  # levels of wholes and parts


@dataclass(frozen=True, eq=False)
class Relations:
    """Which counts are made of which others.

    Attributes
    ----------
    whole
        Number of the whole of each relation, int64, shape (relation,).
    parts, offsets
        Numbers of its parts, those of a relation ``r`` from ``offsets[r]`` to ``offsets[r + 1]``;
        int64, shapes (part,) and (relation + 1,).
    adds
        Whether the whole is the sum of its parts, as of visits, bool, shape (relation,). That of
        persons, who may be in several parts, is from the largest part up to the sum.
    """

    whole: Ints
    parts: Ints
    offsets: Ints
    adds: Flags

    @classmethod
    def of(cls, rows: Iterable[tuple[int, Sequence[int] | Ints, bool]]) -> Self:
        """Return the relations of rows of a whole, its parts, and whether they add up to it."""
        wholes, parts, adds = list[int](), [np.empty(0, np.int64)], list[bool]()
        for whole, some, add in rows:
            wholes.append(whole)
            parts.append(np.asarray(some, np.int64))
            adds.append(add)
        offsets = np.cumsum([len(some) for some in parts])
        flat = np.concatenate(parts)
        return cls(np.array(wholes, np.int64), flat, offsets, np.array(adds, np.bool_))

    @cached_property
    def incidences(self) -> tuple[Ints, Ints, Ints]:
        """Relation, cell and sign of each place of a cell: 1 for a part, −1 for a whole."""
        n, sizes = len(self.whole), np.diff(self.offsets)
        relation = np.concatenate([np.repeat(np.arange(n), sizes), np.arange(n)])
        cell = np.concatenate([self.parts, self.whole])
        sign = np.concatenate([np.ones(len(self.parts), np.int64), -np.ones(n, np.int64)])
        return relation, cell, sign

    @cached_property
    def by_cell(self) -> tuple[Ints, Ints]:
        """Cell and relation of each place of a cell, by increasing cell."""
        relation, cell, _ = self.incidences
        order = np.argsort(cell, kind="stable")
        return cell[order], relation[order]

    @cached_property
    def independent(self) -> Flags:
        """Relations without those that follow from others, bool, shape (relation,).

        Where places and times both add up, the sum of a whole over times follows from those of its
        parts. Wholes are replaced by their parts, down to cells without any, for which random
        numbers stand: sums of the same cells are equal. Of those of one whole, that whose parts are
        in the fewest relations is kept.
        """
        relation, cell, _ = self.incidences
        kept = np.ones(len(self.whole), np.bool_)
        if len(np.unique(self.whole)) == len(self.whole):
            return kept
        n_cells, span = int(cell.max()) + 1, np.iinfo(np.int64)
        alone = np.random.default_rng(0).integers(span.min, span.max, n_cells)
        sums, before = alone, np.empty(0, np.int64)
        for _ in range(_DEPTH):
            running = np.concatenate([[0], np.cumsum(sums[self.parts])])  # they may overflow
            of_parts = running[self.offsets[1:]] - running[self.offsets[:-1]]
            sums, before = alone.copy(), sums
            sums[self.whole[self.adds]] = of_parts[self.adds]
            if np.array_equal(sums, before):
                break
        else:
            return kept
        alike = self.adds & (of_parts == sums[self.whole]) & (np.diff(self.offsets) > 0)
        row = np.repeat(np.arange(len(kept)), np.diff(self.offsets))
        while True:
            n_times = np.bincount(cell[kept[relation]], minlength=n_cells)
            most = np.zeros(len(kept), np.int64)
            np.maximum.at(most, row, n_times[self.parts])
            fewest = np.full(n_cells, len(kept) + 1)
            np.minimum.at(fewest, self.whole[kept & alike], most[kept & alike])
            more = kept & alike & (most > fewest[self.whole])
            if not more.any():
                return kept
            kept = kept & ~more

    def of_cells(self, cells: Ints) -> Ints:
        """Return the relations of some cells, increasing."""
        all_cells, relation = self.by_cell
        first, last = (np.searchsorted(all_cells, cells, side) for side in ("left", "right"))
        rows = np.unique(relation[spans(first, last - first)])
        return rows.astype(np.int64, copy=False)

    def rows(self, rows: Ints) -> Self:
        """Return some relations alone, of the same numbers of cells."""
        sizes = np.diff(self.offsets)[rows]
        parts = self.parts[spans(self.offsets[rows], sizes)]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return type(self)(self.whole[rows], parts, offsets, self.adds[rows])

    def only(self, rows: Ints) -> tuple[Self, Ints]:
        """Return some relations alone, and the cells that their numbers of cells stand for."""
        some, n = self.rows(rows), len(rows)
        cells, number = np.unique(np.concatenate([some.whole, some.parts]), return_inverse=True)
        return type(self)(number[:n], number[n:], some.offsets, some.adds), cells


def spans(starts: Ints, sizes: Ints) -> Ints:
    """Return the numbers from each start on, as many as its size."""
    before = np.cumsum(sizes) - sizes
    return np.asarray(np.arange(sizes.sum()) + np.repeat(starts - before, sizes))
