"""The folder that a repair writes: complete in itself, with nothing stale, and safe to open."""

import json
import os
from pathlib import Path

import pytest
import yaml
from consistency.test_masking import HEAD, hourly, levels, write
from consistency.test_masking import publish as write_publication
from typer.testing import CliRunner

from clusterscale.api import check, repair_tables
from clusterscale.cli import app
from clusterscale.errors import ExistsError, InputError, MissingError


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def publish(tables):
    """Write a publication whose tables have one time."""
    write_publication(tables, HEAD.replace("count: people", "count: people, step: 1h"))


def with_parents(place="A1"):
    """Regions, districts in another folder, and which of them are parts of which."""
    Path("data").mkdir(exist_ok=True)
    hourly("data/r.csv", "A 08 12", "B 08 40")
    hourly("d.csv", f"{place} 08 *", "A2 08 9", "B1 08 30", "B2 08 10")
    hourly("more.csv", "C 08 40")
    write("data/of.csv", "place,parent", f"{place},A", "A2,A", "B1,B", "B2,B")
    publish(
        "  - {counts: data/r.csv}\n  - {counts: d.csv, parents: data/of.csv}\n"
        "  - {counts: more.csv, alone: true}\n"
    )


def test_a_repaired_folder_is_complete_and_can_be_moved(monkeypatch):
    with_parents()
    before = Path("more.csv").read_bytes()
    assert check(["p.yaml"])[0].verdict == "fail"
    repair_tables("p.yaml", "out")
    made = yaml.safe_load(Path("out/publication.yaml").read_text())["tables"]
    assert [table["counts"] for table in made] == ["r.csv", "d.csv", "more.csv"]
    assert made[1]["parents"] == ["of.csv"]
    assert {*os.listdir("out")} == {
        "r.csv", "d.csv", "more.csv", "of.csv", "mask.csv", "publication.yaml"
    }  # fmt: skip
    assert Path("out/more.csv").read_bytes() == before
    expected = [found.verdict for found in check(["out/publication.yaml"])]
    assert expected == ["pass"] * 4
    for name in ("d.csv", "more.csv", "p.yaml"):
        Path(name).unlink()
    Path("data").rename("gone")
    Path("elsewhere").mkdir()
    Path("out").rename("elsewhere/moved")
    for folder, path in ((".", "elsewhere/moved"), ("elsewhere", "moved"), ("moved", ".")):
        monkeypatch.chdir(Path.cwd() / folder)
        found = check([f"{path}/publication.yaml"])
        assert [table.verdict for table in found] == expected
    Path("of.csv").unlink()
    with pytest.raises(MissingError, match=r"of\.csv"):
        check(["publication.yaml"])


def test_nothing_of_an_earlier_repair_stays_and_nothing_else_is_lost():
    with_parents()
    repair_tables("p.yaml", "out")
    levels()
    repair_tables("p.yaml", "out")
    assert {*os.listdir("out")} == {"regions.csv", "districts.csv", "mask.csv", "publication.yaml"}
    assert not [name for name in os.listdir() if "partial" in name]
    Path("out/notes.txt").write_text("mine")
    with pytest.raises(ExistsError, match=r"out has notes\.txt, which no repair wrote"):
        repair_tables("p.yaml", "out")
    Path("other").mkdir()
    Path("other/mask.csv").write_text("mine")
    with pytest.raises(ExistsError, match=r"other has mask\.csv"):
        repair_tables("p.yaml", "other")
    assert Path("out/notes.txt").read_text() == Path("other/mask.csv").read_text() == "mine"


def test_tables_of_one_name_keep_their_names_in_relations():
    for name, rows in (("a", ("A 08 14", "B 08 30")), ("b", ("A1 08 11", "A2 08 *", "B1 08 30"))):
        Path(name).mkdir()
        hourly(f"{name}/t.csv", *rows)
    publish(
        "  - {counts: a/t.csv, name: whole}\n"
        "  - {counts: b/t.csv, name: parts, parents: codes, parts_of: whole, people: all}\n"
    )
    repair_tables("p.yaml", "out")
    made = yaml.safe_load(Path("out/publication.yaml").read_text())["tables"]
    assert [(table["counts"], table["name"]) for table in made] == [
        ("t.csv", "whole"),
        ("2-t.csv", "parts"),
    ]
    check(["out/publication.yaml"])


@pytest.mark.parametrize("place", ["=A1", "+A1", "-A1", "@A1"])
def test_names_that_a_spreadsheet_would_compute_are_refused(place):
    with_parents(place)
    with pytest.raises(InputError, match="so a spreadsheet would run it as a formula"):
        repair_tables("p.yaml", "out")
    assert not Path("out").exists()


def test_numbers_and_codes_are_no_formulas():
    with_parents()
    hourly("d.csv", "A1 08 * -0.12 -", "A2 08 9 +1 -", "B1 08 30 7 -", "B2 08 10 7 -",
           columns="zone,time,people,lon,note")  # fmt: skip
    publish("  - {counts: data/r.csv}\n  - {counts: d.csv, parents: data/of.csv}\n")
    repair_tables("p.yaml", "out")
    assert "-0.12" in Path("out/d.csv").read_text()


def test_the_json_has_the_verdict_before_and_after():
    levels()
    done = CliRunner().invoke(app, ["check", "p.yaml", "--repair", "out", "--json", "found.json"])
    assert done.exit_code == 0
    found = json.loads(Path("found.json").read_text())
    assert (found["verdict"], found["repaired"]["verdict"]) == ("inconsistent", "consistent")
    assert found["repaired"]["folder"] == "out"
    assert [table["verdict"] for table in found["repaired"]["tables"]] == ["consistent"] * 3
    assert "protects A2" in found["repaired"]["hidden"][0]


def test_a_repair_that_fails_leaves_the_verdict_of_this_check():
    """And not that of an earlier one, which a pipeline would read as if it were new."""
    hourly("r.csv", "A 08 12")
    hourly("d.csv", "A1 08 30", "A2 08 9")
    publish("  - {counts: r.csv}\n  - {counts: d.csv, parents: codes}\n")
    Path("found.json").write_text('{\n "verdict": "pass"}')
    done = CliRunner().invoke(app, ["check", "p.yaml", "--repair", "out", "--json", "found.json"])
    assert isinstance(done.exception, InputError)
    assert "no counts fit" in str(done.exception)
    assert json.loads(Path("found.json").read_text())["verdict"] == "inconsistent"
