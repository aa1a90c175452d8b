"""Screening from the command line."""

import re

import pytest
import yaml
from typer.testing import CliRunner

from clusterscale import open_screen
from clusterscale.cli import app
from clusterscale.cli.options import parse_memory
from clusterscale.errors import InputError
from clusterscale.runtime import CLUSTERS, Local, Serial
from clusterscale.schema import with_labels
from clusterscale.study.execution import MEMORY

pytestmark = pytest.mark.usefixtures("no_figures")


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture
def config(tmp_path, cube, plan_fields):
    path = tmp_path / "run.yaml"
    content = {
        "cube": cube.uri,
        "output": str(tmp_path / "run"),
        "audit": plan_fields | {"screen": {"groups": 60}},
        "cluster": {"name": "serial"},
    }
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.slow
def test_everyone_is_screened_and_nobody_named(config, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    result = call("screen", config)
    assert result.exit_code == 0, result.output
    found = open_screen(tmp_path / "run")
    assert found.sizes["user"] == 60
    assert "60 users, all, groups of 6" in result.output
    laplace = (
        with_labels(found).sel(group_size=6, mechanism="laplace(epsilon=1.0, unit='event')").auc
    )
    means = laplace.isel(period=0).mean("user").values
    lines = [line for line in result.output.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80
    title = "Laplace noise, ε 1 per event"
    line = next(line for line in reversed(lines) if re.match(rf"{title} +[a-z]+ +[01]\.", line))
    assert f"{means.max():.3f}" in line
    assert str(laplace.attack.values[means.argmax()]) in line
    above = laplace.isel(period=0, attack=means.argmax()).values > 0.9
    assert f"{100 * above.mean():.1f} %" in line
    assert "u0" not in result.output


def test_explain_says_what_would_run(config, tmp_path):
    result = call("screen", config, "--explain", "--memory", "1GB")
    assert result.exit_code == 0
    for words in ("60", "240", "4 times", "of one processor"):
        assert words in result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_audit_of_the_most_exposed_goes_on_from_a_screen(config, tmp_path, monkeypatch):
    assert call("screen", config).exit_code == 0
    fields = yaml.safe_load(config.read_text())
    fields["audit"]["targets"] = {"most_exposed": 3}
    config.write_text(yaml.safe_dump(fields))
    monkeypatch.setattr("clusterscale.analyses.screening.scoring.score", lambda task: 1 / 0)
    result = call("audit", config)
    assert result.exit_code == 0, result.output


def test_memory_is_a_size():
    assert parse_memory("4GB", Serial()) == 4 * 10**9
    assert parse_memory("800 MiB", Local(memory="1GB")) == 800 * 2**20
    with pytest.raises(InputError, match="--memory 'much' is not a size such as 4GB"):
        parse_memory("much", Serial())


def test_memory_is_what_the_cluster_leaves_to_work():
    assert parse_memory(None, Serial()) == MEMORY
    assert parse_memory(None, Local(memory="1GB")) == 7 * 10**8
    assert parse_memory(None, CLUSTERS.create("slurm", memory="4GiB")) == int(0.7 * 2**32)
    assert parse_memory(None, CLUSTERS.create("address", address="tcp://127.0.0.1:1")) == MEMORY
