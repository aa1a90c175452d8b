"""``clusterscale check``: exit codes, words, JSON, JUnit and the page."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.release import TABLE_FORMATS, RawRelease

HIDDEN = 'threshold(k=5, shown="hidden")'


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    counts = np.random.default_rng(1).poisson(8, (4, 12)).astype(float)
    hours = np.datetime64("2026-03-02T00:00:00", "s") + np.arange(12) * 3600
    for name, k in (("honest.csv", 5), ("careless.csv", 3)):
        values = np.where(counts < k, np.nan, counts)
        TABLE_FORMATS.create("long").write(name, RawRelease(values, tuple("abcd"), hours))


def run(*words):
    return CliRunner().invoke(app, ["check", *words])


@pytest.mark.usefixtures("tables")
def test_the_exit_code_is_the_worst_verdict():
    assert run("honest.csv", "--method", HIDDEN).exit_code == 0
    assert run("honest.csv", "honest.csv", "--method", HIDDEN).exit_code == 3
    found = run("careless.csv", "--beside", "honest.csv", "--method", HIDDEN, "--group-size", "90")
    assert found.exit_code == 4
    assert found.output.startswith("inconsistent  careless.csv  (threshold(k=5, shown='hidden'))")
    assert "can never be published" in found.output
    assert "consistent  honest.csv" not in found.output


@pytest.mark.usefixtures("tables")
def test_findings_for_machines_and_on_a_page(tmp_path):
    files = {"--json": "found.json", "--junit": "found.xml", "--page": "found.html"}
    words = [word for pair in files.items() for word in pair]
    done = run("honest.csv", "careless.csv", "--method", HIDDEN, "--group-size", "90", *words)
    assert done.exit_code == 4
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["verdict"] == "inconsistent"
    assert [table["verdict"] for table in found["tables"]] == ["consistent", "inconsistent"]
    suites = ElementTree.parse(tmp_path / "found.xml").getroot().findall("testsuite")
    assert [suite.get("name") for suite in suites] == ["honest.csv", "careless.csv"]
    failed = [case.get("name") for case in suites[1] if case.find("failure") is not None]
    assert failed == ["possible_values"]
    page = (tmp_path / "found.html").read_text()
    assert "Nothing was found by: differencing, possible values" in page
    assert "can never be published" in page
    words = ["careless.csv", "--method", HIDDEN, "--page", "found.html"]
    refused = run(*words).exception
    assert str(refused) == "found.html exists: name another file, or overwrite it with `--force`"
    assert (tmp_path / "found.html").read_text() == page
    assert run(*words, "--force").exit_code == 4
    assert (tmp_path / "found.html").read_text() != page


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["none.csv", "--method", "exact"], "none.csv: there is no such file"),
        (["honest.csv"], "honest.csv: how this table was published is not known"),
        (["honest.csv", "--method", "treshold(k=5)"], "did you mean 'threshold'?"),
        (
            ["honest.csv", "--method", "threshold(5)"],
            "is not like name(setting=value, other='text')",
        ),
        (["honest.csv", "--method", "threshold(k=__import__('os'))"], "is not like name(setting="),
        (["honest.csv", "--method", "[exact]"], "is not a mechanism: give its name, or"),
        (["honest.csv", "--method", "none.yaml"], "none.yaml: there is no such config file"),
        (["honest.csv", "--method", "exact", "--format", "wide"], "column time: 'time' is not a"),
        (["honest.csv", "--method", "exact", "--format", "{name: long, place: x}"], "no column x"),
    ],
)
def test_bad_input_is_reported_in_one_line(words, message):
    done = run(*words)
    assert message in " ".join(str(done.exception or done.output).split())


@pytest.mark.usefixtures("tables")
def test_a_method_may_be_yaml_or_a_file(tmp_path):
    (tmp_path / "method.yaml").write_text("name: threshold\nk: 5\nshown: hidden\n")
    for method in ("method.yaml", "{name: threshold, k: 5, shown: hidden}"):
        assert run("honest.csv", "--method", method).exit_code == 0


def test_what_is_not_covered_is_counted(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("place,time,count\na,2026-03-02T08:00Z,7\na,2026-03-02T09:00Z,NO_DATA\n")
    form = ["--format", "long(not_covered=['NO_DATA'])"]
    done = run(str(table), "--method", "exact", "--group-size", "30", *form)
    assert "1 of 2 values are not covered: neither 0 nor hidden" in done.output
    assert done.exit_code == 0
