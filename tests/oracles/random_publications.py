"""Random publications of small populations, with their lattice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from oracles.publication_oracle import ALL, Axis, Cell, Lattice
from oracles.published_values import Rule, draw_rule, exact, multiplied

CATEGORIES = {"sex": ["F", "M"], "age": ["child", "adult", "old"]}
TOTALS = {"sex": "_T", "age": "all"}


@dataclass
class Event:
    """A person who is seen somewhere, with categories in the order of the columns."""

    person: int
    people: frozenset[str]
    place: str
    time: str
    categories: tuple[str, ...]


@dataclass
class World:
    """Who was where, and what places and times consist of."""

    columns: list[str]
    axes: list[Axis]
    events: list[Event]
    measure: str
    counts_persons: bool

    def count(self, people: str, place: str, time: str, categories: tuple[str, ...]) -> int:
        """Return the count of a cell of the lattice."""
        nodes = [
            set(axis.finest(node))
            for axis, node in zip(self.axes, (place, time, *categories), strict=True)
        ]
        seen = [
            one.person
            for one in self.events
            if people in one.people
            and all(
                own in some
                for own, some in zip((one.place, one.time, *one.categories), nodes, strict=True)
            )
        ]
        return len(set(seen)) if self.counts_persons else len(seen)


@dataclass
class Table:
    """A table to write: its places, times and columns of categories, and its settings."""

    name: str
    places: list[str]
    times: list[str]
    columns: list[str]
    totals: list[str]
    rule: Rule
    people: str = ""
    step: int = 1
    entry: dict = field(default_factory=dict)
    parent_column: dict[str, str] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)


@dataclass
class Case:
    """A publication to check: its file, its tables, and what is true of it."""

    seed: int
    plan: dict
    files: dict[str, str]
    lattice: Lattice
    kinds: frozenset[str]
    differences: list[tuple[Cell, Cell, str]]
    honest: bool = True


def draw_case(seed: int) -> Case:
    """Return a random publication of true counts."""
    return _Draft(seed).case()


class _Draft:
    """A publication that is being drawn."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, np.random.default_rng([seed, 62])
        self.kinds: set[str] = set()
        self.files: dict[str, str] = {}
        self.tables: list[Table] = []
        self.people: list[tuple[str, tuple[str, ...]]] = []
        self.wholes: dict[str, str] = {}  # people, and those of whom they are a part

    def case(self) -> Case:
        self._draw_world()
        self._draw_people()
        self._draw_tables()
        plan = {
            "format": {"name": "long", "place": "zone", "count": "people", "step": "1h"},
            "mechanism": self.usual.declared,
            "group_size": 5000,
        }
        within = [None, 0, 1000][int(self.rng.integers(3))]
        if within is not None:
            plan["within"] = within
        cells = [cell for table in self.tables for cell in self._write(table)]
        plan["tables"] = [table.entry for table in self.tables]
        lattice = Lattice(self.world.axes, cells, self.people)
        return Case(
            self.seed,
            plan,
            self.files,
            lattice,
            frozenset(self.kinds),
            list(self._differences(cells)),
        )

    def _chance(self, share: float, kind: str = "") -> bool:
        """Return whether to use a feature, and note it."""
        use = bool(self.rng.random() < share)
        if use and kind:
            self.kinds.add(kind)
        return use

    def _draw_world(self) -> None:
        rng = self.rng
        measure = str(rng.choice(["visits", "visits", "visits", "persons", "devices", "trips"]))
        self.kinds.add(measure)
        self.regions = [f"ES{i + 1}" for i in range(int(rng.integers(1, 3)))]
        n_districts = int(rng.integers(max(2, len(self.regions)), 5))
        home = [*range(len(self.regions)), *rng.integers(0, len(self.regions), n_districts)]
        home = sorted(home[:n_districts])
        self.region_of = {
            f"{self.regions[i]}{1 + sum(j == i for j in home[:at])}": self.regions[i]
            for at, i in enumerate(home)
        }
        self.districts = list(self.region_of)
        self.hours = [f"2026-03-02T{8 + i:02}:00Z" for i in range(int(rng.integers(1, 4)))]
        self.columns = list(CATEGORIES)[: [0, 1, 1, 2][int(rng.integers(4))]]
        if len(self.columns) == 1 and rng.random() < 0.3:
            self.columns = ["age"]
        places = {
            region: [tuple(d for d in self.districts if self.region_of[d] == region)]
            for region in self.regions
        }
        places["ES"] = [tuple(self.regions)]
        self.kind_of: dict[str, str] = {}
        if self._chance(0.3, "overlap"):
            names = ["urban", "rural"][: 1 + int(rng.random() < 0.8)]
            drawn = [names[int(i)] for i in rng.integers(0, len(names), n_districts)]
            self.kind_of = dict(zip(self.districts, drawn, strict=True))
            for name in sorted(set(drawn)):
                places[name] = [tuple(d for d in self.districts if self.kind_of[d] == name)]
        times = {"day": [tuple(self.hours)]} if len(self.hours) > 1 else {self.hours[0]: []}
        adds = {"places": measure != "persons", "times": measure in ("visits", "trips")}
        axes = [Axis(places, adds["places"]), Axis(times, adds["times"])]
        axes += [Axis({ALL: [tuple(CATEGORIES[column])]}) for column in self.columns]
        self.world = World(self.columns, axes, [], measure, not adds["times"])

    def _draw_people(self) -> None:
        """Draw who is where: small counts, of which many are zero."""
        rng, world = self.rng, self.world
        mean = float(rng.choice([1.0, 3.0, 6.0]))
        share = float(rng.choice([0.3, 0.7, 0.9]))
        form = str(rng.choice(["none", "none", "none", "subset", "parts"]))
        if form != "none":
            self.kinds.add(form)
            other = "visitors" if form == "parts" else "(all but residents)"
            self.people = [("", ("residents", other))]
            self.wholes = {"residents": "", "visitors": ""}
        person = 0
        every = [CATEGORIES[column] for column in self.columns]
        for district, categories in product(self.districts, product(*every)):
            busy = rng.gamma(0.8, mean / 0.8) / max(1, len(self.columns))
            for _ in range(int(rng.poisson(busy))):
                person += 1
                inside = rng.random() < share
                people = {""}
                if form != "none":
                    people.add("residents" if inside else self.people[0][1][1])
                hours = [hour for hour in self.hours if rng.random() < 0.6] or [self.hours[0]]
                moves = world.measure in ("visits", "trips", "persons")
                for hour in hours:
                    away = moves and rng.random() < 0.3
                    place = str(rng.choice(self.districts)) if away else district
                    seen = Event(person, frozenset(people), place, hour, categories)
                    world.events.append(seen)

    def _rule(self) -> Rule:
        bounded = self._chance(0.25, "bounded")
        rule = draw_rule(self.rng, bounded=bounded)
        self.kinds.add(_name_of(rule))
        return rule

    def _draw_tables(self) -> None:
        self.usual = self._rule()
        hours, rng = self.hours, self.rng
        levels = {"districts": self.districts, "regions": self.regions, "country": ["ES"]}
        if self.kind_of:
            levels["kinds"] = sorted(set(self.kind_of.values()))
        wanted = [("districts", "")]
        wanted += [("regions", "")] if rng.random() < 0.7 else []
        wanted += [("country", "")] if rng.random() < 0.3 else []
        wanted += [("kinds", "")] if self.kind_of else []
        wanted += [("districts", "")] if len(self.columns) and rng.random() < 0.4 else []
        for people in self.wholes if self.people else ():
            if people == "residents" or self.people[0][1][1] == "visitors":
                wanted += [("districts", people)]
                wanted += [("regions", people)] if rng.random() < 0.3 else []
        for i, (level, people) in enumerate(wanted):
            steps = [1] if len(hours) == 1 else [1, 1, 1, len(hours)]
            step = int(rng.choice(steps))
            if len(hours) > 1 and i == 0:
                step = 1
            self._add(f"{level}{i}.csv", levels[level], step, people)
        if len(hours) > 1 and self._chance(0.35, "coarser"):
            level = str(rng.choice([one for one, _ in wanted]))
            self._add(f"day{len(wanted)}.csv", levels[level], len(hours), "")
        self._declare_parents(wanted)

    def _add(self, name: str, places: list[str], step: int, people: str) -> None:
        rng = self.rng
        columns = [column for column in self.columns if rng.random() < 0.6]
        totals = [column for column in columns if rng.random() < 0.5]
        rule = self._rule() if rng.random() < 0.25 else self.usual
        if rng.random() < 0.15:
            rule = exact()
            self.kinds.add("exact")
        if rule.declared["name"] in ("exact", "threshold", "round_to_base") and self._chance(
            0.12, "factor"
        ):
            rule = multiplied(rule, float(rng.choice([5.13, 2.5, 3.0])))
        times = self.hours if step == 1 else ["day"]
        entry: dict = {"counts": name}
        if self.world.measure != "visits":
            entry["measure"] = self.world.measure
        if rule is not self.usual:
            entry["mechanism"] = rule.declared
        if rule.factor:
            entry["factor"] = rule.factor
        if step > 1:
            entry["format"] = {
                "name": "long",
                "place": "zone",
                "count": "people",
                "step": f"{step}h",
            }
        if columns:
            entry["strata"] = {c: TOTALS[c] if c in totals else None for c in columns}
            self.kinds |= {f"{len(columns)} columns"}
            if len(totals) < len(columns):
                self.kinds.add("no total")
        if people:
            whole = next(one for one in self.tables if not one.people).name
            entry["people"] = people
            form = "parts_of" if self.people[0][1][1] == "visitors" else "subset_of"
            entry[form] = whole
        self.tables.append(Table(name, places, times, columns, totals, rule, people, step, entry))

    def _declare_parents(self, wanted: list[tuple[str, str]]) -> None:
        """Declare hierarchies: by codes, by files, or by a column."""
        levels = {level for level, _ in wanted}
        how = str(self.rng.choice(["codes", "files", "column"]))
        pairs = dict(self.region_of) if "regions" in levels else {}
        if "country" in levels:
            pairs |= dict.fromkeys(self.regions, "ES") if pairs else {}
            pairs = pairs or dict.fromkeys(self.districts, "ES")
        first = self.tables[0]
        if pairs:
            self.kinds.add(how)
        if pairs and how == "codes":
            for table in self.tables:
                table.entry["parents"] = ["codes"]
        elif pairs and how == "files":
            self._write_pairs("region_of.csv", pairs)
            first.entry["parents"] = ["region_of.csv"]
        elif pairs:
            for table in self.tables:
                if all(place in pairs for place in table.places):
                    table.parent_column = pairs
                    table.entry["parent_columns"] = ["above"]
        if self.kind_of:
            self._write_pairs("kind_of.csv", self.kind_of)
            first.entry.setdefault("parents", []).append("kind_of.csv")

    def _write_pairs(self, name: str, pairs: dict[str, str]) -> None:
        lines = ["place,parent", *(f"{place},{parent}" for place, parent in pairs.items())]
        self.files[name] = "\n".join(lines) + "\n"

    def _write(self, table: Table) -> Iterator[Cell]:
        """Write a table, and yield its cells."""
        extra = ["above"] if table.parent_column else []
        lines = [",".join(["zone", "time", *table.columns, *extra, "people"])]
        nodes = [[*CATEGORIES[c], *([ALL] if c in table.totals else [])] for c in table.columns]
        for place, time, own in product(table.places, table.times, product(*nodes)):
            chosen = dict(zip(table.columns, own, strict=True))
            key = (place, time, tuple(chosen.get(column, ALL) for column in self.columns))
            true = self.world.count(table.people, *key)
            text = table.rule.publish(true, self.rng)
            start = self.hours[0] if time == "day" else time
            texts = [TOTALS[c] if v == ALL else v for c, v in chosen.items()]
            above = [table.parent_column[place]] if extra else []
            row = [place, start, *texts, *above]
            lines.append(",".join([*row, text]))
            told = ", ".join(f"{c} {t}" for c, t in zip(chosen, texts, strict=True))
            name = f"{table.name} ({told})" if told else table.name
            low, high = table.rule.allowed(text)
            yield Cell(
                name,
                place,
                self._shown(time),
                (table.people, place, time, *key[2]),
                text,
                low,
                high,
                true,
                table.rule.threshold,
                table.rule.secondary(),
                (table.name, *row),
            )
        self.files[table.name] = "\n".join(lines) + "\n"

    def _shown(self, time: str) -> str:
        """Return a time as findings show it."""
        ends = (
            [self.hours[0], f"2026-03-02T{8 + len(self.hours):02}:00Z"] if time == "day" else [time]
        )
        return " to ".join(end[:16].replace("T", " ") for end in ends)

    def _differences(self, cells: list[Cell]) -> Iterator[tuple[Cell, Cell, str]]:
        """Yield each cell, that of some of its people, and the name of the others."""
        if "subset" not in self.kinds:
            return
        of_all = [cell for cell in cells if not cell.key[0]]
        for some in cells:
            for whole in of_all:
                if some.key[0] and whole.key[1:] == some.key[1:]:
                    yield whole, some, self.people[0][1][1]


def _name_of(rule: Rule) -> str:
    declared = rule.declared
    if declared["name"] == "chain":
        return " then ".join(step["name"] for step in declared["steps"])
    return declared["name"] + {"nearest": " nearest"}.get(declared.get("rule", ""), "")
