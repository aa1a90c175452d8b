"""A publication: tables that were published for one population, and how they are related."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import product
from typing import Annotated, Any, Literal, Self

import h3
import numpy as np
from pydantic import BeforeValidator, Field, Strict, model_validator

from clusterscale.contracts import Address, ConfigModel, Mechanism, Positive
from clusterscale.cube.coded_cells import coarser_cells
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.mechanisms.base import Identity
from clusterscale.mechanisms.chain import steps_of
from clusterscale.reading.places import ARROW
from clusterscale.release.content import RawRelease, TableFormat, with_absent
from clusterscale.release.entry import Format, Name, choose_format, read_table
from clusterscale.release.long import LongTable
from clusterscale.release.metadata import DeclaredMechanism, Size, as_several
from clusterscale.storage import exists
from clusterscale.validation_messages import quote

MARGINS = {"within", "percent"}
"""Settings of a publication that declare when a count is known too well."""

_H3_DIGITS = 16  # of a number of 64 bits
_MOST_ABOVE = 1_000  # places of which one is a part; code lists have tens
_SHOWN = 6  # places of a circle in a message

CODES = "codes"
"""Name of the hierarchy that codes of places have in themselves."""

Measure = Literal["visits", "trips", "persons", "devices"]

Names = Annotated[tuple[str, ...], BeforeValidator(as_several), Strict(False)]

Follow = Callable[[str, Sequence[Any]], Iterable[Any]]
"""Yields items one after another, and reports how many are done; the text says of what."""


def unreported(stage: str, items: Sequence[Any]) -> Iterable[Any]:
    """Return items, of which nothing is reported."""
    return items


class PublicationTable(ConfigModel):
    """One table of a publication.

    Tables of the same ``people`` and ``measure`` are related by their places, times and strata: a
    place is the sum of those of which it is the parent, a longer time of the shorter ones in it,
    and a total of its categories. Persons are counted once in a place and time, so that their
    number is from that of the largest part to the sum; devices add over places, and not over times.

    Attributes
    ----------
    counts
        File, folder or store with the table, e.g. ``districts.csv``.
    name
        Name in other tables and in findings, e.g. ``districts``; by default that of the file.
    format
        Format, if its name does not suggest it, e.g. ``{name: long, place: zone}``.
    mechanism
        How counts were published, e.g. ``{name: exact}``; by default what the table states.
    group_size
        Number of people counted, e.g. ``300``; by default what the table states.
    factor
        Number by which published values were multiplied at the end, in people per device, e.g.
        ``5.13``.
    measure
        What is counted: ``visits``, ``trips``, ``persons`` or ``devices``.
    people
        Name of those whom it counts, e.g. ``residents``; tables without one count all.
    level
        Column, or folder as in ``level=2``, with levels of places, e.g. ``level``.
    strata
        Columns of categories, and the category that is the total in each, e.g. ``{sex: _T}``; null
        if there is none.
    parents
        What places are parts of: ``codes``, whose longer ones are parts of shorter ones, as of
        NUTS, geohashes, H3 and INSPIRE; or files with columns ``place`` and ``parent``, e.g.
        ``[codes]``.
    parent_columns
        Columns of the table with the place of which each is a part, e.g. ``[region]``.
    complete
        Whether all parts of a place, and all categories, are listed, e.g. ``true``; by default if
        absent rows do not hide anything.
    subset_of
        Tables, or people, who are more than those counted here, e.g. ``[all.csv]``.
    parts_of
        Table, or people, whose parts those counted here are; together, all such tables count them,
        e.g. ``all.csv``.
    margins_of
        Tables of trips, and at which end each place counts them: ``origin`` or ``destination``,
        e.g. ``{trips.csv: origin}``.
    unchanged_from
        Table of an earlier time with the same counts at each place, e.g. ``week-01.csv``.
    alone
        Whether the table is meant to be related to no other one, e.g. ``true``; else a table that
        is related to none is inconclusive.
    """

    counts: Address
    name: Name | None = None
    format: Format | None = None
    mechanism: DeclaredMechanism | None = None
    group_size: Size | None = None
    factor: Positive | None = None
    measure: Measure = "visits"
    people: Name | None = None
    level: Name | None = None
    strata: Mapping[str, str | None] = {}
    parents: Names = ()
    parent_columns: Names = ()
    complete: bool | None = None
    subset_of: Names = ()
    parts_of: Name | None = None
    margins_of: Mapping[str, Literal["origin", "destination"]] = {}
    unchanged_from: Name | None = None
    alone: Annotated[bool, Strict()] = False

    @property
    def label(self) -> str:
        """Name of the table."""
        return self.name or self.counts.rstrip("/").rpartition("/")[2]

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that divide the table into tables with one row per place and time."""
        return tuple(name for name in (self.level, *self.strata) if name is not None)


class Publication(ConfigModel):
    """Tables that are published together, or one after another, and are checked together.

    Attributes
    ----------
    tables
        The tables, e.g. ``[{counts: districts.csv, parents: [codes]}]``.
    format
        Format of tables that set none, e.g. ``{name: long, place: zone}``.
    mechanism
        How counts of tables were published that neither set nor state it, e.g. ``{name: exact}``.
    group_size
        Number of people counted in tables that neither set nor state it, e.g. ``300``.
    within
        Largest distance, in visits, at which a hidden count is known too well, e.g. ``1``; if it
        is set here, such cells are inconsistent, and else inconclusive.
    percent
        The same as a share of the count in per cent, e.g. ``10``.
    zeros
        Whether hidden counts that must be 0 are found like any others (``protected``), since
        whoever was there is then in the other categories; or ``unprotected``, and only counted.
    """

    tables: Annotated[tuple[PublicationTable, ...], Field(min_length=1), Strict(False)]
    format: Format | None = None
    mechanism: DeclaredMechanism | None = None
    group_size: Size | None = None
    within: Annotated[int, Strict(), Field(ge=0)] = 1
    percent: Positive | None = None
    zeros: Literal["protected", "unprotected"] = "protected"

    _people: tuple[tuple[PublicationTable, ...], dict[str, str]] = (), {}

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        labels = [table.label for table in self.tables]
        if twice := sorted({label for label in labels if labels.count(label) > 1}):
            raise ValueError(f"tables: {', '.join(twice)} is listed twice; give names")
        known = {*labels, *(table.people for table in self.tables)}
        for table in self.tables:
            stated = (*table.subset_of, table.parts_of, *table.margins_of, table.unchanged_from)
            for name in stated:
                if name is not None and name not in known:
                    named = ", ".join(labels)
                    raise ValueError(
                        f"tables: {table.label} names {name}, which is none of {named}"
                    )
        return self

    @model_validator(mode="after")
    def _each_column_has_one_role(self) -> Self:
        for table in self.tables:
            roles = [("level", table.level), *(("strata", one) for one in table.strata)]
            roles += [("parent_columns", one) for one in table.parent_columns]
            form = table.format or self.format
            if isinstance(form, LongTable):
                places = ("place",) if form.origin is None else ("origin", "destination")
                named = (*places, "time", "hour", "count", "status")
                roles += [(one, getattr(form, one)) for one in named]
            for i, (role, column) in enumerate(roles):
                for other, same in roles[:i]:
                    if column is not None and column == same:
                        raise ValueError(
                            f"tables: column {column} of {table.label} has two roles: {other} and "
                            f"{role}"
                        )
        return self

    @model_validator(mode="after")
    def _relations_have_an_order(self) -> Self:
        # Of people, a part is smaller than its whole: in a circle, all would count the same people.
        graph = {
            "subset_of and parts_of": [
                (self.people_of(table.label), self.people_of(whole), table.label)
                for table in self.tables
                for whole in (*table.subset_of, *filter(None, [table.parts_of]))
            ],
            "margins_of": [
                (table.label, trips, table.label)
                for table in self.tables
                for trips in table.margins_of
            ],
            "unchanged_from": [
                (table.label, table.unchanged_from, table.label)
                for table in self.tables
                if table.unchanged_from is not None
            ],
        }
        for setting, links in graph.items():
            above: dict[str, tuple[str, ...]] = {}
            for one, two, label in links:
                if one == two:
                    raise ValueError(f"tables: {setting} of {label} names its own counts")
                above[one] = (*above.get(one, ()), two)
            if cycle := find_cycle(above):
                named = " → ".join(one or "all people" for one in cycle)
                raise ValueError(f"tables: {setting} leads in a circle: {named}")
        return self

    @property
    def addresses(self) -> list[str]:
        """Addresses of all tables, and of the files of parents."""
        uris = (uri for table in self.tables for uri in (table.counts, *table.parents))
        return [uri for uri in dict.fromkeys(uris) if uri != CODES]

    def in_folder(self, folder: str) -> Self:
        """Return the publication of a file in a folder, so that both can be moved together.

        Relative addresses are those in the folder if one of them is there, else in the current one.
        """
        found = {uri: posixpath.join(folder, uri) for uri in self.addresses if "://" not in uri}
        if folder == "." or not any(uri != at and exists(at) for uri, at in found.items()):
            return self
        tables = []
        for table in self.tables:
            parents = tuple(found.get(uri, uri) for uri in table.parents)
            fields = {"counts": found.get(table.counts, table.counts), "parents": parents}
            tables.append(table.model_copy(update=fields))
        return self.model_copy(update={"tables": tuple(tables)})

    def people_of(self, name: str) -> str:
        """Return the name of the people that a table counts, empty for all; or of people."""
        if self._people[0] is not self.tables:  # a copy may have other tables
            own = [one.subset_of or one.parts_of or one.margins_of for one in self.tables]
            names = {
                table.label: table.people or (table.label if some else "")
                for table, some in zip(self.tables, own, strict=True)
            }
            self._people = self.tables, names
        return self._people[1].get(name, name)


@dataclass(frozen=True, slots=True, eq=False)
class Stratum:
    """A table with one row per place and time: a level, and a category of each column.

    ``texts`` are those in columns of its rows. ``categories`` leave out totals. ``mechanism`` is
    None if neither the table nor the publication states it.
    """

    entry: PublicationTable
    form: TableFormat
    texts: Mapping[str, tuple[str, ...]]
    release: RawRelease
    categories: frozenset[tuple[str, str]]
    mechanism: Mechanism | None
    group_size: int | None
    complete: bool

    @property
    def is_timed(self) -> bool:
        """Whether epochs have times, and not only numbers."""
        return self.release.epochs is not None and self.release.epochs.dtype.kind == "M"


def read_strata(plan: Publication, follow: Follow = unreported) -> Iterator[Stratum]:
    """Yield the levels and categories of each table, in the order of the publication.

    Raises what ``read_table`` raises, and ConfigError if a format has no columns besides.
    """
    for entry in follow("reading tables", plan.tables):
        form = entry.format or plan.format or choose_format(entry.counts)
        found = list(_parts_of(form, entry))
        releases = [read_table(entry.counts, part) for _, part in found]
        if (absent := getattr(form, "absent", None)) in ("hidden", "zero"):
            levels = [texts.get(entry.level or "") for texts, _ in found]
            releases = list(with_absent(releases, levels, np.nan if absent == "hidden" else 0.0))
        blank = [one.has_blank for one in releases]
        for i, ((texts, part), release) in enumerate(zip(found, releases, strict=True)):
            beside = any(blank[:i] + blank[i + 1 :])
            stated, total = release.metadata, entry.strata
            mechanism = entry.mechanism or stated.mechanism or plan.mechanism
            if entry.factor is not None and mechanism is not None:
                expand = MECHANISMS.create("expand", factor=entry.factor)
                changed = not isinstance(mechanism, Identity)
                steps = [*steps_of(mechanism), expand]
                mechanism = MECHANISMS.create("chain", steps=steps) if changed else expand
            told = ", ".join(f"{column} {text}" for column, text in texts.items())
            name = f"{entry.label} ({told})" if told else entry.label
            yield Stratum(
                entry,
                form,
                getattr(part, "where", {}),
                replace(release, name=name, blank_beside=beside),
                frozenset((k, v) for k, v in texts.items() if k in total and v != total[k]),
                mechanism,
                entry.group_size or stated.group_size or plan.group_size,
                getattr(form, "absent", None) != "hidden"
                if entry.complete is None
                else entry.complete,
            )


def _parts_of(
    form: TableFormat, entry: PublicationTable
) -> Iterator[tuple[dict[str, str], TableFormat]]:
    """Yield the level and categories of each part of a table, and the format that reads it."""
    if not entry.columns:
        yield {}, form
        return
    if not isinstance(form, LongTable):
        raise ConfigError(
            f"{entry.label}: level and strata are columns of tables with a row per place and time, "
            f"which {form.name} is not"
        )
    found = list(form.divided(entry.counts, entry.columns))
    for column, total in entry.strata.items():
        if total is not None and all(texts[column] != total for texts, _ in found):
            raise InputError(f"{entry.counts}: no row has the total {total!r} in {column}")
    yield from found


def find_cycle(above: Mapping[str, Sequence[str]]) -> list[str]:
    """Return names that lead from one to the next and back to the first; empty if none do."""
    try:
        TopologicalSorter(above).prepare()
    except CycleError as error:
        return list(error.args[1][::-1])  # which leads from parents to their parts
    return []


_Pairs = dict[str, tuple[str, ...]]


class Hierarchy:
    """What places are parts of, by their codes or by pairs of place and parent.

    ``further`` are pairs that say of what the parents are parts, and nothing of their own places.
    """

    def __init__(
        self, pairs: _Pairs | None = None, name: str = "", further: Sequence[_Pairs] = ()
    ) -> None:
        self.name, self._own = name or CODES, pairs
        self._pairs = pairs = None if pairs is None else _extended(pairs, further)
        self._parts: dict[str, list[str]] = {}
        for place, parents in (pairs or {}).items():
            for parent in parents:
                self._parts.setdefault(parent, []).append(place)
        if pairs and (cycle := find_cycle(pairs)):
            if (n := len(cycle) - _SHOWN) > 0:
                cycle[_SHOWN - 1 : -1] = [f"… ({n:,} more)"]
            raise InputError(
                f"{self.name}: {' is a part of '.join(cycle)}: a place cannot be a part of itself"
            )

    def lists_all(self, place: str, listed: Collection[str]) -> bool:
        """Return whether all parts of a place are listed, or all of their parts; for codes, True.

        Codes do not say which parts there are.
        """
        left = [*self._parts.get(place, ())]
        seen = set(left)
        for part in left:  # which grows
            if part not in listed:
                if part not in self._parts:
                    return False
                below = [one for one in self._parts[part] if one not in seen]
                seen.update(below)
                left += below
        return True

    def above(self, place: str) -> Iterator[tuple[int, str]]:
        """Yield the places of which one is a part, direct or not, and how many steps away.

        Raises InputError if there are too many, as work would grow with their square.
        """
        for n, found in enumerate(self._all_above(place)):
            if n == _MOST_ABOVE:
                raise InputError(
                    f"{self.name}: {quote(place)} is a part of more than {_MOST_ABOVE:,} places, "
                    "directly or in steps, which is more than are looked up for each place: give "
                    "the place that it is a part of, such as its district, and not its neighbour"
                )
            yield found

    def _all_above(self, place: str) -> Iterator[tuple[int, str]]:
        if ARROW in place:
            one, two = ([(0, end), *self.above(end)] for end in place.split(ARROW, 1))
            both = sorted((i + j, f"{a}{ARROW}{b}") for (i, a), (j, b) in product(one, two))
            yield from both[1:]
            return
        if self._pairs is None or self._own is None:
            yield from enumerate(_coarser(place), 1)
            return
        if place not in self._own:
            return
        seen, nearest, steps = {place}, [place], 0
        while nearest:
            steps += 1
            found = [up for one in nearest for up in self._pairs.get(one, ()) if up not in seen]
            nearest = list(dict.fromkeys(found))
            seen.update(nearest)
            yield from ((steps, up) for up in nearest)


def _coarser(code: str) -> Iterator[str]:
    """Yield the codes of which one is a part, the longest first."""
    if len(code) <= _H3_DIGITS and h3.is_valid_cell(code):  # it fails for longer numbers
        for resolution in range(h3.get_resolution(code) - 1, -1, -1):
            yield h3.cell_to_parent(code, resolution)
        return
    try:
        yield from coarser_cells(code)
    except InputError:
        yield from (code[:n] for n in range(len(code) - 1, 0, -1))


def read_hierarchies(plan: Publication) -> list[tuple[frozenset[str], Hierarchy]]:
    """Return each hierarchy of places with the names of the tables that it is used in."""
    labels = frozenset(table.label for table in plan.tables)
    coded = {table.label for table in plan.tables if CODES in table.parents}
    found = [(frozenset(coded), Hierarchy())] if coded else []
    files = dict.fromkeys(uri for table in plan.tables for uri in table.parents if uri != CODES)
    untimed = LongTable(count="parent", at="2000-01-01", step="1d")  # no column of times
    sources = [(untimed, uri, ("place", "parent")) for uri in files]
    for table in plan.tables:
        form = table.format or plan.format or choose_format(table.counts)
        if not isinstance(form, LongTable):
            if table.parent_columns:
                raise ConfigError(f"{table.label}: parent_columns need a row per place and time")
            continue
        sources += [(form, table.counts, (form.place, one)) for one in table.parent_columns]
    stated: dict[str, _Pairs] = {}
    for form, uri, columns in sources:
        ups: dict[str, list[str]] = {}
        try:
            rows = form.texts_of(uri, columns)
        except InputError as error:
            form_of = f"a table of parents has the columns {' and '.join(columns)}"
            raise InputError(
                f"{error}; {form_of}, and a row for each place and its parent"
            ) from None
        for texts in rows:
            place, parent = (texts[name] for name in columns)
            if parent and parent != place:
                ups.setdefault(place, []).append(parent)
        pairs: _Pairs = {place: tuple(some) for place, some in ups.items()}
        if pairs not in stated.values():
            stated[f"{uri}:{columns[1]}"] = pairs
    for name, pairs in stated.items():
        others = [other for other in stated.values() if other is not pairs]
        found.append((labels, Hierarchy(pairs, name.rpartition(":")[0], others)))
    return found


def _extended(pairs: _Pairs, others: Sequence[_Pairs]) -> _Pairs:
    """Return pairs of places and parents with what others say of the parents.

    What one says of its own places stays: others may divide the same regions in other ways.
    """
    found, left = dict(pairs), list(others)
    while True:
        tops = {up for ups in found.values() for up in ups} - found.keys()
        more = [other for other in left if tops & other.keys()]
        if not more:
            return found
        left = [other for other in left if other not in more]
        for other in more:
            for place in other.keys() - pairs.keys():
                found[place] = tuple(dict.fromkeys((*found.get(place, ()), *other[place])))
