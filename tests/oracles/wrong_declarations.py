"""Publications that give a count away, of which one declaration is wrong."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

FORM = {"name": "long", "place": "zone", "count": "people", "step": "1h"}
RULE = {"name": "threshold", "k": 5, "shown": "hidden"}
SPELLINGS: dict[str, Callable[[str, np.random.Generator], str]] = {
    "another letter": lambda text, rng: _at(text, rng, lambda _: "q"),
    "a letter less": lambda text, rng: _at(text, rng, lambda _: ""),
    "a letter twice": lambda text, rng: _at(text, rng, lambda one: 2 * one),
    "case": lambda text, _: text.swapcase(),
    "invisible": lambda text, rng: _at(
        text, rng, lambda one: one + str(rng.choice([*"\u200b\u00ad\u2060\ufeff\u200e"]))
    ),
    "space": lambda text, rng: _at(text, rng, lambda one: f"{one} ") + "\u00a0",
    "decomposed": lambda text, _: unicodedata.normalize("NFD", f"{text}é"[: len(text)] + "é"),
    "homoglyph": lambda text, _: text.translate(str.maketrans("SEoaeS", "ЅЕоаеЅ")) + "\u0430",
    "underscore": lambda text, _: f"{text}_",
    "zero": lambda text, _: f"0{text}",
}


def _at(text, rng, change):
    place = int(rng.integers(len(text)))
    return text[:place] + change(text[place]) + text[place + 1 :]


@dataclass
class Declared:
    """A publication: its file, and the rows of each table."""

    plan: dict
    files: dict[str, list[list[str]]]

    @property
    def tables(self) -> list[dict]:
        """Entries of the tables."""
        return self.plan["tables"]


def draw_wrong(seed: int) -> tuple[str, Declared, Declared]:
    """Return what is wrong, the right publication, which gives a count away, and the wrong one."""
    kind = list(WRONG)[seed % len(WRONG)]
    draw, change = WRONG[kind]
    right, wrong = (draw(np.random.default_rng([seed, 63])) for _ in range(2))
    told = change(wrong, np.random.default_rng([seed, 64]))
    return f"{kind} {told or ''}".strip(), right, wrong


def _plan(*tables: dict) -> dict:
    return {"format": FORM, "mechanism": RULE, "group_size": 5000, "tables": list(tables)}


def _hours(rng):
    return [f"2026-03-02T{8 + i:02}:00Z" for i in range(int(rng.integers(1, 4)))]


def _levels(rng, how):
    """Regions and their districts, of which one in each region is hidden: it follows."""
    names = ["Ávila", "Köln", "Norte"] if how != "codes" else ["ES1", "ES2", "ES3"]
    regions, hours = names[: int(rng.integers(1, 4))], _hours(rng)
    parts = {
        region: [f"{region}{1 + i}" for i in range(int(rng.integers(2, 4)))] for region in regions
    }
    head = ["zone", "time", *(["above"] if how == "column" else []), "people"]
    upper, lower = [["zone", "time", "people"]], [head]
    for region, hour in product(regions, hours):
        counts = [int(n) for n in rng.integers(5, 40, len(parts[region]))]
        counts[int(rng.integers(len(counts)))] = int(rng.integers(1, 5))
        upper.append([region, hour, str(sum(counts))])
        for district, count in zip(parts[region], counts, strict=True):
            own = [region] if how == "column" else []
            lower.append([district, hour, *own, str(count) if count >= 5 else "*"])
    files = {"regions.csv": upper, "districts.csv": lower}
    entry: dict = {"counts": "districts.csv"}
    if how == "files":
        rows = [[one, region] for region in regions for one in parts[region]]
        files["parents.csv"] = [["place", "parent"], *rows]
        entry["parents"] = ["parents.csv"]
    elif how == "column":
        entry["parent_columns"] = ["above"]
    else:
        entry["parents"] = ["codes"]
    return Declared(_plan({"counts": "regions.csv"}, entry), files)


def _strata(rng):
    """Both sexes and their total, of which one is hidden."""
    rows = [["zone", "time", "sex", "people"]]
    for zone, hour in product(["A", "B"], _hours(rng)):
        many, few = int(rng.integers(5, 40)), int(rng.integers(1, 5))
        for sex, text in (("_T", many + few), ("F", many), ("M", "*")):
            rows.append([zone, hour, sex, str(text)])
    return Declared(_plan({"counts": "t.csv", "strata": {"sex": "_T"}}), {"t.csv": rows})


def _whole(rng, form):
    """All people, and residents of whom they are few more, or visitors as well."""
    every, some, rest = ([["zone", "time", "people"]] for _ in range(3))
    for zone, hour in product(["A", "B"], _hours(rng)):
        many, few = int(rng.integers(5, 40)), int(rng.integers(1, 5))
        every.append([zone, hour, str(many + few)])
        some.append([zone, hour, str(many)])
        rest.append([zone, hour, "*"])
    tables = [{"counts": "all.csv"}, {"counts": "residents.csv", "people": "residents",
                                      form: "all.csv"}]  # fmt: skip
    files = {"all.csv": every, "residents.csv": some}
    if form == "parts_of":
        tables.append({"counts": "visitors.csv", "people": "visitors", form: "all.csv"})
        files["visitors.csv"] = rest
    return Declared(_plan(*tables), files)


def _grouped(rng):
    """Regions and districts of residents alone, of which one is hidden."""
    made = _levels(rng, "codes")
    for entry in made.tables:
        entry["people"] = "residents"
    return made


def _margins(rng):
    """Trips between places, of which one is hidden, and how many start in each."""
    hours, zones = _hours(rng), ["A", "B", "C"]
    trips, out = [["from", "to", "time", "people"]], [["zone", "time", "people"]]
    for hour in hours:
        counts = rng.integers(5, 90, (3, 3))
        counts[tuple(rng.integers(0, 3, 2))] = rng.integers(1, 5)
        for a, b in product(range(3), range(3)):
            text = str(counts[a, b]) if counts[a, b] >= 5 else "*"
            trips.append([zones[a], zones[b], hour, text])
        out += [[zones[a], hour, str(counts[a].sum())] for a in range(3)]
    form = {"name": "long", "origin": "from", "destination": "to", "count": "people", "step": "1h"}
    tables = {"counts": "trips.csv", "measure": "trips", "format": form}
    margin = {"counts": "out.csv", "measure": "trips", "margins_of": {"trips.csv": "origin"}}
    return Declared(_plan(tables, margin), {"trips.csv": trips, "out.csv": out})


def _earlier(rng):
    """A table, and that of the week before with the same counts, each hiding another."""
    now, before = [["zone", "time", "people"]], [["zone", "time", "people"]]
    for zone, hour in product(["A", "B"], _hours(rng)):
        few = str(int(rng.integers(5, 40)))
        now.append([zone, hour, "*"])
        before.append([zone, hour.replace("03-02", "02-23"), few])
    tables = {"counts": "now.csv", "unchanged_from": "before.csv"}
    plan = _plan(tables, {"counts": "before.csv"})
    plan["mechanism"] = {"name": "exact"}
    return Declared(plan, {"now.csv": now, "before.csv": before})


def _respell(made, rng, name, column):
    """Spell texts of a column otherwise: one of them everywhere, or in one row."""
    rows = made.files[name]
    texts = sorted({row[column] for row in rows[1:]})
    how = list(SPELLINGS)[int(rng.integers(len(SPELLINGS)))]
    old = texts[int(rng.integers(len(texts)))]
    new = SPELLINGS[how](old, rng)
    everywhere = rng.random() < 0.5
    some = [row for row in rows[1:] if row[column] == old]
    for row in some if everywhere else [some[int(rng.integers(len(some)))]]:
        row[column] = new
    return f"({how}{', everywhere' if everywhere else ''})"


def _rename(made, rng, entry, field):
    """Spell a name in an entry otherwise."""
    how = list(SPELLINGS)[int(rng.integers(len(SPELLINGS)))]
    value = made.tables[entry][field]
    if isinstance(value, dict):
        [(old, other)] = value.items()
        made.tables[entry][field] = {SPELLINGS[how](old, rng): other}
    else:
        old = value[0] if isinstance(value, list) else value
        new = SPELLINGS[how](old, rng)
        made.tables[entry][field] = [new] if isinstance(value, list) else new
    return f"({how})"


def _set(entry, **fields):
    return lambda made, _: made.tables[entry].update(fields)


def _swap_pairs(made, _):
    rows = made.files["parents.csv"]
    rows[1:] = [[parent, place] for place, parent in rows[1:]]


def _pairs(make):
    def change(made, rng):
        made.files["parents.csv"][1:] = make(made.files["parents.csv"][1:], rng)

    return change


def _year(name):
    def change(made, rng):
        year = str(int(rng.choice([2024, 2025, 2027])))
        for row in made.files[name][1:]:
            row[:] = [text.replace("2026-", f"{year}-") for text in row]

    return change


def _month(name):
    def change(made, _):
        for row in made.files[name][1:]:
            row[:] = [text.replace("-03-02T", "-02-03T") for text in row]

    return change


def _files(rng):
    return _levels(rng, "files")


def _codes(rng):
    return _levels(rng, "codes")


def _column(rng):
    return _levels(rng, "column")


def _subset(rng):
    return _whole(rng, "subset_of")


def _parts(rng):
    return _whole(rng, "parts_of")


WRONG: dict[str, tuple[Callable, Callable]] = {
    "parent in the file": (_files, lambda m, r: _respell(m, r, "parents.csv", 1)),
    "place in the file": (_files, lambda m, r: _respell(m, r, "parents.csv", 0)),
    "region in the table": (_files, lambda m, r: _respell(m, r, "regions.csv", 0)),
    "district in the table": (_files, lambda m, r: _respell(m, r, "districts.csv", 0)),
    "code of a region": (_codes, lambda m, r: _respell(m, r, "regions.csv", 0)),
    "parent in the column": (_column, lambda m, r: _respell(m, r, "districts.csv", 2)),
    "region beside a column": (_column, lambda m, r: _respell(m, r, "regions.csv", 0)),
    "parents of another country": (
        _files, _pairs(lambda rows, _: [[f"FR{i}", f"FR{i % 2}0"] for i, _ in enumerate(rows)])),
    "parents that are the places": (_files, _pairs(lambda rows, _: [[a, a] for a, _ in rows])),
    "parents in a cycle": (
        _files, _pairs(lambda rows, _: [*rows, *([b, a] for a, b in rows)])),
    "parents and places swapped": (_files, _swap_pairs),
    "no parents in the file": (_files, _pairs(lambda rows, _: [])),
    "one pair is missing": (
        _files, _pairs(lambda rows, r: [x for i, x in enumerate(rows) if i != r.integers(1)])),
    "no parents": (_files, lambda m, _: m.tables[1].pop("parents") and None),
    "codes of names": (_files, _set(1, parents=["codes"])),
    "parents file": (_files, lambda m, r: _rename(m, r, 1, "parents")),
    "year of regions": (_codes, _year("regions.csv")),
    "year of districts": (_files, _year("districts.csv")),
    "day and month swapped": (_codes, _month("districts.csv")),
    "people of regions": (_grouped, lambda m, r: _rename(m, r, 0, "people")),
    "people of districts": (_grouped, lambda m, r: _rename(m, r, 1, "people")),
    "people of one table only": (_grouped, lambda m, _: m.tables[0].pop("people") and None),
    "persons beside visits": (_codes, _set(0, measure="persons")),
    "trips beside visits": (_codes, _set(1, measure="trips")),
    "devices beside visits": (_files, _set(1, measure="devices")),
    "factor of one table": (_codes, _set(0, factor=2.5)),
    "column of parents": (_column, lambda m, r: _rename(m, r, 1, "parent_columns")),
    "times as parents": (_column, _set(1, parent_columns=["time"])),
    "places as parents": (_column, _set(1, parent_columns=["zone"])),
    "counts as parents": (_column, _set(1, parent_columns=["people"])),
    "total": (_strata, lambda m, r: _set(0, strata={"sex": SPELLINGS[
        list(SPELLINGS)[int(r.integers(len(SPELLINGS)))]]("_T", r)})(m, r)),
    "no total": (_strata, _set(0, strata={"sex": None})),
    "a category as total": (_strata, _set(0, strata={"sex": "F"})),
    "column of strata": (_strata, lambda m, r: _rename(m, r, 0, "strata")),
    "category in the table": (_strata, lambda m, r: _respell(m, r, "t.csv", 2)),
    "strata and level of a column": (_strata, _set(0, level="sex")),
    "strata of places": (_strata, _set(0, strata={"sex": "_T", "zone": None})),
    "strata of times": (_strata, _set(0, strata={"sex": "_T", "time": None})),
    "strata and parents of a column": (_strata, _set(0, parent_columns=["sex"])),
    "whole of a part": (_subset, lambda m, r: _rename(m, r, 1, "subset_of")),
    "a part of itself": (_subset, _set(1, subset_of="residents.csv")),
    "parts of each other": (_subset, _set(0, subset_of="residents.csv")),
    "parts of the other": (_parts, _set(1, parts_of="visitors.csv")),
    "a part of itself and others": (_parts, _set(2, parts_of="visitors.csv")),
    "places of a part": (_subset, lambda m, r: _respell(m, r, "residents.csv", 0)),
    "places of a visitor": (_parts, lambda m, r: _respell(m, r, "visitors.csv", 0)),
    "year of a part": (_subset, _year("residents.csv")),
    "parts of a part": (_parts, _set(1, parts_of="all.csv", subset_of="visitors.csv")),
    "measure of a part": (_subset, _set(1, measure="persons")),
    "margins of the other end": (_margins, _set(1, margins_of={"trips.csv": "destination"})),
    "name of trips": (_margins, lambda m, r: _rename(m, r, 1, "margins_of")),
    "places of margins": (_margins, lambda m, r: _respell(m, r, "out.csv", 0)),
    "origins of trips": (_margins, lambda m, r: _respell(m, r, "trips.csv", 0)),
    "margins of themselves": (_margins, _set(1, margins_of={"out.csv": "origin"})),
    "year of margins": (_margins, _year("out.csv")),
    "table of an earlier time": (_earlier, lambda m, r: _rename(m, r, 0, "unchanged_from")),
    "unchanged from itself": (_earlier, _set(0, unchanged_from="now.csv")),
    "unchanged from each other": (_earlier, _set(1, unchanged_from="now.csv")),
    "places of an earlier time": (_earlier, lambda m, r: _respell(m, r, "before.csv", 0)),
    "step of regions": (_codes, _set(0, format={**FORM, "step": "7h"})),
}  # fmt: skip
