"""Cells of the tables of a publication, and the sums that relate their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Values
from clusterscale.release.publication import Hierarchy, Measure
from clusterscale.release.relations import Relations

UNKNOWN = 1 << 30
"""Largest count where nothing is known."""

Counted = tuple[str, Measure, frozenset[tuple[str, str]]]
"""Whose counts, of what, and in which categories other than totals."""

_Flags = NDArray[np.bool_]
_MANY = 2  # relations that show that sums are those of shown cells


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The counts behind a table with one row per place and time, or behind its totals.

    Attributes
    ----------
    name, label
        Names of the table with and without its level and categories.
    people, measure, categories
        What is counted: of whom, and in which categories other than totals.
    places
        Names of places.
    starts, ends
        Beginning and end of each epoch, int64, shape (epoch,).
    values
        Published values, float64, shape (place, epoch), NaN where hidden.
    low, high
        Bounds of counts that follow from each value alone, int64, shape (place, epoch).
    covered
        Which values were collected, and not hidden to protect others, bool, shape (place, epoch).
    secondary
        Which were hidden to protect others, bool, shape (place, epoch).
    gaps
        Which values were not collected, bool, shape (place, epoch).
    timezone
        Zone in which times are shown, empty for numbers of epochs.
    complete
        Whether all parts of places, and all categories, are listed.
    if_hidden
        Bounds of a count that the table shows, if it is hidden too.
    total_of
        For totals over all places, the label of the table.
    """

    name: str
    label: str
    people: str
    measure: Measure
    categories: frozenset[tuple[str, str]]
    places: tuple[str, ...]
    starts: Ints
    ends: Ints
    values: Values
    low: Ints
    high: Ints
    covered: _Flags
    secondary: _Flags
    gaps: _Flags
    timezone: str
    complete: bool
    if_hidden: tuple[int, int] = (0, UNKNOWN)
    total_of: str = ""

    @classmethod
    def unpublished(
        cls,
        label: str,
        counted: Counted,
        places: tuple[str, ...],
        epochs: Sequence[tuple[int, int]],
        timezone: str,
        complete: bool,
        total_of: str,
    ) -> Cells:
        """Return cells of which nothing is known, between those of a table and of others."""
        shape, (starts, ends) = (len(places), len(epochs)), np.array(epochs, np.int64).T
        people, measure, categories = counted
        who = ", ".join(f"{column} {text}" for column, text in sorted(categories))
        return cls(
            name=f"{label} ({who})" if who else label,
            label=label,
            people=people,
            measure=measure,
            categories=categories,
            places=places,
            starts=starts,
            ends=ends,
            values=np.full(shape, np.nan),
            low=np.zeros(shape, np.int64),
            high=np.full(shape, UNKNOWN),
            covered=np.zeros(shape, np.bool_),
            secondary=np.zeros(shape, np.bool_),
            gaps=np.zeros(shape, np.bool_),
            timezone=timezone,
            complete=complete,
            total_of=total_of,
        )

    @property
    def counted(self) -> Counted:
        """What is counted."""
        return self.people, self.measure, self.categories

    def time(self, column: int, shortest: int) -> str:
        """Return when an epoch begins, and when it ends if it is not one of the shortest.

        Whole days are shown by the dates of the first and the last.
        """
        ends = int(self.starts[column]), int(self.ends[column])
        if self.timezone:
            begin, end = (datetime.fromtimestamp(one, ZoneInfo(self.timezone)) for one in ends)
            days = begin.time() == end.time() == time()
            form = "%Y-%m-%d" if days else "%Y-%m-%d %H:%M"
            shown = [f"{one:{form}}" for one in (begin, end - timedelta(days=days))]
        else:
            shown = [f"{one:,}" for one in ends]
        if ends[1] - ends[0] <= shortest or shown[0] == shown[1]:
            return shown[0]
        return " to ".join(shown)

    @property
    def times(self) -> list[tuple[int, int]]:
        """Beginning and end of each epoch."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))


@dataclass(slots=True, eq=False)
class Sums:
    """Relations between the cells of tables, as they are found.

    ``first`` is the number of the first cell of each table. Cells from ``n`` on are no part of a
    table: each is the rest of the whole that ``rests`` has the number of. ``kinds`` names what the
    relations of each ``add`` are. ``hierarchies`` say what places are parts of, for which tables.
    What three of the tables ``in_pairs`` say together may not be among them.
    """

    tables: Sequence[Cells]
    hierarchies: Sequence[tuple[frozenset[str], Hierarchy]] = ()
    in_pairs: Sequence[str] = ()
    first: Ints = field(init=False)
    n: int = field(init=False)
    rests: list[Ints] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    _rows: list[tuple[Ints, Ints, Ints, _Flags]] = field(default_factory=list)
    _are_sums: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.first = np.cumsum([0, *(table.low.size for table in self.tables)])
        self.n = int(self.first[-1])

    def numbers(self, table: Cells) -> Ints:
        """Return the number of each cell of a table, int64, shape (place, epoch)."""
        i = next(i for i, one in enumerate(self.tables) if one is table)
        first = int(self.first[i])
        return np.arange(first, first + table.low.size).reshape(table.low.shape)

    def tables_of(self, cells: Ints) -> Ints:
        """Return the number of the table of each cell, int64, shape (cell,)."""
        return np.asarray(np.searchsorted(self.first, cells, side="right") - 1)

    def add(
        self, kind: str, whole: Ints, parts: Ints, *, adds: bool = True, is_sum: bool = True
    ) -> None:
        """Add relations of wholes, shape (row,), and parts, shape (row, part).

        A part of −1 is in no table, so that there is a rest. ``adds`` is False where parts overlap,
        ``is_sum`` where the whole is certainly not computed from the cells that are shown.
        """
        kept = (parts >= 0).any(1) & (whole >= 0)
        whole, parts = whole[kept], parts[kept]
        if not len(whole):
            return
        known, lacks = parts >= 0, (parts < 0).any(1)
        rest = np.full(len(whole), -1)
        rest[lacks] = self.n + sum(map(len, self.rests)) + np.arange(lacks.sum())
        self.rests.append(whole[lacks])
        # A row has the rest behind its parts, so that its first part is always in a table.
        parts, known = np.c_[parts, rest], np.c_[known, lacks]
        self._rows.append((whole, parts[known], known.sum(1), np.full(len(whole), adds)))
        self.kinds.append(kind)
        self._are_sums.append(is_sum)

    def drop_vacuous(self, n_tables: int) -> None:
        """Drop relations that say nothing, of cells other than those of the first tables.

        Nothing else is known of these. In no other relation, such a cell is what its parts make it;
        and parts that all are so can make any whole.
        """
        while self._rows:
            whole, parts, sizes, *_ = self.rows()
            row = np.repeat(np.arange(len(whole)), sizes)
            used = np.bincount(np.concatenate([whole, parts]), minlength=self.n)
            alone = (used == 1) & (np.arange(len(used)) >= self.first[n_tables])
            alone[self.n :] = False
            kept = ~alone[whole] & (np.bincount(row, ~alone[parts], len(whole)) > 0)
            if kept.all():
                return
            ends = np.cumsum([len(one) for one, *_ in self._rows])[:-1]
            self._rows = [
                (wholes[left], some[np.repeat(left, n)], n[left], add[left])
                for (wholes, some, n, add), left in zip(
                    self._rows, np.split(kept, ends), strict=True
                )
            ]

    def rows(self) -> tuple[Ints, Ints, Ints, _Flags, Ints]:
        """Return wholes, all parts, how many each has, which add, and the number of their ``add``.

        All have shape (row,), but for parts.
        """
        if not self._rows:
            return _NONE, _NONE, _NONE, _NONE > 0, _NONE
        whole, parts, sizes, adds = (np.concatenate(one) for one in zip(*self._rows, strict=True))
        number = np.repeat(np.arange(len(self._rows)), [len(one) for one, *_ in self._rows])
        return whole, parts, sizes, adds, number

    def relations(
        self,
        low: Ints,
        high: Ints,
        secondary: _Flags | bool = False,
        of_shown: bool | None = None,
    ) -> tuple[Relations, int, int]:
        """Return the relations, how many are sums of shown cells only, and how many may be.

        In these, cells that are hidden because they are small count as 0, and are no parts. They
        are recognised by sums that would be too small otherwise, or by several that equal those of
        the shown cells if no hidden sum must be another. The latter may be true sums where hidden
        cells may be 0: it depends on ``of_shown`` whether they are taken for sums of shown cells;
        None: unless cells that are hidden to protect others, which are ``secondary``, leave more
        open than zeros.
        """
        whole, parts, sizes, adds, number = self.rows()
        if not len(whole):
            return Relations.of([]), 0, 0
        starts = np.cumsum(sizes) - sizes
        known = (low == high) | secondary
        least, most = (
            np.add.reduceat(np.where(known, end, 0)[parts], starts) for end in (low, high)
        )
        fits = known[whole] & (least <= high[whole]) & (low[whole] <= most)
        hides = known[whole] & ~np.logical_and.reduceat(known[parts], starts)
        sure = hides & fits & (least == most) & (low == high)[whole]
        too_small = hides & fits & (high[whole] < np.add.reduceat(low[parts], starts))
        group, n_groups = self._groups(whole, parts[starts], number)
        other = ~known[whole] & ((most < low[whole]) | (least > high[whole]))
        n_hides, n_fits, n_sure, n_small, n_other = (
            np.bincount(group, rows, n_groups)
            for rows in (hides, hides & fits, sure, too_small, other)
        )
        computed = (n_sure >= _MANY) & (n_other == 0) | (n_small > 0)
        computed &= n_fits == n_hides
        computed[0] = False
        either = computed & (n_small == 0)
        shown = computed & ~(either & (n_sure < n_hides))
        if of_shown is not None:
            shown = computed & (of_shown | ~either)
        left_out = shown[group]
        kept = np.repeat(~left_out, sizes) | (known[parts] & np.repeat(known[whole], sizes))
        sizes = np.add.reduceat(kept, starts, dtype=np.int64)
        rows = sizes > 0
        offsets = np.concatenate([[0], np.cumsum(sizes[rows])])
        adds = adds | (left_out & fits)
        relations = Relations(whole[rows], parts[kept], offsets, adds[rows])
        return relations, int(left_out.sum()), int(either[group].sum())

    def _groups(self, whole: Ints, first_part: Ints, number: Ints) -> tuple[Ints, int]:
        """Return the group of each row, 0 for those that are no computed sums, and their number.

        The sums of one kind between the same two tables are computed in one way.
        """
        kinds = np.unique(self.kinds, return_inverse=True)[1][number]
        pairs = np.stack([kinds, self.tables_of(whole), self.tables_of(first_part)])
        _, group = np.unique(pairs, axis=1, return_inverse=True)
        group = np.where(np.array(self._are_sums)[number], 1 + group.ravel(), 0)
        return group, int(group.max(initial=0)) + 1


_NONE = np.empty(0, np.int64)
