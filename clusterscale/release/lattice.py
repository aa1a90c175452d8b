"""Sums that follow from what tables count: one lattice of places, times and categories.

A count is a node of the lattice: people and measure, place, epoch, and a category of some columns.
Its parts are finer in one of these: smaller places, shorter epochs, one more column. Nodes that
nobody publishes stand between those that are published, such as the total of a district whose
region is published as a total, and the district only by sex. They are cells of tables of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from clusterscale.contracts import Ints
from clusterscale.reading.places import ARROW
from clusterscale.release.cells import Cells, Counted, Sums
from clusterscale.release.publication import Hierarchy, Publication, read_hierarchies
from clusterscale.release.tilings import Epoch, tilings
from clusterscale.release.unpublished import ADDITIVE, unpublished

_Flags = NDArray[np.bool_]

PLACES, TIMES, CATEGORIES, TOTALS = "places", "times", "categories", "totals"
SUBSET, PARTS, MARGINS, UNCHANGED, SAME = "subset_of", "parts_of", "margins_of", "unchanged", "same"
"""Kinds of relations."""


def relate(tables: Sequence[Cells], plan: Publication) -> Sums:
    """Return the sums that follow from what tables count, and from what a publication states."""
    hierarchies, published = read_hierarchies(plan), tables
    between, in_pairs = unpublished(tables, plan, hierarchies)
    tables = [*tables, *between]
    sums, by_count = Sums(tables, hierarchies, in_pairs), dict[Counted, list[Cells]]()
    for table in tables:
        by_count.setdefault(table.counted, []).append(table)
    grids = {counted: Grid.of(alike, sums) for counted, alike in by_count.items()}
    for counted, alike in by_count.items():
        grid = grids[counted]
        for table in alike:
            grid.equate(table, sums)
        grid.add_times(sums, adds=counted[1] in ADDITIVE)
        blocks = _blocks(alike, sums)
        for block in blocks:
            _add_places(sums, block, blocks, hierarchies, adds=counted[1] != "persons")
    _add_categories(sums, by_count)
    _add_people(sums, grids, plan)
    for entry in plan.tables:
        for trips, end in entry.margins_of.items():
            for table, other in _pairs(tables, plan, entry.label, trips):
                ends = [[name.split(ARROW)[end == "destination"]] for name in other.places]
                _nest(sums, MARGINS, _Block.of([table], sums), _Block.of([other], sums), ends)
        for table, other in _pairs(tables, plan, entry.label, entry.unchanged_from):
            _add_unchanged(sums, table, other, published)
    _add_unions(sums)
    sums.drop_vacuous(len(published))
    return sums


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Cells that count the same, by place and epoch.

    ``number`` is that of the cell of the first table that has one, −1 without any, int64, shape
    (place, epoch). Epochs increase.
    """

    places: Mapping[str, int]
    epochs: Mapping[Epoch, int]
    number: Ints

    @classmethod
    def of(cls, tables: Sequence[Cells], sums: Sums) -> Grid:
        """Return the grid of tables that count the same."""
        places = {name: i for i, name in enumerate(_distinct(t.places for t in tables))}
        epochs = {one: i for i, one in enumerate(sorted({e for t in tables for e in t.times}))}
        grid = cls(places, epochs, np.full((len(places), len(epochs)), -1))
        for table in reversed(tables):
            grid.number[grid._at(table)] = sums.numbers(table)
        return grid

    def _at(self, table: Cells) -> tuple[Ints, ...]:
        rows = np.array([self.places[name] for name in table.places])
        return np.ix_(rows, np.array([self.epochs[one] for one in table.times]))

    def find(self, places: Iterable[str], epochs: Iterable[Epoch]) -> Ints:
        """Return the numbers of the cells of places and epochs, −1 where there are none."""
        wider = np.pad(self.number, ((0, 1), (0, 1)), constant_values=-1)
        rows = [self.places.get(name, -1) for name in places]
        return np.asarray(wider[np.ix_(rows, [self.epochs.get(one, -1) for one in epochs])])

    def equate(self, table: Cells, sums: Sums) -> None:
        """Relate the cells of a table to those of an earlier one for the same place and epoch."""
        own, first = sums.numbers(table), self.number[self._at(table)]
        twice = own != first
        sums.add(SAME, own[twice], first[twice][:, None], is_sum=False)

    def add_times(self, sums: Sums, *, adds: bool) -> None:
        """Relate epochs to shorter ones that fill them, where a place has these."""
        # Places that have cells at the same epochs are related in the same way, all at once.
        patterns, which = np.unique(self.number >= 0, axis=0, return_inverse=True)
        epochs = list(self.epochs)
        for i, pattern in enumerate(patterns):
            known = np.flatnonzero(pattern)
            own = self.number[which.ravel() == i][:, known]
            for whole, some in tilings([epochs[j] for j in known.tolist()]):
                sums.add(TIMES, own[:, whole], own[:, some], adds=adds)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Tables of the same places that count the same, as one table; the first that has a cell."""

    places: tuple[str, ...]
    times: list[Epoch]
    number: Ints
    labels: frozenset[str]
    total_of: str
    complete: bool

    @classmethod
    def of(cls, tables: Sequence[Cells], sums: Sums) -> _Block:
        grid, first = Grid.of(tables, sums), tables[0]
        labels = frozenset(table.label for table in tables)
        complete = all(table.complete for table in tables)
        return cls(first.places, [*grid.epochs], grid.number, labels, first.total_of, complete)


def _blocks(tables: Sequence[Cells], sums: Sums) -> list[_Block]:
    groups: dict[object, list[Cells]] = {}
    for table in tables:
        groups.setdefault((table.places, table.total_of), []).append(table)
    return [_Block.of(group, sums) for group in groups.values()]


def _add_places(
    sums: Sums,
    parts: _Block,
    blocks: Sequence[_Block],
    hierarchies: Sequence[tuple[frozenset[str], Hierarchy]],
    *,
    adds: bool,
) -> None:
    """Relate places to the nearest of which they are parts: in their own table, else in others."""
    top = np.ones(len(parts.places), np.bool_)
    for labels, hierarchy in hierarchies:
        if parts.total_of or not labels & parts.labels:
            continue
        covered = np.zeros(parts.number.shape, np.bool_)
        found = list[tuple[bool, float, list[list[str]], _Block]]()
        for whole in blocks:
            known = set(whole.places)
            ups = [_nearest(hierarchy.above(place), known) for place in parts.places]
            steps = [one[0][0] for one in ups if one]
            if steps and (whole is parts or not whole.total_of):
                names = [[up for _, up in one] for one in ups]
                found.append((whole is not parts, float(np.mean(steps)), names, whole))
        inside = np.zeros(len(parts.places), np.bool_)
        for is_other, _, names, whole in sorted(found, key=lambda one: one[:2]):
            # Others count places that are parts of places in their own table by these already.
            shown = [[] if hides else ups for hides, ups in zip(inside, names, strict=True)]
            _nest(sums, PLACES, whole, parts, shown, hierarchy, covered, adds=adds)
            if not is_other:
                inside = np.array([bool(ups) for ups in names])
        top &= ~inside
    for whole in blocks:
        if whole.total_of in parts.labels and not parts.total_of:
            tops = [whole.places[:1] if one else () for one in top]
            _nest(sums, TOTALS, whole, replace(parts, complete=True), tops, adds=adds)
    if not adds and not parts.total_of:
        own = {place for place, one in zip(parts.places, top, strict=True) if one}
        _add_covers(sums, parts, own, blocks, hierarchies)


def _add_covers(
    sums: Sums,
    parts: _Block,
    top: set[str],
    blocks: Sequence[_Block],
    hierarchies: Sequence[tuple[frozenset[str], Hierarchy]],
) -> None:
    """Relate places, and totals, to others that have the same parts in a table, in another way.

    Persons in a place are at most those in several that have all of its parts, such as a region in
    kinds of places, which does not follow from the parts. ``top`` are the places that total count.
    """
    own, below = set(parts.places), dict[str, set[str]]()
    used = [hierarchy for labels, hierarchy in hierarchies if labels & parts.labels]
    for hierarchy in used:
        ups = {place: {up for _, up in hierarchy.above(place)} for place in parts.places}
        divided = own.intersection(*[set().union(*ups.values())])
        for up in set().union(*ups.values()):
            if hierarchy.lists_all(up, own):
                below[up] = {place for place in own - divided if up in ups[place]}
    for whole, larger in product(blocks, blocks):
        is_total = whole.total_of in parts.labels
        if larger.total_of or larger is parts or (whole.total_of and not is_total):
            continue
        for name in whole.places:
            every = top if is_total else below.get(name, set())
            some = [one for one in larger.places if one != name and below.get(one, every) < every]
            some = [one for one in some if not any(below[one] < below[two] for two in some)]
            nested = [
                any(name == up for _, up in one.above(place)) for one in used for place in some
            ]
            if every and every == set().union(*(below[one] for one in some)) and not any(nested):
                names = [[name] if one in some else [] for one in larger.places]
                kind = TOTALS if is_total else PLACES
                _nest(sums, kind, whole, replace(larger, complete=True), names, adds=False)


def _nearest(above: Iterable[tuple[int, str]], known: Collection[str]) -> list[tuple[int, str]]:
    ups = [(steps, place) for steps, place in above if place in known]
    return [one for one in ups if one[0] == ups[0][0]]


def _nest(
    sums: Sums,
    kind: str,
    whole: _Block,
    parts: _Block,
    names: Sequence[Sequence[str]],
    hierarchy: Hierarchy | None = None,
    covered: _Flags | None = None,
    *,
    adds: bool = True,
) -> None:
    """Relate places of a table to their parts in another one, of which ``names`` has the wholes.

    Where all parts are ``covered``, the same follows from nearer wholes. These flags are set.
    """
    row_of, column_of = (
        {one: i for i, one in enumerate(some)} for some in (whole.places, whole.times)
    )
    columns = np.array([column_of.get(one, -1) for one in parts.times])
    down: dict[int, list[int]] = {}
    for i, above in enumerate(names):
        for name in above:
            if name in row_of:
                down.setdefault(row_of[name], []).append(i)
    own = set(parts.places) if hierarchy is not None else set()
    related = list[tuple[list[int], Ints]]()
    for row, some in down.items():
        wanted = columns >= 0
        if covered is not None:
            wanted &= ~covered[some].all(0)
        cells = parts.number[some][:, wanted].T
        lists_all = hierarchy is None or hierarchy.lists_all(whole.places[row], own)
        if not (parts.complete and lists_all):
            cells = np.c_[cells, np.full(len(cells), -1)]
        sums.add(kind, whole.number[row, columns[wanted]], cells, adds=adds)
        related.append((some, np.flatnonzero(wanted)))
    if covered is not None:
        for some, times in related:
            covered[np.ix_(np.array(some), times)] = True


def _add_categories(sums: Sums, by_count: Mapping[Counted, list[Cells]]) -> None:
    """Relate counts to those of all categories of one more column."""
    texts: dict[tuple[str, str], dict[str, None]] = {}
    wanted: dict[tuple[Counted, str, str], bool] = {}
    for (people, measure, categories), alike in by_count.items():
        for table, (column, text) in product(alike, sorted(categories)):
            texts.setdefault((table.label, column), {})[text] = None
            whole = people, measure, categories - {(column, text)}
            complete = wanted.get((whole, table.label, column), True) and table.complete
            wanted[whole, table.label, column] = complete
    for (whole, label, column), complete in wanted.items():
        people, measure, categories = whole
        parts = [
            [one for one in by_count.get((people, measure, categories | {(column, text)}), ())
             if one.label == label]
            for text in texts[label, column]
        ]  # fmt: skip
        # Totals of the same table come first: they may be computed from what it shows.
        alike = sorted(by_count.get(whole, ()), key=lambda one: one.label != label)
        if alike and any(parts):
            grid = Grid.of(alike, sums)
            cells = [Grid.of(some, sums).find(grid.places, grid.epochs) for some in parts]
            is_complete = complete and len(parts) > 1
            _add_nodes(sums, CATEGORIES, grid, cells, rest=not is_complete)


def _add_nodes(
    sums: Sums, kind: str, whole: Grid, parts: Sequence[Ints], *, rest: bool = False
) -> None:
    """Relate counts to parts for the same place and epoch, each of shape (place, epoch)."""
    cells = np.stack([*parts, *[np.full(whole.number.shape, -1)] * rest], axis=-1)
    here = whole.number >= 0
    sums.add(kind, whole.number[here], cells[here], is_sum=len(parts) > 1)


def _add_people(sums: Sums, grids: Mapping[Counted, Grid], plan: Publication) -> None:
    """Relate counts of people to those of some of them, and of all their parts."""
    for (people, measure, categories), grid in grids.items():
        for whole in _wholes_of(people, plan):
            if (above := grids.get((whole, measure, categories))) is not None:
                some = grid.find(above.places, above.epochs)
                _add_nodes(sums, SUBSET, above, [some], rest=True)
        parts = dict.fromkeys(
            plan.people_of(entry.label)
            for entry in plan.tables
            if entry.parts_of is not None and plan.people_of(entry.parts_of) == people
        )
        known = [grids.get((one, measure, categories)) for one in parts]
        none = np.full(grid.number.shape, -1)
        cells = [none if one is None else one.find(grid.places, grid.epochs) for one in known]
        if any(one is not None for one in known):
            _add_nodes(sums, PARTS, grid, cells)


def _wholes_of(people: str, plan: Publication) -> list[str]:
    """Return those of whom people are a subset, directly or in steps, but not the stated parts."""
    above: dict[str, list[tuple[str, bool]]] = {}
    for entry in plan.tables:
        wholes = [(plan.people_of(one), True) for one in entry.subset_of]
        wholes += [(plan.people_of(one), False) for one in filter(None, [entry.parts_of])]
        above.setdefault(plan.people_of(entry.label), []).extend(wholes)
    found = dict(above.get(people, ()))
    for whole in (left := list(found)):  # which grows
        for further, _ in above.get(whole, ()):
            left += [] if further in found else [further]
            found.setdefault(further, True)
    return [whole for whole, is_subset in found.items() if is_subset]


def _pairs(
    tables: Sequence[Cells], plan: Publication, label: str, other: str | None
) -> list[tuple[Cells, Cells]]:
    """Return the tables of two labels, of their own people, that have the same categories."""
    ones, twos = (
        [t for t in tables if (t.label, t.people) == (name, whose) and not t.total_of]
        for name in (label, other)
        for whose in [plan.people_of(name) if name is not None else None]
    )
    return [(one, two) for one, two in product(ones, twos) if one.categories == two.categories]


def _add_unchanged(sums: Sums, table: Cells, other: Cells, published: Sequence[Cells]) -> None:
    """Relate the counts of places to those of the same epoch of another table, by its number."""
    of_label = [
        sorted({e for t in published if t.label == one.label and not t.total_of for e in t.times})
        for one in (table, other)
    ]
    if len(of_label[0]) == len(of_label[1]):
        then = dict(zip(*of_label, strict=True))
        times = [then.get(one, (0, 0)) for one in table.times]  # no epoch has no length
        there = Grid.of([other], sums).find(table.places, times)
        sums.add(UNCHANGED, sums.numbers(table).ravel(), there.reshape(-1, 1), is_sum=False)


def _add_unions(sums: Sums) -> None:
    """Relate counts of persons of which one has all parts of the other: it is at least as large.

    Where they have the same parts, such as a region and the total of a table of its districts, they
    are equal.
    """
    whole, parts, sizes, adds, _ = sums.rows()
    row = np.repeat(np.arange(len(whole)), sizes)
    used = ~adds[row]
    ones = np.ones(used.sum(), np.int64), (row[used], parts[used])
    has = sparse.csr_array(ones, (len(whole), parts.max(initial=-1) + 1))
    is_complete = ~adds & (np.bincount(row, parts >= sums.n, len(whole)) == 0) & (sizes > 1)
    shared = (has[is_complete] @ has.T).tocoo()
    less, more = np.flatnonzero(is_complete)[shared.row], shared.col
    within = (shared.data == sizes[less]) & (whole[less] != whole[more])
    less, more = less[within], more[within]
    same = is_complete[more] & (sizes[less] == sizes[more])
    sums.add(SAME, whole[more[same]], whole[less[same], None], is_sum=False)
    smaller = np.stack([whole[less[~same]], np.full(np.count_nonzero(~same), -1)], axis=1)
    sums.add(SAME, whole[more[~same]], smaller, adds=False, is_sum=False)


def measures_without_rests(sums: Sums) -> set[str]:
    """Return measures that do not add up, of which tables count people and parts of these.

    Those in a group but not in its part are not related over places and times.
    """
    whole, parts, sizes, adds, number = sums.rows()

    def counted(rows: _Flags) -> set[tuple[str, str]]:
        cells = np.concatenate([whole[rows], parts[np.repeat(rows, sizes)]])
        some = np.unique(sums.tables_of(cells[cells < sums.n]))
        return {sums.tables[i].counted[:2] for i in some.tolist()}

    of_people = np.isin(np.array([*sums.kinds, ""])[number], (SUBSET, PARTS))
    return {measure for _, measure in counted(~adds) & counted(of_people)}


def _distinct(names: Iterable[Iterable[str]]) -> dict[str, None]:
    return dict.fromkeys(name for some in names for name in some)
