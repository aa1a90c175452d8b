"""Counts that nobody publishes and that relate tables: what two of them both add up to.

If few counts of related tables are not published, all by any people, places, epochs and columns of
categories become cells. Else tables of the same people and measure are compared in pairs: where
both add up to counts that none of them has, these do. Where three tables together may say more than
each two, the tables are named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations, product

import numpy as np

from clusterscale.release.cells import Cells, Counted
from clusterscale.release.publication import Hierarchy, Publication
from clusterscale.release.tilings import Epoch, Epochs, join_times

_Columns = frozenset[tuple[str, frozenset[str]]]

ADDITIVE = ("visits", "trips")
"""Measures that add up over places and times."""

_MOST = 2_000  # counts that nobody publishes, of which all are related


@dataclass(frozen=True, eq=False)
class _Shape:
    """Tables of the same people, measure, columns of categories, and places, at any times.

    Its places are parts of those ``above``, and all parts of those that are ``filled``. If it is
    ``divided``, its columns and times are those of counts that its tables divide.
    """

    tables: tuple[Cells, ...]
    columns: _Columns
    above: frozenset[str]
    filled: frozenset[str]
    times: Epochs
    divided: bool = False

    def sums_to(self, other: _Shape) -> bool:
        """Return whether counts of another shape are sums of counts of this one."""
        return (
            self.tables[0].counted[:2] == other.tables[0].counted[:2]
            and self.columns >= other.columns
            and bool((self.places | self.above) & other.places)
            and bool(join_times(self.times, other.times)[0] & other.times)
        )

    def has_all_of(self, other: _Shape) -> bool:
        """Return whether all counts of another shape are sums of counts of this one."""
        a, b = self.tables[0], other.tables[0]
        if a.counted[:2] != b.counted[:2] or not self.columns >= other.columns:
            return False
        if a.measure not in ADDITIVE:  # those of larger places and longer times are no sums
            return (a.total_of, self.places) == (b.total_of, other.places) and (
                other.times <= self.times
            )
        return (
            (other.places <= self.places | self.filled or b.total_of in self.labels)
            and (not a.total_of or a.total_of == b.total_of)
            and other.times <= join_times(self.times, other.times)[0]
        )

    def divides(self, other: _Shape) -> bool:
        """Return whether places are parts of those of another shape."""
        return bool(self.above & other.places) and not (
            self.tables[0].total_of or other.tables[0].total_of
        )

    @cached_property
    def places(self) -> frozenset[str]:
        """Names of places."""
        return frozenset(self.tables[0].places)

    @cached_property
    def labels(self) -> frozenset[str]:
        """Names of the tables."""
        return frozenset(table.label for table in self.tables)

    def at(self, columns: _Columns) -> set[frozenset[tuple[str, str]]]:
        """Return the categories of these columns only."""
        if self.divided:
            names = [[(name, text) for text in texts] for name, texts in columns]
            return {frozenset(one) for one in product(*names)}
        kept = {column for column, _ in columns}
        return {
            frozenset(one for one in table.categories if one[0] in kept) for table in self.tables
        }


_Need = dict[tuple[Counted, tuple[str, ...], str, str, bool], set[Epoch]]
"""Epochs of unpublished counts, by what is counted, places, label, and what they are totals of."""


def unpublished(
    tables: Sequence[Cells],
    plan: Publication,
    hierarchies: Sequence[tuple[frozenset[str], Hierarchy]],
) -> tuple[list[Cells], list[str]]:
    """Return cells that no table has, and the tables of which three may say more than is related.

    The cells are those between two tables and what both add up to.
    """
    shapes, need, links = _shapes(tables, hierarchies), _Need(), _links(plan)
    for alike in shapes:
        axes = {frozenset(table.times) for table in alike.tables}
        for one_axis, other in combinations(sorted(axes, key=min), 2):
            if min(other)[0] < max(end for _, end in one_axis):  # else they share no time
                joint, *_ = join_times(one_axis, other)
                _need_at(alike, alike.tables[0].places, alike.columns, joint, need)
    have: dict[Counted, list[Cells]] = {}
    for table in tables:
        have.setdefault(table.counted, []).append(table)
    in_pairs, in_doubt = set[_Shape](), set[str]()
    for group in _related(shapes, links):
        beside = [two for two in shapes if any(_are_beside(one, two, links) for one in group)]
        if (every := _need_every(group, beside, links, have)) is None:
            in_pairs.update(group)
            if not _is_said_by_pairs(group, beside):
                in_doubt |= {label for one in group for label in one.labels}
            continue
        for key, epochs in every.items():
            need.setdefault(key, set()).update(epochs)
    for one, two in combinations(shapes, 2):
        if not in_pairs.isdisjoint((one, two)):
            _join(one, two, shapes, links, need)
            _meet(one, two, shapes, need)
    cells = []
    for (counted, places, label, total_of, complete), epochs in need.items():
        if left := _left(counted, places, epochs, have):
            zone = next(one.timezone for one in tables if one.label == label)
            cells.append(Cells.unpublished(label, counted, places, left, zone, complete, total_of))
    return cells, sorted(in_doubt)


def _left(
    counted: Counted,
    places: Sequence[str],
    epochs: Collection[Epoch],
    have: Mapping[Counted, Sequence[Cells]],
) -> list[Epoch]:
    """Return the epochs at which no table has all these places."""
    known, wanted = set[Epoch](), set(places)
    for table in have.get(counted, ()):
        if wanted <= set(table.places):
            known.update(table.times)
    return sorted(set(epochs) - known)


def _need_every(
    group: Sequence[_Shape],
    beside: Sequence[_Shape],
    links: set[tuple[str, str]],
    have: Mapping[Counted, Sequence[Cells]],
) -> _Need | None:
    """Return all counts by any people, columns, places and epochs of related shapes.

    Nothing that follows is missed with them. None if too many of them are not published.
    """
    every, n_left = _Need(), 0
    stated = {one for pair in links for one in pair}
    found = {column for one in (*group, *beside) for column in one.columns}
    # By the texts in order: the order of a set differs between processes.
    columns = sorted(found, key=lambda column: (column[0], sorted(column[1])))
    times = {frozenset(one.times) for one in (*group, *beside)}
    epochs = {epoch for one in (*group, *beside) for epoch in one.times}
    for own, other in combinations(sorted(times, key=sorted), 2):
        epochs |= join_times(own, other)[0]
    of_places = {
        (first.places, first.total_of, first.label if f"/{first.label}" in stated else ""): one
        for one in reversed(group)
        for first in one.tables[:1]
    }
    people = sorted({one.tables[0].people for one in group})
    subsets = chain.from_iterable(combinations(columns, n) for n in range(len(columns) + 1))
    for some, one in product(subsets, of_places.values()):
        texts = [[(name, text) for text in sorted(texts)] for name, texts in some]
        if len({name for name, _ in some}) < len(some):
            continue  # a column is divided in two ways
        alike = [two for two in group if two.places == one.places or two.columns & {*some}]
        complete = all(table.complete for two in alike for table in two.tables)
        first = one.tables[0]
        # A total may be the sum of shown cells only, which adds up to no total of other people.
        certain = all(_counts_hidden(table, group) for table in one.tables)
        whose = people if certain or not first.total_of else [first.people]
        for who, categories in product(whose, product(*texts)):
            counted = who, first.measure, frozenset(categories)
            label, total_of = first.label, first.total_of
            if first.people != who:
                label = _label_of(who, one, group)
                total_of = label if total_of else ""
            every[counted, first.places, label, total_of, complete] = epochs
            n_left += len(first.places) * len(_left(counted, first.places, epochs, have))
            if n_left > _MOST:
                return None
    return every


def _counts_hidden(total: Cells, group: Sequence[_Shape]) -> bool:
    """Return whether a total over places is certainly none of shown cells beside hidden ones."""
    for table in (table for one in group for table in one.tables):
        if (table.label, table.categories) != (total.total_of, total.categories):
            continue
        if table.total_of or table.times != total.times:
            continue
        sums, hidden = np.nansum(table.values, axis=0), np.isnan(table.values).any(axis=0)
        if (hidden & np.isclose(total.values[0], sums)).any():
            return False
    return True


def _is_said_by_pairs(group: Sequence[_Shape], beside: Sequence[_Shape]) -> bool:
    """Return whether counts that fit each two tables always fit all of them.

    They do if all are sums of one table; and of several that count visits or trips of the same
    people, if each further one shares with all earlier ones only what it shares with one of them:
    the counts by all columns can then be divided as each table says (Lauritzen, Graphical Models,
    1996, on decomposable models). Not if a table may lack parts, whose counts nobody knows.
    """
    if not all(table.complete for one in (*group, *beside) for table in one.tables):
        return False
    finest = list[_Shape]()
    for one in (*group, *beside):
        if not any(two.has_all_of(one) for two in finest):
            finest = [two for two in finest if not one.has_all_of(two)] + [one]
    first = finest[0]
    if all((one.columns, one.times) == (first.columns, first.times) for one in finest):
        places = {one.places for one in finest if one in group}
        whose = [one.tables[0].people for one in finest if one in group]
        return len(places) == 1 and len(set(whose)) == len(whose)
    if len({(one.tables[0].counted[:2], one.places, one.times) for one in finest}) > 1:
        return False
    edges = [set(one.columns) for one in finest]
    while len(edges) > 1:
        # A table is left out if all that it shares with the others is in one of them.
        ends = (
            edge
            for edge in edges
            for others in [[one for one in edges if one is not edge]]
            if any(edge & set().union(*others) <= other for other in others)
        )
        if (end := next(ends, None)) is None:
            return False
        edges = [edge for edge in edges if edge is not end]
    return first.tables[0].measure in ADDITIVE


def _label_of(people: str, places: _Shape, group: Sequence[_Shape]) -> str:
    """Return a table of some people that has the places, or parts of them, else that of others."""
    own = [one for one in group if one.tables[0].people == people]
    total_of = places.tables[0].total_of
    parts = {one.places for one in group if total_of and total_of in one.labels}
    alike = [one for one in own if one.places == places.places or one.places in parts]
    alike += [one for one in own if one.above & places.places]
    return (*alike, places)[0].tables[0].label


def _related(shapes: Sequence[_Shape], links: set[tuple[str, str]]) -> Iterator[list[_Shape]]:
    """Yield shapes that count related people."""
    left = list(shapes)
    while left:
        group = [left.pop(0)]
        for one in group:
            near = [two for two in left if _count_alike(one, two, links)]
            group += near
            left = [two for two in left if two not in near]
        yield group


def _count_alike(one: _Shape, two: _Shape, links: set[tuple[str, str]]) -> bool:
    a, b = one.tables[0], two.tables[0]
    return a.measure == b.measure and (a.people == b.people or (a.people, b.people) in links)


def _are_beside(one: _Shape, two: _Shape, links: set[tuple[str, str]]) -> bool:
    return any((f"/{x}", f"/{y}") in links for x, y in product(one.labels, two.labels))


def _shapes(
    tables: Sequence[Cells], hierarchies: Sequence[tuple[frozenset[str], Hierarchy]]
) -> list[_Shape]:
    """Return tables by their people, measure, columns of categories and places."""
    texts: dict[tuple[str, str], set[str]] = {}
    for table in tables:
        for column, text in table.categories:
            texts.setdefault((table.label, column), set()).add(text)

    def columns_of(table: Cells) -> _Columns:
        found = {column for column, _ in table.categories}
        return frozenset((one, frozenset(texts[table.label, one])) for one in found)

    groups: dict[object, list[Cells]] = {}
    for table in tables:
        key = table.counted[:2], columns_of(table), table.places, table.total_of
        groups.setdefault(key, []).append(table)
    shapes = []
    for group in groups.values():
        labels = {table.label for table in group}
        above, filled = set[str](), set[str]()
        for known, hierarchy in hierarchies:
            if labels & known and not group[0].total_of:
                ups = {up for place in group[0].places for _, up in hierarchy.above(place)}
                above |= ups
                filled |= {up for up in ups if hierarchy.lists_all(up, {*group[0].places})}
        times = frozenset(one for table in group for one in table.times)
        ends = frozenset(above), frozenset(filled)
        shapes.append(_Shape(tuple(group), columns_of(group[0]), *ends, times))
    return shapes


def _links(plan: Publication) -> set[tuple[str, str]]:
    """Return the pairs of people, and of labels of tables, that a publication relates."""
    links = set[tuple[str, str]]()
    for entry in plan.tables:
        own = plan.people_of(entry.label)
        links |= {(own, plan.people_of(one)) for one in entry.subset_of}
        if entry.parts_of is not None:
            whole = plan.people_of(entry.parts_of)
            links.add((own, whole))
            # What one part counts follows from what the others count, wherever the whole is known.
            links |= {
                (own, plan.people_of(other.label))
                for other in plan.tables
                if other.parts_of is not None and plan.people_of(other.parts_of) == whole
            }
        links |= {
            (f"/{entry.label}", f"/{one}") for one in (*entry.margins_of, entry.unchanged_from)
        }
    return links | {(two, one) for one, two in links}


def _join(
    one: _Shape,
    two: _Shape,
    shapes: Sequence[_Shape],
    links: set[tuple[str, str]],
    need: _Need,
) -> None:
    """Note what two shapes need so that both add up to the same counts."""
    a, b = one.tables[0], two.tables[0]
    beside = _are_beside(one, two, links)
    if not (beside or _count_alike(one, two, links)):
        return
    meet = one.places & two.places
    up = two.places if b.total_of in one.labels and not a.total_of else one.above & two.places
    down = one.places if a.total_of in two.labels and not b.total_of else two.above & one.places
    common, below = frozenset[str](), list[_Shape]()
    if not (beside or meet or up or down):
        common = one.above & two.above
        # Kinds and regions of places that a third table has are both made of these.
        below = [three for three in shapes if three.divides(one) and three.divides(two)][:1]
        if not (common or below):
            return
    columns = one.columns & two.columns
    joint, ones, twos = join_times(one.times, two.times)
    if beside and not joint:
        for shape in (one, two):
            _need(shape, columns, shape.times, frozenset(), (), need)
        return
    if not joint:
        return
    # Counts of other people are no wholes of these: theirs must be added up to the same places.
    apart = a.people != b.people
    for shape, longer, other in ((one, ones, b if up else None), (two, twos, a if down else None)):
        places = () if meet or other is None else other.places
        _need(shape, columns, joint, longer, places, need)
        if apart and places:
            _need_at(shape, places, columns, joint, need)
    if common:
        _need_at(one, tuple(sorted(common)), columns, joint, need)
    for three in below:
        _need_at(one, three.tables[0].places, columns, joint, need, three)


def _meet(one: _Shape, two: _Shape, shapes: Sequence[_Shape], need: _Need) -> None:
    """Note the counts that two shapes divide, if a third one adds up to neither of both alone.

    Two tables fit each other whenever they agree in what both add up to. Of three, such as sex and
    age of districts, and both of their region, that is not enough: there must be counts by all.
    """
    a, b = one.tables[0], two.tables[0]
    joint, ones, twos = join_times(one.times, two.times)
    if a.counted[:2] != b.counted[:2] or not joint or a.total_of or b.total_of:
        return
    fine = two if two.above & one.places and not one.places & two.places else one
    other = one if fine is two else two
    if not (one.places & two.places or fine.above & other.places):
        return
    columns, times = one.columns | two.columns, one.times if ones else two.times if twos else joint
    if len({name for name, _ in columns}) < len(columns):
        return
    tables = (*fine.tables, *other.tables)
    below = replace(fine, tables=tables, columns=columns, times=times, divided=True)
    if any(
        below.sums_to(three) and not (one.sums_to(three) or two.sums_to(three)) for three in shapes
    ):
        _need_at(below, fine.tables[0].places, columns, times, need)
        for whole in (one, two):
            joint = join_times(times, whole.times)[0] & whole.times
            _need(below, whole.columns, joint, joint - times, (), need)


def _need(
    shape: _Shape,
    columns: _Columns,
    joint: Epochs,
    longer: Epochs,
    places: tuple[str, ...],
    need: _Need,
) -> None:
    """Note the counts between those of a shape, and those of fewer columns at joint epochs.

    Visits add up in any order, so that one way is enough: times, columns one by one, and places.
    What does not add up is bounded by each way in turn.
    """
    first = shape.tables[0]
    chain = [shape.columns]
    for column in sorted(shape.columns - columns, key=lambda one: one[0]):
        chain.append(chain[-1] - {column})
    corners = [(first.places, shape.columns, longer)]
    corners += [(first.places, some, joint) for some in chain[1:]]
    if first.measure not in ADDITIVE:
        corners += [(first.places, some, shape.times) for some in chain[1:]]
        every = joint | shape.times
        corners += [(places, some, every) for some in chain if places]
    for where, some, epochs in corners:
        _need_at(shape, where, some, epochs, need)


def _need_at(
    shape: _Shape,
    places: tuple[str, ...],
    columns: _Columns,
    epochs: Epochs,
    need: _Need,
    beside: _Shape | None = None,
) -> None:
    """Note the counts of places, categories of columns, and epochs, to which a shape adds up.

    Or of its parts, if the places are those of another shape ``beside`` it.
    """
    first, other = shape.tables[0], beside or shape
    total_of = first.total_of if places == first.places else ""
    complete = all(table.complete for table in (*shape.tables, *other.tables))
    label = other.tables[0].label
    for categories in shape.at(columns) if epochs else ():
        counted = first.people, first.measure, categories
        need.setdefault((counted, places, label, total_of, complete), set()).update(epochs)
