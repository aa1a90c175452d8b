"""What each relation of a publication related, and what it should have related and did not."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints
from clusterscale.reading.places import ARROW
from clusterscale.release.cells import Cells, Sums
from clusterscale.release.lattice import (
    CATEGORIES,
    MARGINS,
    PARTS,
    PLACES,
    SUBSET,
    UNCHANGED,
)
from clusterscale.release.network import joined
from clusterscale.release.publication import Publication, PublicationTable
from clusterscale.release.text import LIKE_ALL, LIKE_TOTAL
from clusterscale.validation_messages import plural

_SHOWN = 4  # names in a sentence


@dataclass(frozen=True, slots=True)
class Related:
    """What the relations of one kind between two tables related.

    ``whole`` and ``part`` are names of tables. ``n_places`` and ``n_times`` are how many places and
    epochs of the part were matched, of ``of_places`` and ``of_times``.
    """

    kind: str
    whole: str
    part: str
    n_places: int
    of_places: int
    n_times: int
    of_times: int

    @property
    def text(self) -> str:
        """One clause with the numbers."""
        kind = self.kind.replace("_", " ")
        places = f"{self.n_places:,} of {plural(self.of_places, 'place')}"
        times = f"{self.n_times:,} of {plural(self.of_times, 'time')}"
        return f"{self.part} to {self.whole} by {kind}: {places}, {times}"


class Matches:
    """Which places and epochs of each table take part in relations, by kind and tables.

    ``tables`` are those that are published; totals over all places are left out.
    """

    def __init__(self, sums: Sums, tables: Sequence[Cells], plan: Publication) -> None:
        self.plan = plan
        self.labels = [entry.label for entry in plan.tables]
        self.hierarchies = sums.hierarchies
        self.texts: dict[str, dict[str, dict[str, set[str]]]] = {}
        self.places: dict[str, dict[str, None]] = {label: {} for label in self.labels}
        self.times: dict[str, dict[tuple[int, int], None]] = {label: {} for label in self.labels}
        self.has_totals = len({(table.label, table.categories) for table in tables}) < len(tables)
        for table in tables:
            if not table.total_of:
                self.places[table.label].update(dict.fromkeys(table.places))
                self.times[table.label].update(dict.fromkeys(table.times))
            for column, text in table.categories:
                of_label = self.texts.setdefault(column, {}).setdefault(table.label, {})
                listed = table.complete and not table.total_of
                of_label.setdefault(text, set()).update(table.places if listed else ())
        self.related = list[Related]()
        self.wholes: dict[tuple[str, str, str], set[str]] = {}
        self.parts: dict[tuple[str, str, str], set[str]] = {}
        whole, parts, sizes, _, number = sums.rows()
        whole, number = np.repeat(whole, sizes), np.repeat(number, sizes)
        own = _says_something(sums, len(tables), whole, parts, plan)
        whole, parts, number = whole[own], parts[own], number[own]
        kinds, kind = np.unique([*sums.kinds, ""], return_inverse=True)
        label = np.array([self.labels.index(one.label) for one in sums.tables])[:, None]
        pairs = np.concatenate(
            [kind[number][:, None], *(label[sums.tables_of(cells)] for cells in (whole, parts))], 1
        )
        found, which = np.unique(pairs, axis=0, return_inverse=True)
        for i, (one, up, down) in enumerate(found.tolist()):
            key = str(kinds[one]), self.labels[up], self.labels[down]
            here = which.ravel() == i
            self.wholes[key], _ = _names_of(sums, whole[here])
            self.parts[key], times = _names_of(sums, parts[here])
            if up != down or key[0] == CATEGORIES:
                of_places, of_times = self.places[key[2]], self.times[key[2]]
                longer = times - of_times.keys()  # of totals over time that nobody publishes
                n_times = sum(
                    time in times or any(a <= time[0] and time[1] <= b for a, b in longer)
                    for time in of_times
                )
                counts = len(self.parts[key] & of_places.keys()), len(of_places), n_times
                self.related.append(Related(*key, *counts, len(of_times)))

    def _of(self, kind: str, label: str) -> Iterator[tuple[str, str, str]]:
        return (key for key in self.parts if key[0] == kind and label in key[1:])

    def problems(self) -> Iterator[str]:
        """Yield what was declared and not related, or not related and not declared alone."""
        for entry in self.plan.tables:
            yield from self._lone(entry)
            if entry.parents or entry.parent_columns:
                yield from self._unmatched_parts(entry)
            yield from self._unmatched_people(entry)
            for column in (one for one, total in entry.strata.items() if total is None):
                texts = self.texts.get(column, {}).get(entry.label, {})
                for text in (t for t in texts if LIKE_TOTAL.fullmatch(t) or LIKE_ALL.fullmatch(t)):
                    yield (
                        f"{text} of {column} in {entry.label} is read as a category: state "
                        f"`strata: {{{column}: {text}}}` if it is the total"
                    )
        yield from self._childless()
        yield from self._unlike_categories()
        named = sorted({one for entry in self.plan.tables if (one := entry.people) is not None})
        for one, two in combinations(named, 2):
            if _are_alike(one, two):
                yield f"people {one} and {two} are written alike, and are not related"

    def _lone(self, entry: PublicationTable) -> Iterator[str]:
        """Yield that a table is related to no other one, and what may be in the way."""
        label = entry.label
        others = [key for key in self.parts if label in key[1:] and key[1] != key[2]]
        if entry.alone or others or (len(self.labels) == 1 and (self.parts or self.has_totals)):
            return
        if len(self.labels) == 1:
            yield f"nothing in {label} is related: state `alone: true` if that is meant"
            return
        why = next((why for one in self.labels if (why := self._in_the_way(entry, one))), "")
        yield f"{label} is related to no other table{why}: state `alone: true` if that is meant"

    def _in_the_way(self, entry: PublicationTable, other: str) -> str:
        two = next(one for one in self.plan.tables if one.label == other)
        if two is entry or not self._share_places(entry.label, other):
            return ""
        people = [self.plan.people_of(one.label) or "all people" for one in (entry, two)]
        if people[0] != people[1]:
            return f"; it counts {people[0]}, and {other} counts {people[1]}"
        if entry.measure != two.measure:
            return f"; it counts {entry.measure}, and {other} counts {two.measure}"
        if not self.times[entry.label].keys() & self.times[other].keys():
            return f"; its times are not those of {other}"
        return ""

    def _share_places(self, label: str, other: str) -> bool:
        return bool(self.places[label].keys() & self.places[other].keys()) or any(
            key[0] == PLACES for key in self._of(PLACES, label) if other in key
        )

    def _unmatched_parts(self, entry: PublicationTable) -> Iterator[str]:
        """Yield places of a table with parents that are neither parts nor wholes of others."""
        alike = [
            one.label
            for one in self.plan.tables
            if self.plan.people_of(one.label) == self.plan.people_of(entry.label)
            and one.measure == entry.measure
        ]
        linked = set().union(
            *(some for key, some in self.parts.items() if key[0] == PLACES and key[2] in alike),
            *(some for key, some in self.wholes.items() if key[0] == PLACES and key[1] in alike),
        )
        if left := [place for place in self.places[entry.label] if place not in linked]:
            others = [one for label in self.labels for one in self.places[label]]
            near = _near_misses([*left, *self._above(entry.label, left)], others)
            yield (
                f"{_named(left)} in {entry.label} {_are(left)} part of no place that a table of "
                f"the same people and measure has at these times{near}"
            )

    def _childless(self) -> Iterator[str]:
        """Yield places without parts in a table in which others have some."""
        divided = {one for key, some in self.wholes.items() if key[0] == PLACES for one in some}
        for kind, up, down in self.wholes:
            # A label stands for counts that nobody publishes, too: only own places may lack parts.
            own = self.wholes[kind, up, down] & self.places[up].keys()
            if kind == PLACES and up != down and own:
                left = [place for place in self.places[up] if place not in divided]
                if left:
                    near = _near_misses(left, self._above(down, self.places[down]))
                    yield f"{_named(left)} in {up} {_have(left)} no parts in {down}{near}"

    def _above(self, label: str, places: Iterable[str]) -> list[str]:
        """Return the places of which some of a table are parts, by any hierarchy."""
        return [
            up
            for labels, hierarchy in self.hierarchies
            if label in labels
            for place in places
            for _, up in hierarchy.above(place)
        ]

    def _unmatched_people(self, entry: PublicationTable) -> Iterator[str]:
        """Yield what the relations of groups of people, margins and earlier tables do not match."""
        stated = [(SUBSET, one) for one in entry.subset_of]
        stated += [(PARTS, one) for one in filter(None, [entry.parts_of])]
        stated += [(MARGINS, one) for one in entry.margins_of]
        stated += [(UNCHANGED, one) for one in filter(None, [entry.unchanged_from])]
        for kind, name in stated:
            ends = [entry.label], self._labels_of(name, kind)
            up, down = ends if kind in (MARGINS, UNCHANGED) else ends[::-1]
            keys = [key for key in self.parts if key[0] == kind and key[1] in up and key[2] in down]
            if not keys:
                yield (
                    f"{kind.replace('_', ' ')} {name} of {entry.label} relates nothing: no place, "
                    "time, category and measure of both is the same"
                )
                continue
            matched = set().union(*(self.parts[key] for key in keys))
            wholes = set().union(*(self.wholes[key] for key in keys))
            of_part = down[0] if kind == MARGINS else entry.label
            matched |= wholes if kind == UNCHANGED else set()
            pairs = [(of_part, matched), *([(entry.label, wholes)] if kind == MARGINS else [])]
            for label, known in pairs:
                if left := [place for place in self.places[label] if place not in known]:
                    others = [one for some in (*up, *down) for one in self.places[some]]
                    stays = f"{_named(left)} in {label} {_are(left)} not matched by {kind} {name}"
                    yield stays + _near_misses(left, others)

    def _labels_of(self, name: str, kind: str) -> list[str]:
        if kind in (MARGINS, UNCHANGED):
            return [name]
        people = self.plan.people_of(name)
        return [one for one in self.labels if self.plan.people_of(one) == people]

    def _unlike_categories(self) -> Iterator[str]:
        """Yield columns whose categories differ between places of a table, or between tables."""
        for column, by_table in self.texts.items():
            for label, places in by_table.items():
                every = set().union(*places.values())
                for text in sorted(places, key=lambda one: len(places[one]))[:1]:
                    if left := sorted(every - places[text]):
                        totals = [
                            e.strata.get(column) for e in self.plan.tables if e.label == label
                        ]
                        others = [*places.keys() - {text}, *filter(None, totals)]
                        yield (
                            f"{text} of {column} in {label} has no row for {_named(left)}, where "
                            f"categories are not added up{_near_misses([text], others)}"
                        )
            for (one, these), (two, those) in combinations(
                ((label, places.keys()) for label, places in by_table.items()), 2
            ):
                if these != those:
                    left = sorted(these ^ those)
                    near = _near_misses(sorted(these - those), those - these)
                    yield (
                        f"categories of {column} in {one} and {two} differ in {_named(left)}, and "
                        f"are related by their totals only{near}"
                    )
                    break


def _says_something(
    sums: Sums, n_tables: int, whole: Ints, parts: Ints, plan: Publication
) -> NDArray[np.bool_]:
    """Return which pairs of a whole and a part relate tables of their own people, shape (pair,).

    Counts that nobody publishes, and that are joined to one table only, relate it to nothing.
    """
    n = int(max(whole.max(initial=-1), parts.max(initial=-1))) + 1
    component = joined((whole, parts), n)
    table = sums.tables_of(np.arange(min(n, sums.n)))
    is_published = table < n_tables
    labels = np.unique([one.label for one in sums.tables], return_inverse=True)[1][table]
    pairs = np.unique(np.stack([component[: len(table)], labels])[:, is_published], axis=1)
    n_labels = np.bincount(pairs[0], minlength=component.max(initial=0) + 1)
    is_own = np.array([one.people == plan.people_of(one.label) for one in sums.tables])[table]
    found = parts < sums.n  # rests are in no table
    known, some = whole[found], parts[found]
    both = is_published[known] & is_published[some]
    found[found] = is_own[known] & is_own[some] & (both | (n_labels[component[known]] > 1))
    return found


def _names_of(sums: Sums, cells: Ints) -> tuple[set[str], set[tuple[int, int]]]:
    """Return the places and the epochs of cells of tables."""
    places, times = set[str](), set[tuple[int, int]]()
    cells = np.unique(cells)
    of_table = sums.tables_of(cells)
    for i in np.unique(of_table).tolist():
        table = sums.tables[i]
        row, column = np.divmod(cells[of_table == i] - sums.first[i], len(table.starts))
        places.update(table.places[j] for j in np.unique(row).tolist())
        times.update(table.times[j] for j in np.unique(column).tolist())
    return places, times


def _named(names: Collection[str]) -> str:
    some = [repr(name) if not name.isprintable() else name for name in list(names)[:_SHOWN]]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(some) + more


def _are(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _have(names: Collection[str]) -> str:
    return "has" if len(names) == 1 else "have"


def _near_misses(names: Sequence[str], others: Collection[str]) -> str:
    """Return a clause on names that differ from others only in how they are written."""
    forms: dict[str, str] = {}
    for one in others:
        for prefix in (one, *one.split(ARROW)):
            forms.setdefault(plain_form(prefix), prefix)
    near = [
        (name, known)
        for name in names
        if (known := forms.get(plain_form(name))) is not None and known != name
    ]
    pairs = ", ".join(f"{one!a} and {two!a}" for one, two in near[:_SHOWN])
    return f"; only their spelling differs: {pairs}" if near else ""


def _are_alike(one: str, two: str) -> bool:
    """Return whether names of people differ in how they are written, or in one letter."""
    codes = SequenceMatcher(None, one, two, autojunk=False).get_opcodes()
    changes = [(one[a:b], two[c:d]) for kind, a, b, c, d in codes if kind != "equal"]
    is_letter = len(changes) == 1 and max(map(len, changes[0])) == 1 < min(len(one), len(two))
    numbers = any(text.isdigit() for change in changes for text in change)
    return plain_form(one) == plain_form(two) or (is_letter and not numbers)


def plain_form(name: str) -> str:
    """Return a name without differences of case, Unicode form, white space, and leading zeros."""
    text = unicodedata.normalize("NFKC", name).casefold()
    kept = [one for one in text if unicodedata.category(one) not in ("Cf", "Cc", "Zs", "Mn")]
    return "".join(kept).lstrip("0")
