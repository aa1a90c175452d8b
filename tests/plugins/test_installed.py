"""The example, installed with pip, is used by name on the command line, in this process or Dask."""

import os
import re

import pytest
import yaml
from plugins.installing import call, install, names_in_report, write_config

pytest.importorskip("dask")
pytest.importorskip("hatchling")
pytest.importorskip("pip")

pytestmark = [pytest.mark.slow, pytest.mark.dask]

ALL = {"uniform_noise", "matching_cells", "largest_error"}


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    return install(tmp_path_factory.mktemp("installed"))


@pytest.mark.parametrize("cluster", ["serial", "local"])
def test_an_audit_uses_it_by_name(cluster, cube, environment, tmp_path):
    workers = {"workers": 1} if cluster == "local" else {}
    call(environment, "audit", write_config(tmp_path, cube, name=cluster, **workers))
    assert names_in_report(tmp_path) == ALL


def test_config_show_and_the_schema_have_it(cube, environment, tmp_path):
    config = write_config(tmp_path, cube, name="serial")
    shown = yaml.safe_load(call(environment, "config", "show", config))
    assert shown["audit"]["mechanisms"][1]["width"] == 3.0
    schema = call(environment, "config", "schema")
    assert "UniformNoise" in schema
    assert "MatchingCells" in schema


def test_without_it_the_name_is_not_known(cube, tmp_path):
    said = call(dict(os.environ), "audit", write_config(tmp_path, cube, name="serial"), code=2)
    assert "audit.mechanisms.1: 'uniform_noise' is not known" in said


def test_its_reader_ingests(environment, tmp_path):
    (tmp_path / "a.ping").write_text("ann 50.5 0.5 1704067300\nbob 50.5 1.5 1704067400\n")
    said = call(
        environment,
        *("ingest", tmp_path / "a.ping", tmp_path / "cube.zarr"),
        *("--start", "2024-01-01T00:00", "--epochs", "2"),
        *("--reader", "pings", "--grid", "50,0,51,2/1x2"),
    )
    assert re.search(r"^events kept +2$", said, re.MULTILINE)
    assert re.search(r"^users +2$", said, re.MULTILINE)


def test_workers_without_it_are_named(cube, environment, tmp_path):
    """The workers of a cluster that another process started do not see the driver's folder."""
    import distributed

    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as cluster:
        place = {"name": "address", "address": cluster.scheduler_address}
        said = call(environment, "audit", write_config(tmp_path, cube, **place), code=75)
    assert "acme-privacy is absent there and 1.0 here: install acme-privacy==1.0" in said
    assert "Traceback" not in said
