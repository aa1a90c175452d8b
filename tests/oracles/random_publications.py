"""Random publications of small populations, with their lattice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise, product

import numpy as np
from oracles.publication_oracle import ALL, Axis, Cell, Key, Lattice
from oracles.published_values import Rule, draw_rule, exact, multiplied

CATEGORIES = {"sex": ["F", "M"], "age": ["child", "adult", "old"]}
TOTALS = {"sex": "_T", "age": "all"}
LONG = {"name": "long", "place": "zone", "count": "people", "step": "1h"}


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

    axes: list[Axis]
    events: list[Event]
    measure: str

    def count(self, people: str, place: str, time: str, categories: tuple[str, ...]) -> int:
        """Return the count of a cell of the lattice."""
        keys = zip(self.axes, (place, time, *categories), strict=True)
        nodes = [set(axis.finest(node)) for axis, node in keys]
        seen = [
            one.person
            for one in self.events
            if people in one.people
            and all(
                own in some
                for own, some in zip((one.place, one.time, *one.categories), nodes, strict=True)
            )
        ]
        return len(set(seen)) if self.measure in ("persons", "devices") else len(seen)


@dataclass
class Table:
    """A table to write: its places, times and columns of categories, and its settings.

    ``above`` has a further column with the parents of places, ``levels`` one with their levels.
    """

    name: str
    places: list[str]
    times: list[str]
    columns: list[str]
    totals: list[str]
    rule: Rule
    people: str
    entry: dict
    above: dict[str, str] = field(default_factory=dict)
    levels: dict[str, str] = field(default_factory=dict)
    total_row: bool = False
    earlier: bool = False


@dataclass
class Case:
    """A publication to check: its file, its tables, and what is true of it.

    ``honest`` is false if a value is not what was counted. ``differences`` are pairs of a cell and
    that of some of its people, with the name of the others.
    """

    seed: int
    plan: dict
    files: dict[str, str]
    lattice: Lattice
    kinds: frozenset[str]
    differences: list[tuple[Cell, Cell, str]]
    honest: bool = True


def draw_case(seed: int, *, honest: bool = False) -> Case:
    """Return a random publication, of true counts if wanted, and else in nine of ten cases."""
    rng = np.random.default_rng([seed, 61])
    draft = _Trips(seed) if rng.random() < 0.1 else _Draft(seed)
    case = draft.case()
    return case if honest or rng.random() < 0.9 else _change(case, rng)


def _change(case: Case, rng: np.random.Generator) -> Case:
    """Return a publication in which a value that is shown was changed, if there is one."""
    cells = case.lattice.cells
    shown = [cell.low == cell.high and cell.text == str(cell.low) for cell in cells]  # no multiple
    some = [i for i, is_shown in enumerate(shown) if is_shown]
    if not some:
        return case
    i = int(rng.choice(some))
    old = cells[i]
    value = old.low + int(rng.integers(1, 4))
    changed = replace(old, text=str(value), low=value, high=value)
    name, *row = old.row
    before, after = (",".join([*row, text]) + "\n" for text in (old.text, changed.text))
    files = {**case.files, name: case.files[name].replace(before, after)}
    cells = [changed if cell is old else cell for cell in cells]
    differences = [
        (changed if a is old else a, changed if b is old else b, rest)
        for a, b, rest in case.differences
    ]
    lattice = replace(case.lattice, cells=cells)
    kinds = case.kinds | {"changed"}
    return replace(
        case, files=files, lattice=lattice, kinds=kinds, differences=differences, honest=False
    )


class _Draft:
    """A publication that is being drawn."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rng = seed, np.random.default_rng([seed, 62])
        self.kinds: set[str] = set()
        self.files: dict[str, str] = {}
        self.tables: list[Table] = []
        self.people: list[tuple[str, tuple[str, ...]]] = []
        self.equal: list[tuple[Key, Key]] = []

    def case(self) -> Case:
        self._draw_world()
        self._draw_people()
        self._draw_tables()
        cells = [cell for table in self.tables for cell in self._write(table)]
        return self._finish(cells)

    def _finish(self, cells: list[Cell]) -> Case:
        plan = {"format": LONG, "mechanism": self.usual.declared, "group_size": 5000}
        within = [None, 0, 1000][int(self.rng.integers(3))]
        if within is not None:
            plan["within"] = within
        plan["tables"] = [table.entry for table in self.tables]
        lattice = Lattice(self.world.axes, cells, self.people, self.equal)
        differences = list(self._differences(cells))
        return Case(self.seed, plan, self.files, lattice, frozenset(self.kinds), differences)

    def _chance(self, share: float, kind: str) -> bool:
        """Return whether to use a feature, and note it."""
        use = bool(self.rng.random() < share)
        if use:
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
        self._draw_hours(int(rng.integers(1, 5)))
        self.columns = [[], ["sex"], ["age"], ["sex", "age"]][int(rng.integers(4))]
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
            places["ES"].append(tuple(sorted(set(drawn))))
        axes = [
            Axis(places, measure != "persons"),
            Axis(self.times, measure in ("visits", "trips")),
            *(Axis({ALL: [tuple(CATEGORIES[column])]}) for column in self.columns),
        ]
        self.world = World(axes, [], measure)

    def _draw_hours(self, n: int) -> None:
        """Draw hours, and the longer times that are made of them."""
        self.hours = [f"2026-03-02T{8 + i:02}:00Z" for i in range(n)]
        self.times: dict[str, list[tuple[str, ...]]] = {hour: [] for hour in self.hours}
        self.spans = {1: self.hours}
        for before, step in pairwise([1, 2, 4] if n == 4 else [1, n] if n > 1 else [1]):
            below, size = self.spans[before], step // before
            groups = [tuple(below[at : at + size]) for at in range(0, len(below), size)]
            self.spans[step] = [f"{group[0][:17]} +{step}h" for group in groups]
            self.times |= {
                node: [group] for node, group in zip(self.spans[step], groups, strict=True)
            }

    def _draw_people(self) -> None:
        """Draw who is where: small counts, of which many are zero."""
        rng, world = self.rng, self.world
        mean = float(rng.choice([1.0, 3.0, 6.0]))
        share = float(rng.choice([0.3, 0.7, 0.9]))
        self.form = str(rng.choice(["", "", "", "subset_of", "parts_of"]))
        self.others = "visitors" if self.form == "parts_of" else "(all but residents)"
        if self.form:
            self.kinds.add(self.form)
            self.people = [("", ("residents", self.others))]
        person = 0
        every = [CATEGORIES[column] for column in self.columns]
        for district, categories in product(self.districts, product(*every)):
            busy = rng.gamma(0.8, mean / 0.8) / max(1, len(self.columns))
            for _ in range(int(rng.poisson(busy))):
                person += 1
                group = "residents" if rng.random() < share else self.others
                people = frozenset(["", group] if self.form else [""])
                for hour in [h for h in self.hours if rng.random() < 0.6] or [self.hours[0]]:
                    moves = world.measure != "devices" and rng.random() < 0.3
                    place = str(rng.choice(self.districts)) if moves else district
                    world.events.append(Event(person, people, place, hour, categories))

    def _rule(self) -> Rule:
        rule = draw_rule(self.rng, bounded=self._chance(0.25, "bounded"))
        self.kinds.add(_name_of(rule))
        return rule

    def _draw_tables(self) -> None:
        self.usual, rng = self._rule(), self.rng
        levels = {"districts": self.districts, "regions": self.regions, "country": ["ES"]}
        levels["kinds"] = sorted(set(self.kind_of.values()))
        wanted = [("districts", "")]
        wanted += [("regions", "")] if rng.random() < 0.7 else []
        wanted += [("country", "")] if rng.random() < 0.3 else []
        wanted += [("kinds", "")] if self.kind_of else []
        wanted += [("districts", "")] if len(self.columns) and rng.random() < 0.4 else []
        groups = {"": [], "subset_of": ["residents"], "parts_of": ["residents", "visitors"]}
        for people in groups[self.form]:
            wanted += [("districts", people)]
            wanted += [("regions", people)] if rng.random() < 0.3 else []
        for i, (level, people) in enumerate(wanted):
            step = int(rng.choice([1, 1, 1, *self.spans])) if i else 1
            self._add(f"{level}{i}.csv", levels[level], step, people)
        if len(self.hours) > 1 and self._chance(0.35, "coarser"):
            level = str(rng.choice([one for one, _ in wanted]))
            self._add("coarser.csv", levels[level], int(rng.choice([*self.spans][1:])))
        if self._chance(0.15, "level column"):
            wanted.append(("regions", ""))
            self._add("levels.csv", [*self.districts, *self.regions], 1)
            table = self.tables[-1]
            table.levels = {place: str(len(place)) for place in table.places}
            table.entry["level"], table.total_row = "level", False
        self._declare_parents({level for level, _ in wanted})
        if self._chance(0.15, "unchanged"):
            self._add_earlier(self.tables[int(rng.integers(len(self.tables)))])

    def _add(self, name: str, places: list[str], step: int, people: str = "") -> None:
        rng = self.rng
        columns = [column for column in self.columns if rng.random() < 0.6]
        totals = [column for column in columns if rng.random() < 0.5]
        rule = self._rule() if rng.random() < 0.25 else self.usual
        if self._chance(0.15, "exact"):
            rule = exact()
        plain = ("exact", "threshold", "round_to_base")
        if rule.declared["name"] in plain and self._chance(0.12, "factor"):
            rule = multiplied(rule, float(rng.choice([5.13, 2.5, 3.0])))
        entry: dict = {"counts": name}
        if self.world.measure != "visits":
            entry["measure"] = self.world.measure
        if rule is not self.usual:
            entry["mechanism"] = rule.declared
        if rule.factor:
            entry["factor"] = rule.factor
        total_row = self._chance(0.12, "total row")
        if step > 1 or total_row:
            total = {"total": "Total"} if total_row else {}
            entry["format"] = {**LONG, "step": f"{step}h", **total}
        if columns:
            entry["strata"] = {c: TOTALS[c] if c in totals else None for c in columns}
            self.kinds.add(f"{len(columns)} columns")
            if len(totals) < len(columns):
                self.kinds.add("no total")
        if people:
            whole = next(one for one in self.tables if not one.people).name
            entry |= {"people": people, self.form: whole}
        self.tables.append(
            Table(name, places, self.spans[step], columns, totals, rule, people, entry)
        )
        self.tables[-1].total_row = total_row

    def _add_earlier(self, table: Table) -> None:
        """Add a table of the week before with the same counts."""
        same = ("strata", "format", "level", "measure")
        entry = {k: v for k, v in table.entry.items() if k in same}
        rule = self._rule() if self.rng.random() < 0.7 else exact()
        entry |= {"counts": "earlier.csv", "mechanism": rule.declared}
        earlier = replace(
            table, name="earlier.csv", entry=entry, rule=rule, above={}, total_row=False
        )
        self.tables.append(replace(earlier, earlier=True))
        table.entry["unchanged_from"] = "earlier.csv"
        table.total_row = False
        for time in table.times:
            self.world.axes[1].parts[_week_before(time)] = []

    def _declare_parents(self, levels: set[str]) -> None:
        """Declare hierarchies: by codes, by files, or by a column."""
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
                if all(place in pairs for place in table.places) and not table.levels:
                    table.above, table.total_row = pairs, False
                    table.entry["parent_columns"] = ["above"]
            lacking = pairs.keys() - {
                one for table in self.tables if table.above for one in table.places
            }
            if lacking:
                self._write_pairs("region_of.csv", {one: pairs[one] for one in sorted(lacking)})
                first.entry["parents"] = ["region_of.csv"]
        if self.kind_of:
            self._write_pairs("kind_of.csv", self.kind_of)
            first.entry.setdefault("parents", []).append("kind_of.csv")

    def _write_pairs(self, name: str, pairs: dict[str, str]) -> None:
        lines = ["place,parent", *(f"{place},{parent}" for place, parent in pairs.items())]
        self.files[name] = "\n".join(lines) + "\n"

    def _write(self, table: Table) -> Iterator[Cell]:
        """Write a table, and yield its cells."""
        extra = ["above"] if table.above else ["level"] if table.levels else []
        lines = [",".join(["zone", "time", *table.columns, *extra, "people"])]
        nodes = [[*CATEGORIES[c], *([ALL] if c in table.totals else [])] for c in table.columns]
        places = [*table.places, *(["Total"] if table.total_row else [])]
        for place, time, own in product(places, table.times, product(*nodes)):
            chosen = dict(zip(table.columns, own, strict=True))
            categories = tuple(chosen.get(column, ALL) for column in self.columns)
            node = "ES" if place == "Total" else place
            true = self.world.count(table.people, node, time, categories)
            text = table.rule.publish(true, self.rng)
            low, high = table.rule.allowed(text)
            if place == "Total" and low < high:
                continue  # a total that is not shown is no hidden cell
            key = (table.people, node, time, *categories)
            if table.earlier:
                earlier = ("earlier", node, _week_before(time), *categories)
                self.equal.append((earlier, key))
                key = earlier
            texts = [TOTALS[c] if v == ALL else v for c, v in chosen.items()]
            further = [(table.above or table.levels)[place]] if extra else []
            row = [place, key[2][:16] + "Z", *texts, *further]
            lines.append(",".join([*row, text]))
            told = [f"{c} {v}" for c, v in zip(chosen, texts, strict=True)]
            told = [f"level {further[0]}", *told] if table.levels else told
            name = f"{table.name} ({', '.join(told)})" if told else table.name
            # Which of the totals that are not shown are too small, readers do not know.
            secondary = 0 if place == "Total" else table.rule.secondary()
            least = table.rule.threshold, secondary
            shown = key[2][:16].replace("T", " ")
            yield Cell(name, place, shown, key, text, low, high, true, *least, (table.name, *row))
        self.files[table.name] = "\n".join(lines) + "\n"

    def _differences(self, cells: list[Cell]) -> Iterator[tuple[Cell, Cell, str]]:
        """Yield each cell, that of some of its people, and the name of the others."""
        some = [one for one in cells if one.key[0] == "residents"]
        for whole, part in product(cells, some):
            if whole.key == ("", *part.key[1:]):
                yield whole, part, self.others


class _Trips(_Draft):
    """Trips between places, and how many start or end in each."""

    def case(self) -> Case:
        rng = self.rng
        self.kinds.add("margins")
        self.form, self.usual = "", self._rule()
        self._draw_hours(int(rng.integers(1, 3)))
        zones = [*"ABC"][: int(rng.integers(2, 4))]
        ends = Axis({"(any)": [tuple(zones)]})
        sexes = bool(rng.random() < 0.4)
        axes = [ends, ends, Axis(self.times)] + [Axis({ALL: [("F", "M")]})] * sexes
        self.world = World(axes, [], "trips")
        mean = float(rng.choice([1.0, 3.0, 6.0]))
        leaves = [zones, zones, self.hours, *([["F", "M"]] * sexes)]
        trips = {key: int(rng.poisson(rng.gamma(0.8, mean / 0.8))) for key in product(*leaves)}
        pairs = [f"{a} → {b}" for a, b in product(zones, zones)]
        forms = {"trips.csv": {**LONG, "origin": "from", "destination": "to"}}
        del forms["trips.csv"]["place"]
        margins = [("origin", "out.csv"), ("destination", "into.csv")]
        tables = [("trips.csv", pairs, "")] + [
            (name, zones, end) for end, name in margins if rng.random() < 0.75
        ]
        cells = []
        for name, places, end in tables:
            entry = {"counts": name, "measure": "trips"}
            if end:
                entry["margins_of"] = {"trips.csv": end}
            step = int(rng.choice([1, *self.spans]))
            form = forms.get(name, LONG)
            entry["format"] = {**form, "step": f"{step}h"}
            with_sex = sexes and rng.random() < 0.6
            total = bool(rng.random() < 0.5)
            if with_sex:
                entry["strata"] = {"sex": "_T" if total else None}
                self.kinds.add("1 columns" if total else "no total")
            rule = self._rule() if rng.random() < 0.3 else self.usual
            entry["mechanism"] = rule.declared
            table = Table(name, places, self.spans[step], [], [], rule, "", entry)
            self.tables.append(table)
            own = ["F", "M", *([ALL] * total)] if with_sex else [ALL]
            lines = [["from", "to"] if not end else ["zone"]]
            lines[0] = [*lines[0], "time", *(["sex"] * with_sex), "people"]
            for place, time, sex in product(places, table.times, own):
                one, two = {"origin": (place, "(any)"), "destination": ("(any)", place)}.get(
                    end, tuple(place.split(" → ")) if not end else ()
                )
                key = ("", one, two, time, *([sex] * sexes))
                nodes = [set(a.finest(n)) for a, n in zip(axes, key[1:], strict=True)]
                true = sum(
                    n
                    for leaf, n in trips.items()
                    if all(x in s for x, s in zip(leaf, nodes, strict=True))
                )
                text = rule.publish(true, rng)
                label = {ALL: "_T"}.get(sex, sex)
                row = [*([one, two] if not end else [place]), time[:16] + "Z"]
                row += [label] * with_sex
                lines.append([*row, text])
                title = f"{name} (sex {label})" if with_sex else name
                cells.append(
                    Cell(
                        title, place, time[:16].replace("T", " "), key, text, *rule.allowed(text),
                        true, rule.threshold, rule.secondary(), (name, *row),
                    )
                )  # fmt: skip
            self.files[name] = "".join(",".join(line) + "\n" for line in lines)
        return self._finish(cells)


def _week_before(time: str) -> str:
    return time.replace("2026-03-02", "2026-02-23")


def _name_of(rule: Rule) -> str:
    declared = rule.declared
    if declared["name"] == "chain":
        return " then ".join(step["name"] for step in declared["steps"])
    return declared["name"] + {"nearest": " nearest"}.get(declared.get("rule", ""), "")
