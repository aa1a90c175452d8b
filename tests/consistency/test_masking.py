"""Tables with further cells hidden, of which nothing follows together."""

import csv
from pathlib import Path

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from clusterscale.api import check, repair_tables
from clusterscale.cli import app
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms import create as mechanism
from clusterscale.release import TABLE_FORMATS, read_table
from clusterscale.release.checks import PublishedTable, create, masking
from clusterscale.release.checks.count_intervals import count_bounds, fill_suppressed
from clusterscale.release.repair import Repair, find_repair

HEAD = """
format: {name: long, place: zone, count: people}
mechanism: {name: threshold, k: 5, shown: hidden}
group_size: 5000
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(name, columns, *rows):
    Path(name).write_text("\n".join([columns, *rows]) + "\n")


def hourly(name, *rows, columns="zone,time,people"):
    """Write rows of ``zone hour value …``."""
    split = [row.split() for row in rows]
    write(name, columns, *(f"{zone},2026-03-02T{hour}:00Z,{','.join(rest)}"
                           for zone, hour, *rest in split))  # fmt: skip


def publish(tables, head=HEAD):
    Path("p.yaml").write_text(f"{head}tables:\n{tables}")


def mask():
    with open("out/mask.csv") as file:
        return list(csv.DictReader(file))


def verdicts(path="out/publication.yaml"):
    return [found.verdict for found in check([path])]


def levels(folder=""):
    hourly("regions.csv", "A 08 14", "A 09 20", "B 08 *", "B 09 30")
    write(
        "districts.csv", "note,zone,time,people",
        "x,A1,2026-03-02T08:00Z,11", '"a, b",A1,2026-03-02T09:00Z,12', ",A2,2026-03-02T08:00Z,*",
        ",A2,2026-03-02T09:00Z,8", "y,B1,2026-03-02T08:00Z,*", ",B1,2026-03-02T09:00Z,30",
    )  # fmt: skip
    publish("  - {counts: regions.csv}\n  - {counts: districts.csv, parents: codes}\n")


def test_levels_are_repaired_in_their_own_rows():
    levels()
    assert verdicts("p.yaml") == ["fail", "pass", "pass"]
    done = repair_tables("p.yaml", "out")
    assert verdicts() == ["pass"] * 3
    (row,) = mask()
    assert row["reason"] == "protects A2 at 2026-03-02 08:00 in districts.csv"
    assert (row["place"], row["time"]) in (("A", "2026-03-02T08:00Z"), ("A1", "2026-03-02T08:00Z"))
    assert done.summary.startswith("1 of 7 shown cells (14.3%)")
    if row["table"] == "districts.csv":
        before, after = (Path(name).read_text() for name in ("districts.csv", "out/districts.csv"))
        assert after == before.replace("08:00Z,11", "08:00Z,D")
    assert not done.left


def test_totals_of_shown_cells_give_no_further_cell_away():
    """Hidden cells are 0 in the totals of districts, but those that a repair hides are in them."""
    hourly("r.csv", "A 08 14", "A 09 20", "B 08 21", "B 09 33")
    hourly("d.csv", "A1 08 11", "A2 08 *", "B1 08 12", "B2 08 9", "Total 08 32",
           "A1 09 12", "A2 09 8", "B1 09 *", "B2 09 30", "Total 09 50")  # fmt: skip
    publish(
        "  - {counts: r.csv}\n  - counts: d.csv\n    parents: codes\n"
        "    format: {name: long, place: zone, count: people, total: Total}\n"
    )
    assert verdicts("p.yaml") == ["fail", "pass", "pass"]
    repair_tables("p.yaml", "out")
    assert [(row["table"], row["place"]) for row in mask()] == [("r.csv", "A"), ("r.csv", "B")]
    together, *_ = check(["out/publication.yaml"])
    assert together.verdict == "warn"  # no region shows any more that a hidden count is not 0
    assert together.omitted.startswith("if 2 sums count hidden cells, 2 cells follow: A2 at")
    repaired = Path("out/publication.yaml").read_text()
    Path("out/publication.yaml").write_text(repaired + "zeros: unprotected\n")
    together, *_ = check(["out/publication.yaml"])
    assert together.verdict == "pass"
    assert together.notes == (
        "2 sums of shown cells only, without those too small",
        "zeros are declared unprotected: 0 hidden cells must be 0",
    )


def test_the_cost_is_that_of_cells_or_of_people():
    hourly("r.csv", "A 08 140", "A 09 200")
    hourly("d.csv", "A1 08 *", "A2 08 90", "A3 08 47", "A1 09 50", "A2 09 50", "A3 09 100")
    publish("  - {counts: r.csv}\n  - {counts: d.csv, parents: codes}\n")
    repair_tables("p.yaml", "out", cost="value")
    assert [row["place"] for row in mask()] == ["A3"]
    assert verdicts() == ["pass"] * 3
    changed = yaml.safe_load(Path("out/publication.yaml").read_text())["tables"]
    assert changed[0] == {"counts": "r.csv"}  # nothing of it is hidden
    assert changed[1]["counts"] == "d.csv"
    assert changed[1]["format"]["secondary"] == ["D"]


def test_strata_statuses_and_differences_of_few_people():
    write(
        "people.csv", "zone,time,sex,people,status",
        *(f"A,2026-03-02T0{hour}:00Z,{sex},{n or ''},{'c' if n is None else 'A'}"
          for hour, counts in ((8, (50, 47, None)), (9, (61, 30, 31)))
          for sex, n in zip(("_T", "F", "M"), counts, strict=True)),
    )  # fmt: skip
    hourly("residents.csv", "A 08 49", "A 09 40")
    publish(
        "  - counts: people.csv\n    strata: {sex: _T}\n"
        "    format: {name: long, place: zone, count: people, status: status}\n"
        "  - {counts: residents.csv, subset_of: people.csv}\n"
    )
    # The hidden men, the one who is no resident, and the men among residents.
    assert len(check(["p.yaml"])[0].open_cells) == 3
    repair_tables("p.yaml", "out")
    assert verdicts() == ["pass"] * 5
    assert {row["sex"] for row in mask()} <= {"_T", "F", "M", ""}
    text = Path("out/people.csv").read_text()
    assert ",,c\n" in text
    assert ",,D\n" in text


def test_totals_and_several_hours_in_large_tables(monkeypatch):
    """Two levels with totals over hours cross, so that cells are hidden along cycles."""
    monkeypatch.setattr("clusterscale.release.repair._MANY", 0)
    rng = np.random.default_rng(3)
    counts = rng.poisson(rng.gamma(0.8, 9, (12, 1)), (12, 8))
    both = {f"{'ABC'[i // 4]}{i % 4}": row for i, row in enumerate(counts)}
    both |= {name: counts[4 * i : 4 * i + 4].sum(0) for i, name in enumerate("ABC")}
    rows = [
        f"{zone},2026-03-02T{hour:02}:00Z,{n if n >= 5 else '*'}"
        for zone, some in both.items() for hour, n in enumerate(some)
    ]  # fmt: skip
    rows += [f"{zone},Total,{n.sum()}" for zone, n in both.items() if n.sum() >= 5]
    write("t.csv", "zone,time,people", *rows)
    form = "format: {name: long, place: zone, count: people, total: Total}"
    publish("  - {counts: t.csv, parents: codes}\n", HEAD.replace(HEAD.splitlines()[1], form))
    for margin, width in (("within: 0\n", 0), ("", 2)):
        publish(f"  - {{counts: t.csv, parents: codes}}\n{margin}",
                HEAD.replace(HEAD.splitlines()[1], form))  # fmt: skip
        assert verdicts("p.yaml")[0] == ("fail")
        done = repair_tables("p.yaml", "out")
        assert verdicts() == ["pass"] * 2, width
        assert len(mask()) == len(done.reasons) > 5


def test_a_zero_that_may_be_a_small_count_is_not_hidden(monkeypatch):
    """Its mark would say that the count is one that the table shows."""
    hourly("r.csv", "A 08 12", "A 09 20")
    hourly("d.csv", "A1 08 11", "A2 08 0", "A3 08 0", "A1 09 9", "A2 09 11", "A3 09 0")
    zeros = HEAD.replace(
        "{name: threshold, k: 5, shown: hidden}", "{name: suppress_small, below: 5}"
    )
    publish("  - {counts: r.csv}\n  - {counts: d.csv, parents: codes}\nwithin: 1\n", zeros)
    problems = []

    def find(problem):
        problems.append(problem)
        return find_repair(problem)

    monkeypatch.setattr(masking, "find_repair", find)
    repair_tables("p.yaml", "out")
    assert {row["place"] for row in mask()} <= {"A", "A1", "A2"}
    assert verdicts() == ["pass"] * 3
    assert (problems[0].low[problems[0].may_hide] >= 5).all()


LABELS = HEAD.replace("shown: hidden", "shown: label")


def test_labels_against_all_counts():
    """Readers know that a further cell is not one of a label, and not 0."""
    rng = np.random.default_rng(4)
    parts = rng.choice([0, 1, 1, 2, 4, 5, 6, 9], (4, 24))
    parts[:, 0], parts[:, 1] = 1, [1, 5, 0, 0]
    counts = np.r_[parts, parts.sum(0)[None]]
    names = ["A1", "A2", "A3", "A4", "A"]
    for file, some in (("d.csv", range(4)), ("r.csv", [4])):
        hourly(file, *(f"{names[i]} {hour:02} {n if n == 0 or n > 4 else '<5'}"
                       for i in some for hour, n in enumerate(counts[i])))  # fmt: skip
    publish("  - {counts: r.csv}\n  - {counts: d.csv, parents: codes}\nwithin: 0\n", LABELS)
    assert verdicts("p.yaml")[0] == "fail"
    done = repair_tables("p.yaml", "out")
    hides = {(row["place"], int(row["time"][11:13])) for row in mask()}
    every = np.stack(np.meshgrid(*[np.arange(20)] * 4)).reshape(4, -1)
    every = np.r_[every, every.sum(0)[None]]

    def determined(hidden):
        for hour, column in enumerate(counts.T):
            fits = np.ones(every.shape[1], bool)
            for i, n in enumerate(column):
                label, further = (every[i] > 0) & (every[i] < 5), hidden(names[i], hour, n)
                fits &= label if 0 < n < 5 else ~label if further else every[i] == n
            for i in np.flatnonzero((column > 0) & (column < 5)):
                if np.ptp(every[i, fits]) == 0:
                    yield f"{names[i]} at 2026-03-02 {hour:02}:00 is {column[i]}"

    left = sorted(text.partition(": ")[0] for text in done.left)
    assert left == sorted(determined(lambda name, hour, n: (name, hour) in hides))
    assert left == sorted(determined(lambda name, hour, n: n > 4))
    assert not [hide for hide in hides if counts[names.index(hide[0]), hide[1]] < 5]


def test_a_total_to_withhold_where_labels_alone_determine_counts():
    """Four labels whose total has one, too, are 1 each, whatever else is hidden."""
    parts = [f"A{i} {hour}" for i in (1, 2, 3, 4) for hour in ("08 <5", "09 7")]
    hourly("r.csv", "A 08 <5", "A 09 28", "B 08 7", "B 09 8")
    hourly("d.csv", *parts, "B1 08 7", "B1 09 8")
    form = "format: {name: long, place: zone, count: people, absent: not_covered}"
    tables = "  - {counts: r.csv, FORM}\n  - {counts: d.csv, parents: codes}\n"
    publish(tables.replace("FORM", form), LABELS)
    done = CliRunner().invoke(app, ["check", "p.yaml", "--repair", "out"])
    assert done.exit_code == 4
    words = " ".join(done.output.split())
    assert "known whatever is hidden, so publish less: A at 2026-03-02 08:00 is 4: A1" in words
    assert words.endswith(
        "leave out the rows of these totals (`absent: not_covered`), and repair again: "
        "A at 2026-03-02 08:00 in r.csv"
    )
    hourly("r.csv", "A 09 28", "B 08 7", "B 09 8")
    assert CliRunner().invoke(app, ["check", "p.yaml", "--repair", "out"]).exit_code == 0


def test_the_command_repairs_and_checks_what_it_wrote(monkeypatch):
    levels()
    done = CliRunner().invoke(app, ["check", "p.yaml", "--repair", "out/", "--cost", "value"])
    assert done.exit_code == 0
    assert "repaired  out\n" in done.output
    assert "protects A2 at 2026-03-02 08:00 in districts.csv" in " ".join(done.output.split())
    assert done.output.count("inconsistent") == 2  # before the repair
    words = " ".join(done.output.split())
    assert "are hidden; no margin is declared, so counts may still be known within ± 1" in words
    nothing = np.empty(0, np.int64)
    monkeypatch.setattr(masking, "find_repair", lambda problem: Repair(*[nothing] * 3))
    done = CliRunner().invoke(app, ["check", "p.yaml", "--repair", "out"])
    assert done.exit_code == 4
    assert "known whatever is hidden" in done.output
    assert " ".join(done.output.split()).endswith(
        "A2 at 2026-03-02 08:00 may be known: no cells were found that protect it"
    )
    done = CliRunner().invoke(app, ["check", "regions.csv", "--method", "exact", "--repair", "out"])
    assert "--repair: give a YAML file" in str(done.exception)


def test_the_command_checks_and_repairs_on_a_cluster():
    levels()
    here = CliRunner().invoke(app, ["check", "p.yaml", "--repair", "out"])
    done = CliRunner().invoke(app, ["check", "p.yaml", "--repair", "out", "--cluster", "serial"])
    assert (done.exit_code, done.stdout) == (0, here.stdout)
    done = CliRunner().invoke(app, ["check", "p.yaml", "--cluster", "serial", "--workers", "2"])
    assert "cluster serial has no configurable number of workers" in str(done.exception)


def test_what_cannot_be_repaired_is_refused():
    levels()
    Path("regions.csv").write_text(Path("regions.csv").read_text().replace("14", "10"))
    with pytest.raises(InputError, match="no counts fit what is published"):
        repair_tables("p.yaml", "out")
    hourly("w.csv", "A 08 *", "B 08 12", "Total 08 15", "A 09 7", "B 09 8", "Total 09 15")
    form = "{name: long, place: zone, count: people, total: Total, add_rows: true}"
    publish(f"  - {{counts: w.csv, format: {form}}}\n")
    with pytest.raises(InputError, match=r"w\.csv: its cells cannot be hidden: that takes a CSV"):
        repair_tables("p.yaml", "out")
    levels()
    before = Path("districts.csv").read_text()
    for folder in (".", str(Path.cwd())):
        with pytest.raises(InputError, match=r"regions\.csv is in .*, where it would be replaced"):
            repair_tables("p.yaml", folder)
    assert Path("districts.csv").read_text() == before
    with pytest.raises(ConfigError, match="rows that are added are not hidden to protect"):
        TABLE_FORMATS.create("long", secondary=["D"], add_rows=True)


def test_a_secondary_cell_has_any_count_that_the_table_would_show():
    hourly("t.csv", "A 08 *", "A 09 D", "B 08 12", "B 09 0")
    form = TABLE_FORMATS.create("long", place="zone", count="people", secondary=["D"])
    read = read_table("t.csv", form)
    assert read.notes == ("1 of 4 values are hidden to protect others",)
    assert np.isnan(read.values[0]).all()
    for shown in ("hidden", "label"):  # 0 beside labels is not hidden
        declared = mechanism("threshold", k=5, shown=shown)
        table = PublishedTable(
            "t", read.values, 90, declared, 0, np.full((2, 2), -1, np.int32),
            secondary=read.secondary,
        )  # fmt: skip
        low, high = count_bounds(table)
        assert (low[0, 1], high[0, 1]) == (5, 90)
        assert high[0, 0] == 4
        assert np.isnan(fill_suppressed(table)).tolist() == [[False, True], [False, False]]
    totals = PublishedTable(
        "t", read.values, 90, declared, 0, np.full((2, 2), -1, np.int32),
        secondary=read.secondary, roi_totals=np.array([22.0, 12.0]),
        epoch_totals=np.array([15.0, 19.0]),
    )  # fmt: skip
    found = create("totals").check(totals, [], rng=np.random.default_rng(1))
    assert found.text.startswith("1 of 1 hidden cell follows")
    alone, *both = (check(uris, form=form, group_size=90, mechanism=declared)
                    for uris in (["t.csv"], ["t.csv", "t.csv"]))  # fmt: skip
    assert alone[0].verdict == "pass"
    assert both[0][0].verdict == "warn"
    assert "compared in a publication file" in both[0][0].omitted
