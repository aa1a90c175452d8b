"""Recovering from the command line."""

import numpy as np
import pytest
import yaml
from conftest import draw_dense, write_cube
from typer.testing import CliRunner

from clusterscale import open_recovery
from clusterscale.cli import app

pytestmark = pytest.mark.usefixtures("no_figures")


def call(*words, catch=False):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=catch)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "run.yaml"
    dense = draw_dense(np.random.default_rng(1), 20, 5, 60)
    content = {
        "cube": write_cube(str(tmp_path / "cube.zarr"), dense).uri,
        "output": str(tmp_path / "run"),
        "recovery": {
            "observed": 30,
            "epochs": 30,
            "priors": [{"name": "freq_roi"}, {"name": "roi_day"}],
            "mechanisms": [{"name": "laplace", "epsilon": 0.5, "unit": "event"}],
        },
        "cluster": {"name": "serial"},
    }
    path.write_text(yaml.safe_dump(content))
    return path


def test_recover_reports_all_users_without_their_ids(config, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = call("recover", config)
    assert result.exit_code == 0, result.output
    found = open_recovery(tmp_path / "run")
    assert found.sizes["user"] == 20
    bare = found.sel(mechanism="exact", prior="roi_day", strategy="max_user")
    words = f"{bare.profiling_error.mean():.2f} {bare.localization_error.mean('user').min():.2f}"
    assert words in result.output
    assert "20 users, Laplace noise, ε 0.5 per event, relative error" in result.output
    lines = [line for line in result.output.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80
    page = (tmp_path / "run" / "report.html").read_text()
    for text in (result.output, page):
        assert "u00" not in text
    (tmp_path / "run" / "report.html").unlink()
    again = call("report", tmp_path / "run")
    assert again.exit_code == 0
    assert (tmp_path / "run" / "report.html").read_text() == page


def test_explain_says_what_would_run(config, tmp_path):
    result = call("recover", config, "--explain")
    assert result.exit_code == 0
    for words in ("20", "10", "of one processor"):
        assert words in result.output
    assert not (tmp_path / "run").exists()


def test_a_config_may_ask_for_one_thing_only(config, plan_fields):
    assert call("config", "check", config).exit_code == 0
    for verb in ("audit", "screen", "tune"):
        assert "audit: missing" in str(call(verb, config, catch=True).exception)
    fields = yaml.safe_load(config.read_text())
    del fields["recovery"]
    config.write_text(yaml.safe_dump(fields))
    assert "audit, recovery, publish or several" in str(
        call("config", "check", config, catch=True).exception
    )
    config.write_text(yaml.safe_dump(fields | {"audit": plan_fields}))
    told = str(call("recover", config, catch=True).exception)
    assert "recovery: missing" in told


def test_a_faulty_recovery_is_refused_by_its_keys(config):
    fields = yaml.safe_load(config.read_text())
    fields["recovery"] |= {"epochs": 40, "strategies": [{"name": "max_rio"}]}
    config.write_text(yaml.safe_dump(fields))
    told = str(call("config", "check", config, catch=True).exception)
    assert "recovery.strategies" in told
    assert "max_roi" in told
    fields["recovery"].pop("strategies")
    config.write_text(yaml.safe_dump(fields))
    told = str(call("config", "check", config, catch=True).exception)
    assert "70 epochs are needed, but the cube has 60" in told
