"""Cells of the tables of a publication, and the sums that relate their counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from itertools import product
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Values
from clusterscale.reading.places import ARROW
from clusterscale.release.publication import Hierarchy, Measure, Publication, read_hierarchies
from clusterscale.release.relations import Relations

UNKNOWN = 1 << 30
"""Largest count where nothing is known."""

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
    filled
        The same, with what hidden values stand for, where they do.
    low, high
        Bounds of counts that follow from each value alone, int64, shape (place, epoch).
    covered
        Which values were collected, and not hidden to protect others, bool, shape (place, epoch).
    secondary
        Which were hidden to protect others, bool, shape (place, epoch).
    timezone
        Zone in which times are shown, empty for numbers of epochs.
    complete
        Whether all parts of places, and all categories, are listed.
    if_hidden
        Bounds of a count that the table shows, if it is hidden too.
    total_of
        For totals over all places, the name of the table.
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
    filled: Values
    low: Ints
    high: Ints
    covered: _Flags
    secondary: _Flags
    timezone: str
    complete: bool
    if_hidden: tuple[int, int] = (0, UNKNOWN)
    total_of: str = ""

    @property
    def counted(self) -> tuple[str, Measure, frozenset[tuple[str, str]]]:
        """What is counted."""
        return self.people, self.measure, self.categories

    def rows_in(self, other: Cells) -> Ints:
        """Return the row of each place in another table, −1 where it has none."""
        return _index(other.places, self.places)

    def columns_in(self, other: Cells) -> Ints:
        """Return the column of each epoch in another table, −1 where it has none."""
        return _index(other.times, self.times)

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


def _index(known: Sequence[object], wanted: Sequence[object]) -> Ints:
    number = {one: i for i, one in enumerate(known)}
    return np.array([number.get(one, -1) for one in wanted], np.int64)


@dataclass(slots=True, eq=False)
class Sums:
    """Relations between the cells of tables, as they are found.

    ``first`` is the number of the first cell of each table. Cells from ``n`` on are no part of a
    table: each is the rest of the whole that ``rests`` has the number of.
    """

    tables: Sequence[Cells]
    first: Ints = field(init=False)
    n: int = field(init=False)
    rests: list[Ints] = field(default_factory=list)
    _rows: list[tuple[Ints, Ints, Ints, _Flags]] = field(default_factory=list)
    _groups: list[tuple[int, int]] = field(default_factory=list)
    _group: int = 0

    def __post_init__(self) -> None:
        self.first = np.cumsum([0, *(table.low.size for table in self.tables)])
        self.n = int(self.first[-1])

    def numbers(self, table: Cells) -> Ints:
        """Return the number of each cell of a table, int64, shape (place, epoch)."""
        i = next(i for i, one in enumerate(self.tables) if one is table)
        first = int(self.first[i])
        return np.arange(first, first + table.low.size).reshape(table.low.shape)

    def add(self, whole: Ints, parts: Ints, *, adds: bool = True, is_sum: bool = True) -> None:
        """Add relations of wholes, shape (row,), and parts, shape (row, part).

        A part of −1 is in no table, so that there is a rest. ``adds`` is False where parts overlap,
        ``is_sum`` where the whole is certainly not computed from the cells that are shown.
        """
        kept = (parts >= 0).any(1)
        whole, parts = whole[kept], parts[kept]
        known, lacks = parts >= 0, (parts < 0).any(1)
        rest = np.full(len(whole), -1)
        rest[lacks] = self.n + sum(map(len, self.rests)) + np.arange(lacks.sum())
        self.rests.append(whole[lacks])
        parts, known = np.c_[parts, rest], np.c_[known, lacks]
        self._rows.append((whole, parts[known], known.sum(1), np.full(len(whole), adds)))
        self._groups.append((len(whole), self._group if is_sum else -1))

    def begin(self) -> None:
        """Begin relations of another pair of tables, which may be computed in another way."""
        self._group += 1

    def relations(
        self, low: Ints, high: Ints, secondary: _Flags | bool = False, assume_shown: bool = False
    ) -> tuple[Relations, int, int]:
        """Return the relations, how many are sums of shown cells only, and how many may be.

        In these, cells that are hidden because they are small count as 0, and are no parts. They
        are recognised by cells that are fixed, and by sums that would be too small otherwise. Cells
        that are hidden to protect others, which are ``secondary``, may hide that a sum is none of
        these: where such sums are consistent with both, they may be, which is assumed if told to.
        """
        columns = zip(*self._rows, strict=True) if self._rows else [[_NONE]] * 3 + [[_NONE > 0]]
        whole, parts, sizes, adds = (np.concatenate(list(column)) for column in columns)
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
        group = np.concatenate([np.full(n, i) for n, i in self._groups]) + 1
        n_hides, n_fits, n_sure, n_small = (
            np.bincount(group, rows, self._group + 2)
            for rows in (hides, hides & fits, sure, too_small)
        )
        computed = (n_fits == n_hides) & ((n_sure >= _MANY) | (n_small > 0))
        computed[0] = False
        doubtful = computed & (n_sure < n_hides) & (n_small == 0)
        of_shown = (computed & (assume_shown | ~doubtful))[group]
        kept = np.repeat(~of_shown, sizes) | (known[parts] & np.repeat(known[whole], sizes))
        sizes = np.add.reduceat(kept, starts, dtype=np.int64)
        rows = sizes > 0
        offsets = np.concatenate([[0], np.cumsum(sizes[rows])])
        adds = adds | (of_shown & fits)
        relations = Relations(whole[rows], parts[kept], offsets, adds[rows])
        return relations, int(of_shown.sum()), int(doubtful[group].sum())


_NONE = np.empty(0, np.int64)


def relate(tables: Sequence[Cells], plan: Publication) -> Sums:
    """Return the sums that follow from what tables count, and from what a publication states."""
    tables, hierarchies = [*tables, *_between(tables)], read_hierarchies(plan)
    entries = [(plan.people_of(entry.label), entry) for entry in plan.tables]
    sums, by_count = Sums(tables), dict[object, list[Cells]]()
    for table in tables:
        by_count.setdefault(table.counted, []).append(table)
    for alike in by_count.values():
        for i, table in enumerate(alike):
            left = np.ones(table.low.shape, np.bool_)
            for other in alike[:i]:
                left &= ~_sum_up(sums, table, [[other]], where=left)
            _add_times(sums, table, alike)
            _add_totals(sums, table, alike)
            for labels, hierarchy in hierarchies:
                if table.label in labels and not table.total_of:
                    _add_places(sums, table, alike, hierarchy)
        _add_categories(sums, alike, tables)
    for table in tables:
        theirs = [entry for people, entry in entries if people == table.people]
        wholes = [plan.people_of(one) for entry in theirs for one in entry.subset_of]
        for whole in _counting(tables, table, wholes):
            _sum_up(sums, whole, [[table]], rest=True)
        parts = dict.fromkeys(
            people
            for people, entry in entries
            if entry.parts_of is not None and plan.people_of(entry.parts_of) == table.people
        )
        if parts:
            _sum_up(sums, table, [_counting(tables, table, [part]) for part in parts])
    margins = ((entry.label, *pair) for _, entry in entries for pair in entry.margins_of.items())
    for label, trips, end in margins:
        for table, other in _pairs(tables, label, trips):
            ends = [name.split(ARROW)[end == "destination"] for name in other.places]
            up = _index(table.places, ends)
            down = np.flatnonzero(up >= 0)
            _nest(sums, table, other, down, up[down], complete=other.complete)
    for _, entry in entries:
        for table, other in _pairs(tables, entry.label, entry.unchanged_from):
            if table.low.shape[1] == other.low.shape[1]:
                rows = table.rows_in(other)
                here, there = sums.numbers(table)[rows >= 0], sums.numbers(other)[rows[rows >= 0]]
                sums.add(here.ravel(), there.reshape(-1, 1), is_sum=False)
    return sums


def _between(tables: Sequence[Cells]) -> Iterator[Cells]:
    """Yield the places of tables at the longer times of others, which no table has."""
    have = {(table.counted, table.places, tuple(table.times)) for table in tables}
    for table, other in product(tables, tables):
        key = table.counted, table.places, tuple(other.times)
        if table.counted == other.counted and key not in have and any(_filled(other, table)):
            have.add(key)
            shape = len(table.places), len(other.starts)
            yield replace(
                table,
                starts=other.starts,
                ends=other.ends,
                values=np.full(shape, np.nan),
                filled=np.full(shape, np.nan),
                low=np.zeros(shape, np.int64),
                high=np.full(shape, UNKNOWN),
                covered=np.zeros(shape, np.bool_),
                secondary=np.zeros(shape, np.bool_),
            )


def _filled(whole: Cells, part: Cells) -> Iterator[tuple[int, range]]:
    """Yield the epochs of a table that several ones of another fill, and these."""
    begin = np.searchsorted(part.starts, whole.starts).tolist()
    stop = np.searchsorted(part.ends, whole.ends, side="right").tolist()
    for j, (one, two) in enumerate(zip(begin, stop, strict=True)):
        if (
            two - one > 1
            and (part.starts[one], part.ends[two - 1]) == (whole.starts[j], whole.ends[j])
            and (part.starts[one + 1 : two] == part.ends[one : two - 1]).all()
        ):
            yield j, range(one, two)


def _counting(tables: Sequence[Cells], like: Cells, people: Sequence[str]) -> list[Cells]:
    """Return the tables that count other people in the same categories."""
    wanted = [(one, like.measure, like.categories) for one in people]
    return [table for table in tables if table.counted in wanted]


def _pairs(tables: Sequence[Cells], label: str, other: str | None) -> list[tuple[Cells, Cells]]:
    """Return the tables of two labels that have the same categories."""
    return [
        (one, two)
        for one, two in product(tables, tables)
        if (one.label, two.label) == (label, other)
        and one.categories == two.categories
        and not (one.total_of or two.total_of)
    ]


def _sum_up(
    sums: Sums,
    whole: Cells,
    parts: Sequence[Sequence[Cells]],
    *,
    rest: bool = False,
    where: _Flags | None = None,
) -> _Flags:
    """Relate cells to those of the same place and time in their parts; return which were.

    Each part may be in several tables, of which the first one that has a cell is used.
    """
    sums.begin()
    cells = np.full((*whole.low.shape, len(parts) + rest), -1)
    for i, tables in enumerate(parts):
        for part in reversed(tables):
            rows, columns = whole.rows_in(part), whole.columns_in(part)
            known = (rows >= 0)[:, None] & (columns >= 0)[None]
            cells[..., i] = np.where(
                known, sums.numbers(part)[np.ix_(rows, columns)], cells[..., i]
            )
    kept = (cells >= 0).any(-1) if where is None else (cells >= 0).any(-1) & where
    sums.add(sums.numbers(whole)[kept], cells[kept], is_sum=len(parts) > 1)
    return np.asarray(kept)


def _add_times(sums: Sums, whole: Cells, alike: Sequence[Cells]) -> None:
    """Relate each epoch to the fewest shorter ones that fill it, where a place has them."""
    left, adds = np.ones(whole.low.shape, np.bool_), whole.measure in ("visits", "trips")
    found, own = [], sums.numbers(whole)
    for part in alike:
        filled = list(_filled(whole, part))
        found.append((sum(len(some) for _, some in filled), filled, part))
    for _, filled, part in sorted(found, key=lambda one: one[0]):
        rows, numbers = whole.rows_in(part), sums.numbers(part)
        sums.begin()
        for j, some in filled:
            here = left[:, j] & (rows >= 0)
            left[here, j] = False
            sums.add(own[here, j], numbers[rows[here]][:, some], adds=adds)


def _add_totals(sums: Sums, total: Cells, alike: Sequence[Cells]) -> None:
    """Relate totals over all places to the places of their table."""
    for part in alike:
        if part.name == total.total_of and not part.total_of:
            rows = np.arange(len(part.places))
            _nest(sums, total, part, rows, np.zeros_like(rows), complete=True)


def _add_places(sums: Sums, parts: Cells, alike: Sequence[Cells], order: Hierarchy) -> None:
    """Relate places of a table to the nearest of which they are parts: in it, else in another."""
    above = [list(order.above(place)) for place in parts.places]
    found = []
    for whole in alike:
        row_of = {place: i for i, place in enumerate(whole.places)}
        links = list[tuple[int, int, int]]()
        for i, places in enumerate(above):
            ups = [(steps, row_of[place]) for steps, place in places if place in row_of]
            links += [(steps, i, row) for steps, row in ups if steps == ups[0][0]]
        if links and set(whole.times) & set(parts.times):
            steps, down, up = np.array(links).T
            found.append((whole is not parts, float(steps.mean()), down, up, whole))
    left = np.ones(len(parts.places), np.bool_)
    for is_other, _, down, up, whole in sorted(found, key=lambda one: one[:2]):
        kept = left[down]
        _nest(sums, whole, parts, down[kept], up[kept], complete=parts.complete)
        left[down] = False
        if is_other:
            break


def _nest(sums: Sums, whole: Cells, parts: Cells, down: Ints, up: Ints, *, complete: bool) -> None:
    """Relate the places ``up`` of a table to their parts ``down`` in another one."""
    sums.begin()
    columns = whole.columns_in(parts)
    known = columns >= 0
    order = np.argsort(up, kind="stable")
    down, up = down[order], up[order]
    starts = np.flatnonzero(np.diff(up, prepend=-1))
    wholes, numbers = sums.numbers(whole), sums.numbers(parts)[:, columns[known]]
    for row, rows in zip(up[starts].tolist(), np.split(down, starts[1:]), strict=True):
        cells = numbers[rows].T
        cells = cells if complete else np.c_[cells, np.full(len(cells), -1)]
        sums.add(wholes[row, known], cells, adds=whole.measure != "persons")


def _add_categories(sums: Sums, alike: Sequence[Cells], tables: Sequence[Cells]) -> None:
    """Relate tables to those of all categories of one more column."""
    one = alike[0]
    finer = dict[tuple[str, str], dict[str, list[Cells]]]()
    for table in tables:
        if table.counted[:2] == one.counted[:2]:
            for column, text in table.categories - one.categories:
                of_text = finer.setdefault((column, table.label), {}).setdefault(text, [])
                if table.categories - {(column, text)} == one.categories:
                    of_text.append(table)
    for (_, label), parts in finer.items():
        for whole in [table for table in alike if table.label == label] or alike:
            complete = len(parts) > 1 and all(
                one.complete for some in parts.values() for one in some
            )
            _sum_up(sums, whole, list(parts.values()), rest=not complete)
