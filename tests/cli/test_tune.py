"""Hyperparameters from the command line: lines that can be pasted, the same anywhere."""

import pytest
import yaml
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.config import parse
from clusterscale.errors import ConfigError

pytestmark = pytest.mark.dask

pytest.importorskip("dask_ml")

GIVEN = [
    {"name": "logistic", "cost": 0.01},
    {"name": "projection"},
    {"name": "nearest", "neighbours": 40},
]


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def config(tmp_path, cube, plan_fields):
    path = tmp_path / "run.yaml"
    content = {
        "cube": cube.uri,
        "output": str(tmp_path / "run"),
        "audit": plan_fields
        | {"attacks": GIVEN, "group_sizes": [6], "mechanisms": [{"name": "exact"}]},
        "cluster": {"name": "serial"},
    }
    path.write_text(yaml.safe_dump(content))
    return path


def test_lines_can_be_pasted_into_the_config(config, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = call("tune", config, "--targets", 2, "--folds", 2)
    assert result.exit_code == 0, result.output
    lines = result.output[result.output.index("attacks:\n") :]
    fields = yaml.safe_load(config.read_text())
    fields["audit"] |= yaml.safe_load(lines)
    pasted = parse(yaml.safe_dump(fields)).audit.attacks
    assert [attack.name for attack in pasted] == ["logistic", "projection", "nearest"]
    before = parse(config.read_text()).audit.attacks
    for attack, given in zip(pasted, before, strict=True):
        assert attack in (given.variants() if attack.name != "projection" else [given])
    assert pasted[2].neighbours != 40, "nearly all neighbours tell little"
    assert "A  as given" in result.output
    assert "A  logistic(cost=0.01)" in result.output
    assert result.output.count("logistic(") == 1, "the one given is the best"
    assert max(map(len, result.output[: result.output.index("attacks:")].splitlines())) <= 80
    assert pasted[2].label in result.output
    assert "u0" not in result.output


@pytest.mark.slow
def test_a_cluster_chooses_the_same(config, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    words = ["tune", config, "--targets", 2, "--folds", 2]
    places = ["--cluster", "serial"], ["--cluster", "local", "--workers", 2]
    one, other = (call(*words, *place).output for place in places)
    assert "attacks:\n" in one
    assert other[other.index("hyper") :] == one[one.index("hyper") :]


@pytest.mark.slow
def test_the_most_exposed_are_found_by_a_screen_first(config, tmp_path):
    fields = yaml.safe_load(config.read_text())
    fields["audit"] |= {
        "targets": {"most_exposed": 1},
        "attacks": [GIVEN[0]],
        "screen": {"groups": 60},
    }
    config.write_text(yaml.safe_dump(fields))
    result = call("tune", config)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "screen" / "results.zarr").is_dir()
    assert "of 1 targets" in result.output


def test_a_config_without_anything_to_tune_is_refused_before_anything_runs(config, tmp_path):
    fields = yaml.safe_load(config.read_text())
    fields["audit"]["attacks"] = [{"name": "projection"}]
    config.write_text(yaml.safe_dump(fields))
    with pytest.raises(ConfigError, match="none of them can be tuned"):
        call("tune", config)
