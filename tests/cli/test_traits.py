"""Asking why users are exposed, from the command line."""

import numpy as np
import pytest
import yaml
from conftest import draw_dense, write_cube
from typer.testing import CliRunner

from clusterscale import open_traits
from clusterscale.cli import app

pytestmark = pytest.mark.usefixtures("no_figures")


def call(*words, catch=False):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=catch)


@pytest.fixture
def fields(tmp_path):
    dense = draw_dense(np.random.default_rng(1), 40, 5, 60)
    return {
        "cube": write_cube(str(tmp_path / "cube.zarr"), dense).uri,
        "output": str(tmp_path / "run"),
        "audit": {
            "seed": 2,
            "targets": {"random": 8},
            "group_sizes": [4],
            "periods": [{"name": "all", "epochs": 60}],
            "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 20}],
            "mechanisms": [{"name": "exact"}],
            "attacks": [{"name": "projection"}],
            "screen": {"groups": 30, "attacks": [{"name": "projection"}]},
            "control": False,
        },
        "traits": {"share": 0.25, "trees": 50},
        "cluster": {"name": "serial"},
    }


@pytest.fixture
def config(fields, tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(fields))
    return path


def test_nobody_is_known_to_be_exposed_before_an_audit(config):
    told = str(call("traits", config, catch=True).exception)
    assert "run `clusterscale audit` or `clusterscale screen` with this config first" in told


def test_the_cost_is_told_before_an_audit(config, fields):
    fields["audit"] |= {
        "group_sizes": [4, 8],
        "attacks": [{"name": "projection"}, {"name": "cells"}],
    }
    config.write_text(yaml.safe_dump(fields))
    shown = " ".join(call("traits", config, "--explain").output.split())
    assert "comparisons 4 " in shown
    assert "components 2 × 8 targets" in shown
    assert "s of one processor" in shown


@pytest.mark.slow
def test_a_table_for_the_audit_and_one_for_the_screen(config, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for verb in ("audit", "screen"):
        assert call(verb, config).exit_code == 0
    result = call("traits", config)
    assert result.exit_code == 0, result.output
    shown = " ".join(result.output.split())  # however lines are broken
    for words in (
        "audit, all, known_subset(alpha=0.5, training=20, challenges=20), 4, exact, projection",
        "screen, all, 4, exact, projection",
        "the 2 most exposed, mean AUC",
        "the 10 most exposed, mean AUC",
        "ROIs per",  # what follows may be on another line
        "unique ROIs",
        "apart",
        f"results {tmp_path}/run/traits/results.zarr",
    ):
        assert words in shown
    assert "u00" not in result.output
    lines = [line for line in result.output.splitlines() if str(tmp_path) not in line]
    assert max(map(len, lines)) <= 80
    found = open_traits(tmp_path / "run")
    row = found.isel(comparison=0, characteristic=0)
    assert f"{row.top_mean.item():.1f} ± {row.top_sd.item():.1f}" in result.output


@pytest.mark.slow
def test_sides_that_are_told_alike_say_nothing(config, fields):
    """The paper's ``perfect`` adversary without noise to fear errs with nobody."""
    fields["audit"]["priors"] = [{"name": "perfect", "groups": 20}]
    fields["audit"]["attacks"] = [{"name": "spectral"}]
    config.write_text(yaml.safe_dump(fields))
    assert call("audit", config).exit_code == 0
    assert "the comparison explains little" in call("traits", config).output


@pytest.mark.slow
def test_too_few_users_are_said_to_be_too_few(config, fields):
    fields["traits"] = {"share": 0.1}
    config.write_text(yaml.safe_dump(fields))
    assert call("audit", config).exit_code == 0
    result = call("traits", config)
    assert result.exit_code == 0
    assert "too few users were attacked to compare" in result.output


@pytest.mark.slow
def test_another_question_needs_force(config, fields):
    assert call("screen", config).exit_code == 0
    assert call("traits", config).exit_code == 0
    fields["traits"]["share"] = 0.3
    config.write_text(yaml.safe_dump(fields))
    told = str(call("traits", config, catch=True).exception)
    assert "holds traits of another" in told
    assert call("traits", config, "--force").exit_code == 0


def test_a_config_without_an_audit_has_nobody_exposed(config, fields):
    del fields["audit"]
    config.write_text(yaml.safe_dump(fields | {"recovery": {"observed": 30, "epochs": 30}}))
    assert "audit: missing" in str(call("traits", config, catch=True).exception)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"share": 0.6}, "traits.share"),
        ({"share": 0}, "traits.share"),
        ({"trees": 10}, "traits.trees"),
        ({"components": 0}, "traits.components"),
        ({"targets": 2.5}, "traits.targets"),
        ({"tree": 100}, "traits.tree: is not a known key: choose from share, components, trees"),
    ],
)
def test_faulty_keys_are_named(config, fields, given, told):
    config.write_text(yaml.safe_dump(fields | {"traits": given}))
    assert told in str(call("config", "check", config, catch=True).exception)
