"""The verb that tells results: what it gathers, what it writes, and what it refuses."""

import json
import shutil
import webbrowser

import pandas as pd
import pytest
import xarray as xr
import yaml
from cube import crowd
from typer.testing import CliRunner

import clusterscale
from clusterscale.cli import app
from clusterscale.errors import DamagedError, ExistsError, InputError, MissingError
from clusterscale.storage import manifest

pytestmark = pytest.mark.usefixtures("no_figures")


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def finished(tmp_path_factory, cube, shared_plan_fields):
    """A finished run with a screen and an audit, computed serially; tests copy it."""
    root = tmp_path_factory.mktemp("reports")
    path = root / "run.yaml"
    content = {
        "cube": cube.uri,
        "output": str(root / "run"),
        "audit": shared_plan_fields | {"screen": {"groups": 40}},
        "cluster": {"name": "serial"},
    }
    path.write_text(yaml.safe_dump(content))
    screened = call("screen", path)
    assert screened.exit_code == 0, screened.output
    assert '<section id="everyone"' in (root / "run" / "report.html").read_text()
    audited = call("audit", path)
    assert audited.exit_code == 0, audited.output
    return root


@pytest.fixture
def folder(finished, tmp_path):
    """A copy of the finished run that a test may change."""
    shutil.copytree(finished / "run", tmp_path / "run")
    content = yaml.safe_load((finished / "run.yaml").read_text())
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(content | {"output": str(tmp_path / "run")}))
    return tmp_path / "run"


@pytest.mark.slow
def test_the_page_of_a_run_tells_all_that_has_finished(folder):
    page = (folder / "report.html").read_text()
    for section in ("overview", "exposed", "everyone", "people"):
        assert f'<section id="{section}"' in page
    alone = call("report", folder / "screen")
    assert alone.exit_code == 0, alone.output
    assert '<section id="exposed"' not in (folder / "screen" / "report.html").read_text()


@pytest.mark.slow
def test_what_has_not_finished_is_left_out_and_said(folder):
    import zarr

    zarr.open_group(str(folder / "screen" / "results.zarr"), mode="r+").attrs["complete"] = False
    result = call("report", folder)
    assert result.exit_code == 0
    assert "the screen in" in result.output
    assert "has not finished, and is left out" in result.output
    assert '<section id="everyone"' not in (folder / "report.html").read_text()


@pytest.mark.slow
def test_results_that_say_they_are_of_another_cube_than_their_run_are_damage(folder):
    import zarr

    group = zarr.open_group(str(folder / "screen" / "results.zarr"), mode="r+")
    group.attrs["cube_fingerprint"] = "0" * 32
    manifest.seal(str(folder / "screen" / "results.zarr"))
    result = call("report", folder)
    assert isinstance(result.exception, DamagedError)
    assert "put back those of this screen" in str(result.exception)


@pytest.mark.slow
def test_a_report_of_several_runs_needs_an_output_and_has_a_section_each(folder, tmp_path):
    result = call("report", folder, folder / "screen")
    assert isinstance(result.exception, InputError)
    assert "--output" in str(result.exception)
    result = call("report", folder, folder / "screen", "--output", tmp_path / "both.html")
    assert result.exit_code == 0, result.output
    assert '<section id="run-2-everyone"' in (tmp_path / "both.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csv", "parquet", "netcdf"])
def test_other_formats(folder, form):
    result = call("report", folder, "--format", form)
    assert result.exit_code == 0, result.output
    written = result.output.split()
    assert written
    assert all(path.startswith(str(folder / "tables")) for path in written)
    if form == "csv":
        assert len(pd.read_csv(folder / "tables" / "screen-users.csv")) > 0
    if form == "netcdf":
        with xr.open_dataset(folder / "tables" / "audit.nc") as audit:
            assert (audit.status == "done").all()
    if form == "parquet":
        again = call("audit", folder.parent / "run.yaml")  # the tables are not in its way
        assert again.exit_code == 0, again.output


@pytest.mark.slow
def test_the_page_to_sign_has_the_verdict_of_the_gate_and_its_content_as_json(folder, tmp_path):
    (tmp_path / "policy.yaml").write_text("mean_privacy_loss: {warn: 0.1, fail: 0.9}")
    title = "Laplace noise, ε 1 per event"
    named = ("--mechanism", title, "--group-size", "6", "--policy", tmp_path / "policy.yaml")
    result = call("report", folder, "--sign-off", *named)
    assert result.exit_code == 0, result.output
    facts = json.loads((folder / "sign-off.json").read_text())
    page = (folder / "sign-off.html").read_text()
    assert f"<h1>Sign-off: {title}</h1>" in page
    assert facts["digest"] in page
    assert call("gate", folder, *named, "--json", tmp_path / "gate.json").exit_code in (3, 4)
    told = json.loads((tmp_path / "gate.json").read_text())
    assert {key: facts["policy"][key] for key in told} == told
    assert facts["group_sizes"] == [6]
    assert "policy: warn above" in page
    refused = call("report", folder, "--sign-off", "--format", "csv")
    assert "--sign-off is a page of one run" in str(refused.exception)


@pytest.mark.slow
def test_an_analysis_of_another_cube_is_left_out_and_named(folder, tmp_path):
    other = crowd.write(str(tmp_path / "other.zarr"), crowd.draw(40, 4, 48, seed=9)).uri
    content = yaml.safe_load((tmp_path / "run.yaml").read_text())
    content |= {"cube": other, "output": str(tmp_path / "elsewhere")}
    (tmp_path / "other.yaml").write_text(yaml.safe_dump(content))
    done = call("screen", tmp_path / "other.yaml")
    assert done.exit_code == 0, (done.output, done.exception)
    shutil.rmtree(folder / "screen")
    shutil.copytree(tmp_path / "elsewhere" / "screen", folder / "screen")
    result = call("report", folder)
    assert result.exit_code == 0, (result.output, result.exception)
    assert f"the screen in {folder} is of another cube, and left out" in result.output
    page = (folder / "report.html").read_text()
    assert '<section id="exposed"' in page
    assert '<section id="everyone"' not in page


@pytest.mark.slow
def test_only_earlier_pages_of_the_same_run_are_renewed(folder, tmp_path):
    named = ("--mechanism", "Laplace noise, ε 1 per event")
    for words, names in (
        (("report", folder), ["report.html"]),
        (("report", folder, "--sign-off", *named), ["sign-off.html", "sign-off.json"]),
    ):
        assert call(*words).exit_code == 0
        again = call(*words)
        assert again.exit_code == 0, again.exception
        for name in names:
            own = (folder / name).read_text()
            print_of = xr.open_zarr(folder / "results.zarr").attrs["cube_fingerprint"]
            assert print_of in own
            for text in ("<p>my notes</p>", own.replace(print_of, "0" * len(print_of))):
                (folder / name).write_text(text)
                refused = call(*words)
                assert isinstance(refused.exception, ExistsError), name
                assert f"{name} exists: name another file, or overwrite it" in str(
                    refused.exception
                )
                assert (folder / name).read_text() == text
                forced = call(*words, "--force")
                assert forced.exit_code == 0, forced.exception
                assert (folder / name).read_text() != text
    (folder / "report.html").write_text("<p>my notes</p>")
    for call_of in (clusterscale.report, clusterscale.sign_off):
        with pytest.raises(ExistsError, match="or overwrite it with `force=True`"):
            call_of(folder, folder / "report.html")
    clusterscale.report(folder, force=True)
    clusterscale.report(folder)


@pytest.mark.slow
def test_the_page_can_be_opened(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    assert call("report", folder, "--open").exit_code == 0
    assert opened == [(folder / "report.html").as_uri()]


def test_a_folder_without_results_is_an_error(tmp_path):
    result = call("report", tmp_path)
    assert isinstance(result.exception, MissingError)
    assert "there are no results; has a run finished there?" in str(result.exception)


def test_addresses_with_secrets_are_refused():
    result = call("report", "s3://key:secret@bucket/run")
    assert result.exception is not None
    assert "secret" not in str(result.exception).replace("secrets", "")
