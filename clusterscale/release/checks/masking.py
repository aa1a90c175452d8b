"""Tables of a publication with further cells hidden, so that nothing follows from all of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

from clusterscale import storage
from clusterscale.contracts import Ints
from clusterscale.errors import InputError
from clusterscale.reading.places import ARROW
from clusterscale.release.cells import UNKNOWN
from clusterscale.release.checks.disclosure import System
from clusterscale.release.checks.parts import Part, read_parts
from clusterscale.release.content import Cell
from clusterscale.release.entry import files_of
from clusterscale.release.intervals import Run
from clusterscale.release.long import LongTable
from clusterscale.release.metadata import beside, refuse_formulas
from clusterscale.release.publication import Publication
from clusterscale.release.repair import Repair, RepairProblem, find_repair
from clusterscale.validation_messages import plural

MASK = "mask.csv"
"""Name of the table of the cells that are hidden."""

_MARKS = ("D", "+", "withheld")  # D: secondary confidentiality in SDMX
_NUMBER = re.compile(r"[+-]?[\d., ]+")
_PLAIN = re.compile(r"[.](csv|tsv|txt)([.]\w+)?$", re.IGNORECASE)

_Row = dict[str, str]


@dataclass(frozen=True, slots=True)
class Masked:
    """Which cells of a publication were hidden to protect others, and its tables without them.

    Attributes
    ----------
    summary
        How many cells and people are no longer shown.
    reasons
        The cells, each with the reason.
    left
        What follows whatever is hidden, or may follow.
    tables
        What changes in the entry of each table in the publication, in their order; addresses are
        names of files.
    files
        Content of each file by its name, also of tables that do not change and of parents.
    withhold
        Totals without which this does not follow, if they are not published, not even as hidden.
    """

    summary: str
    reasons: tuple[str, ...]
    left: tuple[str, ...]
    tables: tuple[Mapping[str, Any], ...]
    files: Mapping[str, bytes]
    withhold: tuple[str, ...] = ()


def mask_publication(
    plan: Publication, *, by_value: bool = False, run: Run | None = None
) -> Masked:
    """Return the tables of a publication with further cells hidden, so that nothing follows.

    Hidden cells are as few as possible, or have as few people as possible if it is ``by_value``.
    Tables without such cells do not change. ``run`` is that of ``relate_tables``. Raises what
    that raises, and InputError if no counts fit what is published, or a table that changes is not a
    CSV file with a row per place and time.
    """
    parts = read_parts(plan)
    system = System.of(parts, plan, run)
    if system.ranges.contradiction is not None:
        raise InputError("no counts fit what is published, so it cannot be repaired: check it")
    repair, problem = _repair(system, plan, by_value=by_value)
    texts, totals = _unprotected(system, plan, problem, repair.left)
    owners = [(part, cells) for part in parts for cells in part.cells]
    reasons: dict[int, dict[Cell, str]] = {id(part): {} for part in parts}
    shown_reasons = list[str]()
    for cell, protects in zip(repair.hide.tolist(), repair.protects.tolist(), strict=True):
        at = int(np.searchsorted(system.sums.first, cell, side="right")) - 1
        part, cells = owners[at]
        row, column = divmod(cell - int(system.sums.first[at]), len(cells.starts))
        place = None if cells.total_of else cells.places[row]
        over_times = cells.starts is not part.cells[0].starts
        time = None if over_times else int(cells.starts[column])
        named = f"{system.name(protects)} in {system.find(protects)[0].name}"
        reasons[id(part)][place, time] = f"protects {named}"
        shown_reasons.append(f"{cells.name}: {system.name(cell)} protects {named}")
    tables, rows, files = list[dict[str, Any]](), list[_Row](), {MASK: b""}
    counts = {entry.counts for entry in plan.tables}
    for entry in plan.tables:
        own = [part for part in parts if part.stratum.entry is entry]
        some = [part for part in own if reasons[id(part)]]
        if not some:
            form = own[0].stratum.form
            if isinstance(form, LongTable) and _PLAIN.search(entry.counts):
                _refuse_formulas(form.texts(entry.counts), _codes(form))
            name = _copy(entry.counts, files)
            tables.append({"counts": name} | ({"name": entry.label} if name != entry.label else {}))
        else:
            name = _free(f"{_PLAIN.sub('', entry.counts.rpartition('/')[2])}.csv", files)
            form, files[name] = _hide(some, [reasons[id(part)] for part in some], rows)
            if storage.exists(described := beside(entry.counts)):
                files[beside(name)] = storage.read(described)
            settings = {"name": "long", **form.model_dump(mode="json", exclude_defaults=True)}
            tables.append({"counts": name, "name": entry.label, "format": settings})
    names = {uri: _copy(uri, files) for uri in plan.addresses if uri not in counts}
    for entry, changes in zip(plan.tables, tables, strict=True):
        if entry.parents:
            changes["parents"] = [names.get(uri, uri) for uri in entry.parents]
    strata = dict.fromkeys(name for entry in plan.tables for name in entry.columns)
    columns = ("table", "place", "time", *strata, "reason")
    files[MASK] = _csv({name: [row.get(name, "") for row in rows] for name in columns})
    shown, lost = system.values[~np.isnan(system.values)], system.values[repair.hide]
    share, of_sum = (one / max(every, 1) for one, every in
                     ((len(lost), len(shown)), (lost.sum(), shown.sum())))  # fmt: skip
    return Masked(
        f"{len(lost):,} of {plural(len(shown), 'shown cell')} ({share:.1%}) and {of_sum:.1%} of "
        "the sum of their values are hidden",
        tuple(shown_reasons),
        texts,
        tuple(tables),
        files,
        totals,
    )


def _repair(system: System, plan: Publication, *, by_value: bool) -> tuple[Repair, RepairProblem]:
    """Return which more cells to hide so that nothing follows, and what might be hidden.

    Nothing follows in any reading of sums that may be of shown cells only. Those hidden are to be
    as few cells as possible, and of these those with the fewest people, or
    to have as few people as possible if it is ``by_value``.
    """
    n_rests, cells = len(system.low) - system.sums.n, np.arange(len(system.low))
    ends = (
        [*(np.full(one.low.size, one.if_hidden[i]) for one in system.sums.tables), rest]
        for i, rest in enumerate((np.zeros(n_rests, int), np.full(n_rests, UNKNOWN)))
    )
    least, largest = map(np.concatenate, ends)
    shown, values = ~np.isnan(system.values), np.nan_to_num(system.values)
    every = problem = RepairProblem(
        low=system.low,
        high=system.high,
        relations=system.relations,
        protect=shown,
        hidden_low=least,
        hidden_high=largest,
        cost=values if by_value else 1 + values / (1 + values.sum()),
        may_hide=shown & (least <= system.low),  # else its mark would say more than is true
        width=np.minimum(system.width, system.high - system.low - 1),
    )
    done = Repair(*np.empty((3, 0), np.int64))
    waiting = [system, *(other for _, other in system.readings())]
    while waiting:
        system = waiting[0]
        if len(done.hide):
            system = system.with_bounds(problem.low, problem.high)
        known, widths = system.known(plan), problem.widths.copy()
        # Counts that no cells protect by the margin can still be protected from being determined.
        determined = system.ranges.low == system.ranges.high
        again = done.left[(widths[done.left] > 0) & determined[done.left]]
        known[done.left], widths[again] = False, 0
        known[again] = True
        if not known.any():
            waiting.pop(0)
            continue
        problem = replace(problem, relations=system.relations, protect=known, width=widths)
        found = find_repair(problem)
        left = found.left if len(found.hide) else np.flatnonzero(known)
        done = Repair(
            np.append(done.hide, found.hide),
            np.append(done.protects, found.protects),
            np.union1d(done.left, left),
        )
        hidden = np.isin(cells, found.hide)
        low, high = problem.bounds(hidden)
        problem = replace(problem, low=low, high=high, may_hide=problem.may_hide & ~hidden)
    return done, every


def _unprotected(
    system: System, plan: Publication, problem: RepairProblem, left: Ints
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what follows if all is hidden that may be, and totals without which it does not."""
    low, high = problem.bounds(problem.may_hide)
    wanted = np.isin(np.arange(len(low)), left)
    texts, withheld = list[str](), list[int]()
    while len(left):
        system = system.with_bounds(low, high, wanted)
        known = system.known(plan)
        texts = texts or [
            system.open_cell(cell).text
            if known[cell]
            else f"{system.name(cell)} may be known: no cells were found that protect it"
            for cell in left.tolist()
        ]
        wholes = [cell for one in left[known[left]][:1] for cell in system.sources(int(one))[0]]
        totals = [cell for cell in wholes if cell < system.sums.n]
        if not totals:
            break
        withheld.append(totals[0])
        low[withheld], high[withheld] = 0, UNKNOWN
    names = (f"{system.name(cell)} in {system.find(cell)[0].name}" for cell in withheld)
    return tuple(texts), tuple(names)


def _hide(
    parts: Sequence[Part], reasons: Sequence[Mapping[Cell, str]], rows: list[_Row]
) -> tuple[LongTable, bytes]:
    """Return a table with cells hidden, and its format; add a row to the mask for each."""
    entry, form = parts[0].stratum.entry, parts[0].stratum.form
    if (
        not isinstance(form, LongTable)
        or not _PLAIN.search(entry.counts)
        or form.repeated_hour
        or form.skipped_hour
        or form.add_rows
        or parts[0].stratum.release.metadata.ledger is not None
    ):
        raise InputError(
            f"{entry.counts}: its cells cannot be hidden: that takes a CSV file with one row per "
            "place and time, without add_rows, repeated_hour and skipped_hour, and no release of a "
            "series"
        )
    columns = form.texts(entry.counts)
    places = [form.place] if form.origin is None else [form.origin, str(form.destination)]
    used = _codes(form)
    mark = next(text for text in (*form.secondary, *_MARKS) if text not in used)
    for part, of_cell in zip(parts, reasons, strict=True):
        chosen = form.model_copy(update={"where": part.stratum.texts})
        for row, cell in chosen.cells(entry.counts):
            if cell in of_cell:
                columns[form.count][row] = "" if form.status else mark
                if form.status:
                    columns[form.status][row] = mark
                text = {name: values[row] for name, values in columns.items()}
                time = f"{text.get(form.time, form.at or '')} {text.get(form.hour or '', '')}"
                about = {"table": entry.label, "place": ARROW.join(text[one] for one in places)}
                about |= {"time": time.strip(), **{name: text[name] for name in entry.columns}}
                rows.append(about | {"reason": of_cell[cell]})
    written = {"secondary": (mark,), "encoding": "utf-8", "skip": 0, "notes": ()}
    content = _csv(columns, {*used, mark}, sep=form.delimiter, header=not form.header)
    return form.model_copy(update=written), content


def _codes(form: LongTable) -> set[str]:
    """Return the texts that stand for values which are not shown, or follow others."""
    return {*form.hidden, *form.hidden_status, *form.hidden_flags, *form.not_covered, *form.flags}


def _free(name: str, files: Mapping[str, bytes]) -> str:
    """Return a name that no file or folder has yet."""
    taken = {path.partition("/")[0] for path in files}
    numbered = (f"{number}-{name}" for number in count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)


def _copy(uri: str, files: dict[str, bytes]) -> str:
    """Add the content of a table or another file, and return its name."""
    name = _free(uri.rstrip("/").rpartition("/")[2], files)
    files |= {f"{name}{path}": content for path, content in files_of(uri).items()}
    return name


def _refuse_formulas(columns: Mapping[str, Sequence[str]], codes: Collection[str]) -> None:
    """Refuse texts that a spreadsheet would compute, but for numbers and codes of values."""
    texts = {*columns}.union(*columns.values()).difference(codes)
    refuse_formulas(sorted(text for text in texts if not _NUMBER.fullmatch(text)))


def _csv(columns: Mapping[str, Sequence[str]], codes: Collection[str] = (), **layout: Any) -> bytes:
    """Return columns of texts as a CSV file."""
    _refuse_formulas(columns, codes)
    table = pd.DataFrame(columns).to_csv(index=False, lineterminator="\n", **layout)
    return str(table).encode()
