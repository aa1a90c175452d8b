"""Real user ids stay in the cube, wherever the records came from and whatever it is called."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import yaml
import zarr

pytest.importorskip("dask")

from ingest.oracle import CALENDAR, START, ingest_records
from typer.testing import CliRunner

from clusterscale.analyses.audit import open_results
from clusterscale.cli import app
from clusterscale.cube import TraceCube
from clusterscale.cube.attributes import digest

pytestmark = [pytest.mark.dask]

N_USERS = 24


@pytest.fixture
def records(tmp_path: Path) -> str:
    """A folder called ``synthetic`` with records of people who are known by their address."""
    rng = random.Random(1)
    lines = [
        f"ann{k:02d}@example.org,{START + rng.randrange(600)},{rng.randrange(8)},{rng.randrange(8)}"
        for k in range(N_USERS)
        for _ in range(6)
    ]
    folder = tmp_path / "synthetic"
    folder.mkdir()
    (folder / "records.csv").write_text("\n".join(["user,timestamp,lat,lon", *lines]))
    return str(folder)


def build(records: str, **options: object) -> TraceCube:
    uri = str(Path(records).with_name("cube.zarr"))
    ingest_records(records, uri, **options)
    return TraceCube(uri)


def names(cube: TraceCube) -> list[str]:
    return cube.pseudonyms(np.arange(3)).tolist()


def rewrite(cube: TraceCube, **changes: object) -> TraceCube:
    """Change attributes of a cube as whoever wrote it could have; None takes one away."""
    group = zarr.open_group(cube.uri, mode="r+")
    attributes = {**cube.attributes, **changes}
    kept = {key: value for key, value in attributes.items() if value is not None}
    group.attrs.put({**kept, "digest": digest(kept)})
    return TraceCube(cube.uri)


def test_only_a_typed_fact_makes_ids_pseudonyms(records):
    cube = build(records)
    assert cube.attributes["provenance"]["source"] == "synthetic"
    assert cube.attributes["ids_are_pseudonyms"] is False
    rows = ["row 0", "row 1", "row 2"]
    assert names(cube) == rows
    ids = cube.user_ids(0, 3).tolist()
    for fact, told in ((True, ids), (1, rows), ("true", rows), ("synthetic", rows), (None, rows)):
        assert names(rewrite(cube, ids_are_pseudonyms=fact)) == told, fact
    old = {"source": "synthetic", "pseudonymised": True, "preset": "milan"}
    assert names(rewrite(cube, ids_are_pseudonyms=None, provenance=old)) == rows


def test_whoever_hashes_ids_says_so(records):
    hashed = build(records, pseudonymise=b"0123456789abcdef")
    assert hashed.attributes["ids_are_pseudonyms"] is True
    assert names(hashed) == hashed.user_ids(0, 3).tolist()


@pytest.mark.slow
@pytest.mark.usefixtures("no_figures")
def test_no_id_is_in_anything_that_is_written_or_shown(records, tmp_path):
    """Report, CSV, Parquet, NetCDF, results and the terminal, for every user as a target."""
    cube, run = build(records), tmp_path / "run"
    audit = {
        "seed": 1,
        "targets": {"all": True},
        "group_sizes": [4],
        "periods": [{"name": "all", "first": 0, "epochs": CALENDAR.n_epochs}],
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 10}],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": "projection"}],
        "utility": {"groups": 2, "measures": [{"name": "pearson"}]},
    }
    content = {"cube": cube.uri, "output": str(run), "audit": audit, "cluster": {"name": "serial"}}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(content))
    commands = [["audit", tmp_path / "run.yaml"], ["inspect", cube.uri]]
    commands += [["report", run, "--format", form] for form in ("csv", "parquet", "netcdf")]
    shown = ""
    for words in commands:
        result = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        shown += result.output
    told = {"terminal": shown}
    for path in (run / "tables").glob("*.csv"):
        told[path.name] = path.read_text()
    for path in (run / "tables").glob("*.parquet"):
        told[path.name] = pd.read_parquet(path).to_csv()
    for path in (run / "tables").glob("*.nc"):
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            told[path.name] = str(dataset.to_dict())
    told["results.zarr"] = str(open_results(run).to_dict())
    told["report"] = (run / "report.html").read_text()
    assert sum(name.startswith("audit-") for name in told) >= 10
    for name, text in told.items():
        assert not re.search(r"ann\d\d|example\.org", text), name
    for name in ("audit-cases.csv", "audit-cases.parquet", "audit.nc", "results.zarr", "report"):
        assert "row 7" in told[name], name
    shutil.rmtree(run / "results.zarr")
    for path in (path for path in run.rglob("*") if path.is_file()):
        assert b"example.org" not in path.read_bytes(), path
