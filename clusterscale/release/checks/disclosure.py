"""What follows from all tables of a publication together: hidden counts, and few people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Ints, Values
from clusterscale.release.averaging import describe_averaging
from clusterscale.release.cells import UNKNOWN, Cells, Sums
from clusterscale.release.checks.parts import Part, read_parts
from clusterscale.release.checks.table import (
    Check,
    CheckResult,
    Undecided,
    agree,
    smallest_shown,
)
from clusterscale.release.checks.together import OpenCell, TableFindings, compare_tables
from clusterscale.release.intervals import MOST_CELLS, Ranges, Run, bound_counts
from clusterscale.release.lattice import PARTS, SUBSET, measures_without_rests, relate
from clusterscale.release.publication import MARGINS, Follow, Publication, unreported
from clusterscale.release.reasons import Reasons, chain, conflict
from clusterscale.release.related import Matches
from clusterscale.release.relations import Relations
from clusterscale.validation_messages import exact_number, plural

TOGETHER, NARROWED = "together", "narrowed"

_MOST = 100  # cells that are listed with what they follow from
_MOST_HIDDEN = 10_000  # counts of a publication whose integer programs this process solves
_SHOWN = 6  # published values in a sentence
_MOST_CONFLICTS, _MOST_TRIED = 20, 6  # contradictions, and relations left out in turn

_READINGS = ((True, "are of shown cells only"), (False, "count hidden cells"))

_Flags = NDArray[np.bool_]
_WORDS = {
    "determined": ("hidden cell", "follows", "follow"),
    "differences": ("difference", "is of few people", "are of few people"),
    NARROWED: ("hidden cell", "is known too well", "are known too well"),
}


def relate_tables(
    plan: Publication,
    name: str,
    checks: Sequence[Check],
    *,
    seed: int = 0,
    run: Run | None = None,
    follow: Follow = unreported,
) -> list[TableFindings]:
    """Check the tables of a publication alone, and what follows from all of them together.

    ``name`` is that of the publication in its findings, which are the first. Of ``checks``, those
    of single tables are used, but for totals, whose part is what follows from all. With ``run``,
    integer programs of components are solved by it, however many cells are hidden. Raises what
    ``read_table`` raises, and ConfigError if the mechanism of a table is not known, or its times.
    """
    parts = read_parts(plan, follow)
    alone = [check for check in checks if not (check.compares or check.name == "totals")]
    findings = [
        compare_tables(
            [part.stratum.release], [], alone,
            mechanism=part.table.mechanism, group_size=part.size, seed=seed,
        )[0]
        for part in follow("checking tables", parts)
    ]  # fmt: skip
    system = System.of(parts, plan, run)
    together = system.findings(plan, name)
    noisy = [
        (part.noisy[0], part.table.mechanism, part.table.group_size) for part in parts if part.noisy
    ]
    undecided, notes = list(together.undecided), together.notes
    undecided += [
        Undecided("range", doubt) for part in parts if part.cells for doubt in part.doubts
    ]
    if noisy:
        names = ", ".join(shown.name for shown, _, _ in noisy)
        why = f"values of {names} do not determine counts, and take no part"
        undecided.insert(0, Undecided("noise", why))
        cells = [one for part in parts for one in part.cells]
        notes = (*notes, *describe_averaging(noisy, cells, plan))
    entries = [part.stratum.entry for part in parts if not part.stratum.complete]
    labels = dict.fromkeys(entry.label for entry in entries if entry.complete is None)
    for label in labels if any(part.cells for part in parts) else ():
        why = "as absent rows are hidden; state `complete: true` if none is"
        notes = (*notes, f"parts of sums in {label} may not be listed, {why}")
    matches = match_tables(parts, plan, system.sums)
    undecided += [Undecided("relation", text) for text in matches.problems()]
    together = replace(
        together, undecided=tuple(undecided), notes=notes, related=tuple(matches.related)
    )
    return [together, *findings]


def match_tables(parts: Sequence[Part], plan: Publication, sums: Sums) -> Matches:
    """Return what the relations of all tables of a publication match, also of those with noise.

    ``sums`` are those of the tables without noise, which are related anew only beside others.
    """
    tables = [cells for part in parts for cells in (*part.cells, *part.noisy)]
    if any(part.noisy for part in parts):
        sums = relate(tables, plan)
    return Matches(sums, tables, plan)


@dataclass(frozen=True, slots=True, eq=False)
class System:
    """The cells of all tables, what is known of them, and what follows.

    ``values``, ``low`` and ``high`` have shape (cell,), and rests come last. A ``rest`` is what a
    whole has beside its parts, or a part of its people that nobody publishes. A count of
    which two values are possible that are further apart than ``width`` is not known. The
    ``shortest`` epoch is that of which only the beginning is shown.
    """

    sums: Sums
    relations: Relations
    low: Ints
    high: Ints
    values: Values
    hidden: _Flags
    rest: _Flags
    secondary: _Flags
    width: Ints
    ranges: Ranges
    small: int
    n_computed: int
    n_either: int
    shortest: int
    run: Run | None

    @classmethod
    def of(cls, parts: Sequence[Part], plan: Publication, run: Run | None = None) -> System:
        """Relate the cells of a publication, and bound their counts."""
        tables = [cells for part in parts for cells in part.cells]
        sums = relate(tables, plan)
        n_rests = sum(map(len, sums.rests))

        def flat(name: str, rest: float) -> Values:
            columns = [getattr(table, name).ravel() for table in sums.tables]
            return np.concatenate([*columns, np.full(n_rests, rest)])

        low, high = flat("low", 0).astype(np.int64), flat("high", UNKNOWN).astype(np.int64)
        secondary = flat("secondary", 0).astype(np.bool_)
        relations, n_computed, n_either = sums.relations(low, high, secondary)
        rest = _differences(sums, len(tables), low, high)
        hidden = (low < high) & (flat("covered", 0).astype(np.bool_) | rest)
        # No count is larger: a method may hide all, as where the share of one person is tiny.
        small = min(smallest_shown(None, *(part.table for part in parts)), UNKNOWN)
        width: Ints = np.full(len(low), 2 * plan.within)
        if plan.percent is not None:
            width = np.maximum(width, (plan.percent / 50 * high).astype(np.int64))
        width[rest] = small - 2
        return cls(
            sums=sums,
            relations=relations,
            low=low,
            high=high,
            values=flat("values", np.nan),
            hidden=hidden,
            rest=rest,
            secondary=secondary,
            width=width,
            ranges=_ranges(low, high, relations, hidden, width, run),
            small=small,
            n_computed=n_computed,
            n_either=n_either,
            run=run,
            shortest=min((int((one.ends - one.starts).min()) for one in tables), default=0),
        )

    def with_bounds(self, low: Ints, high: Ints, wanted: _Flags | None = None) -> System:
        """Return the same cells with other bounds, and what follows of those wanted, or hidden."""
        wanted = self.hidden if wanted is None else wanted
        ranges = _ranges(low, high, self.relations, wanted, self.width, self.run)
        return replace(self, low=low, high=high, ranges=ranges)

    def with_relations(self, relations: Relations) -> System:
        """Return the same cells with fewer relations, and what follows."""
        return replace(self, relations=relations).with_bounds(self.low, self.high)

    def findings(
        self, plan: Publication, name: str, kinds: Mapping[str, _Flags] | None = None
    ) -> TableFindings:
        """Return what follows, the most disclosing first: all open cells, or these."""
        mechanism = f"{plural(len(plan.tables), 'table')} together"
        notes: tuple[str, ...] = ()
        if self.n_computed:
            notes = (
                f"{plural(self.n_computed, 'sum')} of shown cells only, without those too small",
            )
        if self.ranges.contradiction is not None:
            results, cells = self._contradictions(plan)
            return TableFindings(name, mechanism, results, (), notes, cells)
        kinds = self.open_flags(plan) if kinds is None else kinds
        certain, doubts = self._doubts(plan)
        kinds = {kind: cells & certain for kind, cells in kinds.items()}
        results = tuple(self._result(kind, cells) for kind, cells in kinds.items())
        why = list[str]()
        if kinds[NARROWED].any() and not plan.model_fields_set & MARGINS:
            why.append(results[-1].text)
            results = results[:-1]
        if n_left := int(np.count_nonzero(self.hidden & ~self.ranges.settled)):
            why.append(f"the ranges of {plural(n_left, 'cell')} are not known exactly")
        why += doubts
        if n_gaps := self._with_gaps():
            why.append(
                f"{plural(n_gaps, 'sum')} of hidden values may count parts that were not collected"
            )
        if self.sums.in_pairs:
            why.append(
                f"{_listed(self.sums.in_pairs)} are compared in pairs, as too many counts between "
                "them are not published: what three tables say together may be missed; check fewer "
                "places or times at once"
            )
        lacking, hidden = measures_without_rests(self.sums), self.hidden[: self.sums.n]
        if any(
            hidden[self.sums.numbers(t)].any() for t in self.sums.tables if t.measure in lacking
        ):
            why.append(
                "persons and devices do not add up over times or places, and those in a group but "
                "not in a part of it are not compared over these: what they tell may be missed"
            )
        if plan.zeros == "unprotected":
            is_zero = self.hidden & (self.ranges.high == 0)
            n_zero = int(is_zero[: self.sums.n].sum())
            notes += (f"zeros are declared unprotected: {plural(n_zero, 'hidden cell')} must be 0",)
        undecided = tuple(Undecided("range", text) for text in why)
        return TableFindings(name, mechanism, results, undecided, notes, self._list_open(kinds))

    def _with_gaps(self) -> int:
        """Return how many known sums have both hidden parts and parts that were not collected."""
        rest = np.zeros(len(self.low) - self.sums.n, np.bool_)
        gaps = np.concatenate([*(table.gaps.ravel() for table in self.sums.tables), rest])
        both = np.ones(len(self.relations.whole), np.bool_)
        for flags in (gaps, self.hidden & ~gaps):
            rows = np.repeat(np.arange(len(both)), np.diff(self.relations.offsets))
            both &= np.bincount(rows, flags[self.relations.parts], len(both)) > 0
        return int((both & (self.high < UNKNOWN)[self.relations.whole]).sum())

    def readings(self) -> Iterator[tuple[str, System]]:
        """Yield the same cells if all sums that may be of shown cells only are, and if none is."""
        for of_shown, are in _READINGS if self.n_either else ():
            relations, *_ = self.sums.relations(self.low, self.high, self.secondary, of_shown)
            other = self.with_relations(relations)
            if other.ranges.contradiction is None:
                yield are, other

    def _doubts(self, plan: Publication) -> tuple[_Flags, list[str]]:
        """Return which cells follow in each reading, and texts on what else follows in one."""
        found = [(are, other, other.known(plan)) for are, other in self.readings()]
        certain = np.ones(len(self.low), np.bool_)
        for _, _, known in found:
            certain &= known
        texts, sums = list[str](), plural(self.n_either, "sum")
        for are, other, known in found:
            if n := int((known & ~certain).sum()):
                cells = np.flatnonzero(known & ~certain)[:_SHOWN]
                named = _listed([other.open_cell(int(cell)).text for cell in cells])
                texts.append(f"if {sums} {are}, {plural(n, 'cell')} {agree(n, 'follow')}: {named}")
        return certain, texts

    def known(self, plan: Publication) -> _Flags:
        """Return which cells are determined, differences of few people, or known too well."""
        determined, differences, narrowed = self.open_flags(plan).values()
        return determined | differences | narrowed

    def open_flags(self, plan: Publication) -> dict[str, _Flags]:
        """Return the same for each of these kinds."""
        low, high = self.ranges.low, self.ranges.high
        width: Values = np.full(len(low), 2.0 * plan.within)
        if plan.percent is not None:
            width = np.maximum(width, plan.percent / 100 * (low + high))
        follows = (low > self.low) | (high < self.high)
        close = (low < high) & (high - low <= width) & (high >= 1)
        hidden = self.hidden & ~self.rest
        told = (high > 0) | (plan.zeros == "protected")
        return {
            "determined": hidden & (low == high) & told,
            "differences": self.rest & (low >= 1) & (high < self.small),
            NARROWED: hidden & follows & close,
        }

    def _list_open(self, kinds: Mapping[str, _Flags]) -> tuple[OpenCell, ...]:
        """Return cells that are known, and then those known too well, of the fewest first."""
        known = kinds["determined"] | kinds["differences"]
        found = np.flatnonzero(known | kinds[NARROWED])
        high = self.ranges.high[found]
        order = np.lexsort((np.where(high == 0, UNKNOWN, high), ~known[found]))
        return tuple(self.open_cell(int(cell)) for cell in found[order[:_MOST]])

    def _result(self, kind: str, cells: _Flags) -> CheckResult:
        low, high = self.ranges.low[cells], self.ranges.high[cells]
        n, n_rests = len(low), int(self.rest.sum())
        every = n_rests if kind == "differences" else int((self.hidden & ~self.rest).sum())
        noun, one, several = _WORDS[kind]
        n_small = int(np.count_nonzero((low >= 1) & (high < self.small)))
        n_single = int(np.count_nonzero((low == 1) & (high == 1)))
        text = f"{n:,} of {plural(every, noun)} {one if n == 1 else several}"
        if n:
            text += f"; {n_small:,} {agree(n_small, 'count')} 1 to {self.small - 1} people"
            text += f" ({n_single:,} a single person)" if n_single else ""
            n_zero = int(np.count_nonzero(high == 0))
            text += f", {n_zero:,} {'is' if n_zero == 1 else 'are'} 0" if n_zero else ""
        return CheckResult.of_faults(kind, n, len(self.low), text)

    def open_cell(self, cell: int) -> OpenCell:
        """Return a cell with what is known of it, and from which others."""
        low, high = int(self.ranges.low[cell]), int(self.ranges.high[cell])
        table, place, time = self.find(cell)
        is_rest, text = bool(self.rest[cell]), self.name(cell)
        text += f" is {low:,}" if low == high else f" is {low:,} to {high:,}"
        wholes, parts = self.sources(cell)
        why = [self._known(one, cell) for one in wholes + parts if one != cell]
        return OpenCell(
            table.name, place, time, low, high, is_rest, f"{text}: {_listed(why)}" if why else text
        )

    def sources(self, cell: int) -> tuple[list[int], list[int]]:
        """Return the wholes and the other cells from whose bounds the range of a count follows."""
        width = int(self.ranges.high[cell] - self.ranges.low[cell])
        reasons = chain(self.low, self.high, self.relations, cell, width=width)
        known = reasons.cells[(self.low > 0)[reasons.cells] | (self.high < UNKNOWN)[reasons.cells]]
        is_whole = np.isin(known, self.relations.whole[reasons.relations])
        return known[is_whole].tolist(), known[~is_whole].tolist()

    def name(self, cell: int) -> str:
        """Return the place, categories and time of a cell."""
        table, place, time = self.find(cell)
        who = ", ".join(f"{column} {text}" for column, text in sorted(table.categories))
        text = f"{place} ({who}) at {time}" if who else f"{place} at {time}"
        return f"the difference of {text}" if cell >= self.sums.n else text

    def _contradictions(
        self, plan: Publication
    ) -> tuple[tuple[CheckResult, ...], tuple[OpenCell, ...]]:
        """Return the few values that contradict, and what follows without them.

        Of relations that contradict, it is not known which ones do not hold: so each one is left
        out in turn, and what then follows from the others is returned.
        """
        conflicts, kept = list[Reasons](), np.arange(len(self.relations.whole))
        while len(conflicts) < _MOST_CONFLICTS:
            relations = self.relations.rows(kept)
            if (found := conflict(self.low, self.high, relations)) is None:
                break
            rows = kept[found.relations]
            conflicts.append(Reasons(rows, found.cells))
            kept = np.setdiff1d(kept, rows)
        texts = [_listed([self._known(int(one)) for one in some.cells]) for some in conflicts]
        results = [
            CheckResult(
                TOGETHER, "inconsistent", 1.0, 0.0, len(self.low),
                f"no counts fit what is published: {text}; if these do not belong together, a "
                "parent, a total or a group is declared wrongly",
            )
            for text in texts
        ]  # fmt: skip
        without = [kept]
        for some in conflicts[:_MOST_TRIED]:
            left_out = some.relations[:_MOST_TRIED]
            without += [np.union1d(kept, some.relations[some.relations != r]) for r in left_out]
        cells: dict[str, OpenCell] = {}
        for rows in without:
            other = self.with_relations(self.relations.rows(rows))
            if other.ranges.contradiction is None:
                cells |= {one.text: one for one in other._list_open(other.open_flags(plan))}
        told = [one for one in cells.values() if one.low == one.high or one.rest][:_MOST]
        if told:
            text = f"without values that contradict, {plural(len(told), 'hidden cell')} "
            text += agree(len(told), "follow")
            results.append(CheckResult.of_faults("determined", len(told), len(self.low), text))
        return tuple(results), tuple(told)

    def find(self, cell: int) -> tuple[Cells, str, str]:
        """Return the table, the place and the time of a cell; for a rest, those of the whole."""
        if cell >= self.sums.n:
            cell = int(np.concatenate(self.sums.rests)[cell - self.sums.n])
        i = int(np.searchsorted(self.sums.first, cell, side="right")) - 1
        table = self.sums.tables[i]
        row, column = divmod(cell - int(self.sums.first[i]), len(table.starts))
        return table, table.places[row], table.time(column, self.shortest)

    def _known(self, cell: int, beside: int | None = None) -> str:
        """Return what a cell shows, named by what it does not share with another one."""
        table, place, time = self.find(cell)
        names = [place, f"at {time}", f"in {table.name}"]
        if cell >= self.sums.n:
            names[0] = f"the difference of {place}"
        elif beside is not None:
            other, its_place, its_time = self.find(beside)
            differ = [place != its_place, time != its_time, table.counted != other.counted]
            names = [name for name, one in zip(names, differ, strict=True) if one] or names[2:]
        low, high = int(self.low[cell]), int(self.high[cell])
        count = f"is {low:,} to {high:,}" if high < UNKNOWN else f"is {low:,} or more"
        if cell < self.sums.n and not np.isnan(self.values[cell]):
            count = f"shows {exact_number(float(self.values[cell]))}"
        return f"{' '.join(names).removeprefix('in ')} {count}"


def _differences(sums: Sums, n_tables: int, low: Ints, high: Ints) -> _Flags:
    """Return which cells are what a whole has beside its parts, or parts of people no table has.

    The whole, or another part, is published: ``n_tables`` are, and come first. Parts that follow
    from what is published of the same people, such as of smaller places, are no differences.
    """
    whole, parts, sizes, adds, number = sums.rows()
    found = np.zeros(len(low), np.bool_)
    if not len(whole):
        return found
    row = np.repeat(np.arange(len(whole)), sizes)
    is_published = np.arange(len(low)) < sums.first[n_tables]
    known = is_published[whole] | (np.bincount(row, is_published[parts]) > 0)
    of_people = np.isin(np.array(sums.kinds), (PARTS, SUBSET))[number]
    found[parts[(known & of_people)[row]]] = True
    found &= ~is_published
    found[sums.n :] = False
    if found.any():
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        others = Relations(whole, parts, offsets, adds).rows(np.flatnonzero(~of_people))
        ranges = bound_counts(low, high, others, wanted=np.empty(0, np.int64), most=0)
        found &= ranges.low < ranges.high
    found[parts[known[row] & (parts >= sums.n)]] = True
    return found


def _ranges(
    low: Ints, high: Ints, relations: Relations, hidden: _Flags, width: Ints, run: Run | None
) -> Ranges:
    """Return the ranges of hidden counts.

    In this process, without ``run``, integer programs are solved only if counts are not too many.
    Ranges wider than ``width`` need not be exact.
    """
    most = MOST_CELLS if run or np.count_nonzero(low < high) <= _MOST_HIDDEN else 0
    wanted = np.flatnonzero(hidden)
    return bound_counts(
        low, high, relations, most=most, wanted=wanted, enough=width, run=run or map
    )


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN:,} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
