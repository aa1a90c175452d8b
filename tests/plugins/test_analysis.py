"""An analysis of another package runs by name, with everything that the spine has."""

import numpy as np
import pytest
import yaml
from acme_privacy.analysis import Alone
from typer.testing import CliRunner

import clusterscale as cs
from clusterscale.cli import app
from clusterscale.errors import ConfigError, InputError
from clusterscale.reporting import open_run
from clusterscale.study import AnalysisPlan
from clusterscale.testing import registered

pytest.importorskip("dask")


@pytest.fixture
def config(cube, tmp_path):
    path = tmp_path / "run.yaml"
    fields = {
        "cube": cube.uri,
        "output": str(tmp_path / "run"),
        "cluster": {"name": "serial"},
        "analyses": [{"name": "alone", "block": 7}],
    }
    path.write_text(yaml.safe_dump(fields))
    return path


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_a_config_names_it_and_the_page_shows_it(cube, dense, config, tmp_path, no_figures):
    with registered(Alone):
        done = run("analyse", config)
        again = run("analyse", config)
        shown = run("config", "show", config)
    assert (done.exit_code, again.exit_code) == (0, 0), done.output
    assert "share of visits to cells that nobody else visited" in " ".join(done.output.split())
    assert yaml.safe_load(shown.output)["analyses"] == [{"name": "alone", "title": "", "block": 7}]
    found, notes = open_run(str(tmp_path / "run"))
    assert not notes
    flat = dense.reshape(len(dense), -1)
    alone = (flat & (flat.sum(axis=0) == 1)).sum(axis=1) / flat.sum(axis=1)
    np.testing.assert_allclose(found.others["alone"].alone, alone, rtol=1e-6)
    assert "alone" in (tmp_path / "run" / "report.html").read_text()
    in_python = cs.analyse(Alone(), cube, tmp_path / "python", progress=False)
    np.testing.assert_array_equal(in_python.alone, found.others["alone"].alone)


def test_without_it_the_name_is_not_known(config):
    with pytest.raises(ConfigError, match="no analysis is installed or registered"):
        CliRunner().invoke(app, ["analyse", str(config)], catch_exceptions=False)


def test_a_config_without_any_says_what_to_add(cube, config):
    fields = yaml.safe_load(config.read_text()) | {"recovery": {"observed": 24}, "analyses": []}
    config.write_text(yaml.safe_dump(fields))
    with pytest.raises(ConfigError, match="name at least one"):
        CliRunner().invoke(app, ["analyse", str(config)], catch_exceptions=False)


def test_what_is_no_plan_is_refused(cube, tmp_path):
    with pytest.raises(InputError, match="AnalysisPlan"):
        cs.analyse("alone", cube, tmp_path)
    with pytest.raises(InputError, match="has no `runs`"):
        AnalysisPlan().analysis()


def test_it_has_a_verb_a_function_a_page_tables_and_an_explanation(cube, config, tmp_path):
    with registered(Alone):
        shown = run("--help")
        explained = run("alone", config, "--explain")
        done = run("alone", config)
        tables = run("report", tmp_path / "run", "--format", "csv", "--output", tmp_path / "tables")
        in_python = cs.alone(Alone(block=7), cube, tmp_path / "run", progress=False)
    assert "alone" in shown.output
    assert "Share of each user's visits" in " ".join(shown.output.split())
    assert (explained.exit_code, done.exit_code, tables.exit_code) == (0, 0, 0), done.output
    assert in_python.sizes["user"] == cube.n_users
    assert (tmp_path / "tables" / "alone-user.csv").exists()
    with pytest.raises(AttributeError, match="no attribute 'alone'"):
        cs.alone  # noqa: B018
