"""The verb that computes the papers again: what it lists, runs, tells, and how it ends."""

import pytest
import yaml
from papers.test_driver import SMALL
from typer.testing import CliRunner

from clusterscale import config
from clusterscale.cli import app
from clusterscale.errors import InputError, MissingError

pytestmark = pytest.mark.usefixtures("no_figures")


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def studies(tmp_path, monkeypatch):
    """Two studies of two papers, one of which needs the cabs."""
    quick = {"audit": {"group_sizes": [5]}}
    several = {
        "popets24/small": {**SMALL, "quick": quick},
        "ndss18/cabs": {key: SMALL[key] for key in SMALL if key != "users"}
        | {"paper": "NDSS18", "cube": "cabs"},
    }
    for name, content in several.items():
        path = tmp_path / "studies" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))
    monkeypatch.setattr(config.studies, "FOLDER", tmp_path / "studies")
    return tmp_path


def test_studies_are_listed(studies):
    result = call("reproduce", "all", "--list")
    assert result.exit_code == 0, result.output
    for word in ("popets24/small", "ndss18/cabs", "Figure 7"):
        assert word in result.output
    assert "ndss18/cabs" not in call("reproduce", "popets24", "--list").output
    assert "cabs (not given)" in result.output


@pytest.mark.parametrize(("words", "kind"), [((), "synthetic"), (("--milan", "x.zarr"), "real")])
def test_the_list_says_which_data_are_real(studies, words, kind):
    for name in ("popets24/small", "ndss18/cabs"):
        path = studies / f"studies/{name}.yaml"
        path.write_text(path.read_text().replace("users: 60\n", ""))
    listed = call("reproduce", "all", "--list", *words).output
    assert f"milan ({kind})" in listed
    assert listed.count("milan (") == 1


def test_the_list_needs_no_names(studies):
    listed = call("reproduce", "--list")
    assert listed.exit_code == 0, listed.output
    assert listed.output == call("reproduce", "all", "--list").output
    assert not (studies / "runs").exists()


def test_without_names_or_list_it_says_what_to_type(studies):
    result = call("reproduce")
    assert isinstance(result.exception, InputError)
    assert "`clusterscale reproduce --list` lists them" in str(result.exception)


@pytest.mark.slow
def test_what_can_be_run_is_run_and_told(studies):
    place = studies / "out"
    words = ("--output", place, "--cluster", "serial", "--figures", place / "figures")
    result = call("reproduce", "all", *words)
    assert result.exit_code == 0, result.output
    assert [path.name for path in (place / "figures").iterdir()] == ["popets24-figure-7-1.svg"]
    assert "1 file in" in " ".join(result.output.split())
    page = (place / "reproduced.html").read_text()
    assert "it needs the San Francisco cabs" in page
    assert (place / "popets24/small/run/results.zarr").exists()
    assert not (place / "ndss18").exists()
    again = call("reproduce", "popets24/small", "--output", place, "--cluster", "serial")
    assert again.exit_code == 0, again.output


@pytest.mark.slow
def test_quick_runs_have_a_folder_of_their_own(studies):
    place = studies / "out"
    words = ("--output", place, "--cluster", "serial", "--quick")
    result = call("reproduce", "popets24", *words)
    assert result.exit_code == 0, result.output
    assert (place / "quick.html").exists()
    assert (place / "quick/popets24/small/run/results.zarr").exists()
    assert (place / "cubes/milan-60.zarr").exists()


@pytest.mark.slow
def test_one_study_that_fails_keeps_no_other_from_its_numbers(studies):
    bad = {**SMALL, "audit": {**SMALL["audit"], "group_sizes": [50_000]}}
    (studies / "studies/popets24/bad.yaml").write_text(yaml.safe_dump(bad))
    result = call("reproduce", "popets24", "--output", studies / "out", "--cluster", "serial")
    assert result.exit_code == 1
    page = (studies / "out/reproduced.html").read_text()
    assert "it failed" in page
    assert "section 5" in page


def test_an_unknown_study_is_an_error(studies):
    result = call("reproduce", "ndss19", "--list")
    assert isinstance(result.exception, MissingError)
    assert "there is no study 'ndss19'" in str(result.exception)
