"""Compare findings on random publications with the counts that fit them."""

import collections
import csv
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import yaml
from oracles.publication_oracle import Cell, Lattice, Oracle
from oracles.random_publications import Case, draw_case
from oracles.wrong_declarations import WRONG, Declared, draw_wrong

from clusterscale.api import check, repair_tables
from clusterscale.errors import ClusterscaleError
from clusterscale.release.checks import disclosure
from clusterscale.release.checks.together import TableFindings


@dataclass
class Tally:
    """What went wrong, in all publications and in the latest one."""

    faults: collections.Counter = field(default_factory=collections.Counter)
    latest: collections.Counter = field(default_factory=collections.Counter)
    verdicts: collections.Counter = field(default_factory=collections.Counter)
    kinds: object = ()
    thorough: bool = False
    n_determined: int = 0
    n_hidden: int = 0

    def note(self, fault, n=1):
        """Count a fault."""
        if n:
            self.faults[fault] += n
            self.latest[fault] += n


def write_files(files: dict, plan: dict, folder: Path) -> str:
    """Write a publication, and return its address."""
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    plan = {**plan, "tables": [dict(entry) for entry in plan["tables"]]}
    for entry in plan["tables"]:
        entry["counts"] = str(folder / entry["counts"])
        if "parents" in entry:
            entry["parents"] = [
                one if one == "codes" else str(folder / one) for one in entry["parents"]
            ]
    path = folder / "publication.yaml"
    path.write_text(yaml.safe_dump(plan, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return str(path)


def compare(case: Case, address: str, tally: Tally) -> TableFindings | None:
    """Count what is missed, false and too wide; return the findings, None if no counts fit."""
    findings = check([address], progress=False)[0]
    tally.verdicts[findings.verdict] += 1
    oracle = Oracle(case.lattice)
    if not oracle.is_possible:
        tally.note("contradiction missed", findings.verdict != "fail")
        return None
    tally.note("contradiction invented", is_contradicted(findings))
    reported = {
        name_of(cell): (cell.low, cell.high) for cell in findings.open_cells if not cell.rest
    }
    for cell in case.lattice.cells:
        assert not case.honest or cell.low <= cell.true <= cell.high
    ranges, wide = oracle.ranges(), case.plan.get("within") == 1000
    own = {cell.name: (cell.low, cell.high) for cell in case.lattice.cells if cell.is_open}
    tally.n_hidden += len(ranges)
    doubts = ("not known exactly", "may be missed", "never publishes")
    in_doubt = any(
        one.text.startswith("if ") or any(words in one.text for words in doubts)
        for one in findings.undecided
    )
    missed = "missed, and told as a doubt," if in_doubt else "missed"
    for name, (low, high) in ranges.items():
        found = reported.pop(name, None)
        if low == high:
            tally.n_determined += 1
            tally.note(missed, found is None)
        if found is None:
            tally.note("too wide", low < high and wide and (low, high) != own[name])
        elif found[0] > low or found[1] < high:
            tally.note("false")
        else:
            tally.note("too wide", found != (low, high))
    shown = {cell.name: (cell.low, cell.high) for cell in case.lattice.cells}
    told = sum(shown.get(name) != ends for name, ends in reported.items())
    tally.note("told of a cell that is shown", told)
    compare_differences(case, findings, oracle, tally)
    tally.note("fail for nothing", findings.verdict == "fail" and not findings.open_cells)
    return findings


def compare_differences(case, findings, oracle, tally):
    """Count differences of few people that are missed, and those told that do not follow."""
    is_longer = any(" +" in part for whole, *_ in case.differences for part in whole.key)
    found = {  # those of several epochs together have the names of the first
        name_of(c): (c.low, c.high)
        for c in findings.open_cells
        if c.rest and (is_longer or " to " not in c.time)
    }
    ranges, told = {}, set()
    for whole, part, rest in case.differences:
        columns = case.lattice.sums((rest, *whole.key[1:]))
        ranges[whole.name] = oracle.range_of(columns), min(whole.threshold, part.threshold)
        told |= {whole.key} if whole.name in found else set()
    keys = {whole.name: whole.key for whole, _, _ in case.differences}
    for name, ends in found.items():
        if name in ranges:  # of wholes that nobody publishes, only the tables' own are known here
            low, high = ranges[name][0]
            if {"overlap", "persons"} <= case.kinds:
                continue  # those in a place and in none of a kind have the same name
            tally.note("false difference", ends[0] > low or ends[1] < high)
            tally.note("too wide", ends != (low, high))
    for name, ((low, high), k) in ranges.items():
        if "subset_of" in case.kinds and name[1] != "Total":
            # If two tables have the same cell, its difference is listed for one of them.
            tally.note("missed difference", 0 < low == high < k and keys[name] not in told)


def compare_honest(case: Case, address: str, tally: Tally) -> None:
    """Count findings that do not follow."""
    findings = check([address], progress=False)[0]
    tally.verdicts[findings.verdict] += 1
    tally.note("contradiction invented", is_contradicted(findings))
    told = [cell for cell in findings.open_cells if not cell.rest]
    by_name = {cell.name: cell for cell in case.lattice.cells}
    cells = [by_name[name_of(one)] for one in told]
    tally.n_hidden += sum(cell.is_open for cell in case.lattice.cells)
    tally.n_determined += sum(one.low == one.high for one in told)
    oracle = Oracle(case.lattice) if told else None
    for one, cell in zip(told, cells, strict=True):
        tally.note("untrue", not one.low <= cell.true <= one.high)
        low, high = oracle.range_of(case.lattice.sums(cell.key))
        tally.note("false", one.low > low or one.high < high)
    if findings.verdict == "fail":
        tally.note("fail for nothing", not findings.open_cells)


def compare_repair(case: Case, address: str, before: TableFindings, tally: Tally) -> None:
    """Count what follows from repaired tables, of which the findings ``before`` are known."""
    fixed = Path(address).parent / "fixed"
    masked = repair_tables(address, str(fixed), progress=False)
    findings = check([str(fixed / "publication.yaml")], progress=False)[0]
    lattice = replace(case.lattice, cells=hide(case, fixed, tally))
    if (open_ones := list_known(case, lattice)) is None:
        tally.note("repaired tables contradict")
        return
    what = "left open, and told," if findings.verdict != "pass" or masked.left else "left open"
    tally.note(f"{what} by repair", len(open_ones))
    notes = (*before.notes, *findings.notes)  # where sums are computed, less can be protected
    computed = any("of shown cells only" in note for note in notes)
    computed |= any("hidden ones are counted too" in one.text for one in findings.undecided)
    if tally.thorough and open_ones and not computed:  # what else is hidden must not help
        every = replace(
            lattice,
            cells=[
                cell if cell.name in open_ones else hide_one(cell, lattice.most)
                for cell in lattice.cells
            ],
        )
        could = open_ones - (list_known(case, every) or set())
        tally.note("left open, and could be protected,", len(could))


def list_known(case: Case, lattice: Lattice) -> set[tuple[str, ...]] | None:
    """Return hidden counts and differences of few people that follow; None if no counts fit.

    Counts that are hidden to protect others need no protection.
    """
    oracle = Oracle(lattice)
    if not oracle.is_possible:
        return None
    known = {name for name, (low, high) in oracle.ranges().items() if low == high}
    known -= {cell.name for cell in lattice.cells if cell.text == "D"}  # it could be shown as well
    shown = {cell.key for cell in lattice.cells if not cell.is_open}
    for whole, part, rest in case.differences:
        if (rest, *whole.key[1:]) in shown:
            continue  # such as by a table that publishes all counts
        low, high = oracle.range_of(lattice.sums((rest, *whole.key[1:])))
        if 0 < low == high < min(whole.threshold, part.threshold):
            known.add(("difference", *whole.key))
    return known


def hide_one(cell: Cell, most: int) -> Cell:
    """Return a cell as it is if it is hidden to protect others, where that may be."""
    may = cell.text not in ("", "D") and cell.text[0].isdigit() and cell.secondary <= cell.low
    return replace(cell, low=cell.secondary, high=most, text="D") if may else cell


def hide(case: Case, folder: Path, tally: Tally) -> list[Cell]:
    """Return the cells of repaired tables."""
    texts = {}
    for entry in yaml.safe_load((folder / "publication.yaml").read_text("utf-8"))["tables"]:
        name = Path(entry["counts"]).name
        path = folder / name if (folder / name).exists() else folder.parent / name
        for *row, text in csv.reader(path.read_text("utf-8").splitlines()):
            texts[(name, *row)] = text
    cells = []
    for cell in case.lattice.cells:
        text = texts[cell.row]
        if text == "D":
            cell = replace(cell, low=cell.secondary, high=case.lattice.most, text=text)
        elif text != cell.text:
            tally.note("repair changes a value")
        cells.append(cell)
    return cells


def compare_wrong(seed: int, folder: Path, tally: Tally) -> None:
    """Count wrong declarations that are found consistent."""
    kind, right, wrong = draw_wrong(seed)
    tally.kinds = [kind]
    if seed % 1_000_000 < len(WRONG):
        verdict = check([write_declared(right, folder)], progress=False)[0].verdict
        tally.note("right ones that are not inconsistent", verdict != "fail")
    try:
        findings = check([write_declared(wrong, folder)], progress=False)
        impossible = any(one.verdict == "fail" for one in findings)  # a table alone says enough
        verdict = "fail" if impossible else findings[0].verdict
    except ClusterscaleError:
        verdict = "refused"
    tally.verdicts[verdict] += 1
    tally.note("wrong ones that are consistent", verdict == "pass")


def write_declared(declared: Declared, folder: Path) -> str:
    """Write a publication, and return its address."""
    files = {
        name: "".join(",".join(row) + "\n" for row in rows) for name, rows in declared.files.items()
    }
    return write_files(files, declared.plan, folder)


def name_of(cell):
    """Return the name of a cell of findings: its table, its place, and when it begins."""
    return cell.table, cell.place, cell.time.split(" to ")[0]


def is_contradicted(findings):
    """Return whether the findings say that no counts fit."""
    return any(
        one.level == "inconsistent" and one.check == "determined" and "contradict" in one.text
        for one in findings.results
    )


def run(mode: str, seed: int, folder: Path, tally: Tally) -> None:
    """Check one publication, of which all open cells are listed."""
    if mode == "wrong":
        compare_wrong(seed, folder, tally)
        return
    with mock.patch.object(disclosure, "_MOST", 10**6):
        compare_published(mode, seed, folder, tally)


def compare_published(mode: str, seed: int, folder: Path, tally: Tally) -> None:
    """Check a publication of right declarations."""
    case = draw_case(seed, honest=mode == "honest")
    tally.kinds = case.kinds
    address = write_files(case.files, case.plan, folder)
    if mode == "honest":
        compare_honest(case, address, tally)
    elif (before := compare(case, address, tally)) is not None:
        compare_repair(case, address, before, tally)
