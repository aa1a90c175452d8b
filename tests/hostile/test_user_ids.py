"""E-mail addresses that serve as user ids stay in the cube, whatever its records are called."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr
import yaml

pytestmark = pytest.mark.slow  # each command starts a process

DOMAIN = "@example.org"
START = 1704067200  # 2024-01-01, UTC
N_USERS = 24


def run(folder: Path, *words: str) -> str:
    """Run a command and return all that it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "clusterscale", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of an audit of people with e-mail addresses, and what its commands printed."""
    folder = tmp_path_factory.mktemp("audit")
    rng = random.Random(1)
    lines = [
        f"ann{k:02d}{DOMAIN},{START + rng.randrange(12 * 3600)},{rng.random()},{rng.random()}"
        for k in range(N_USERS)
        for _ in range(8)
    ]
    # The old version took the name of the source for the kind of the source.
    (folder / "synthetic").write_text("\n".join(["user,timestamp,lat,lon", *lines]) + "\n")
    config = {
        "cube": {"path": "cube.zarr"},
        "output": "run",
        "audit": {
            "seed": 1,
            "periods": [{"name": "day", "first": 0, "epochs": 12}],
            "targets": {"tertiles": 1},
            "priors": [{"name": "known_subset", "alpha": 0.6, "training": 40, "challenges": 20}],
            "group_sizes": [5],
            "attacks": [{"name": "logistic"}],
            "mechanisms": [{"name": "laplace", "epsilon": 1.0}],
        },
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    where = ("--start", "2024-01-01T00:00", "--epochs", "12", "--grid", "0,0,1,1/2x2")
    shown = run(folder, "ingest", "synthetic", "cube.zarr", *where)
    shown += run(folder, "inspect", "cube.zarr")
    shown += run(folder, "audit", "config.yaml")
    for form in ("csv", "parquet", "netcdf"):
        shown += run(folder, "report", "run", "--format", form, "--output", form)
    return folder, shown


def test_no_output_contains_an_address(audited: tuple[Path, str]) -> None:
    folder, shown = audited
    assert DOMAIN not in shown
    files = [
        path
        for part in ("run", "csv", "parquet", "netcdf")
        for path in (folder / part).rglob("*")
        if path.is_file()
    ]
    assert len(files) > 10
    assert [path for path in files if DOMAIN.encode() in path.read_bytes()] == []


def test_decoded_results_name_users_by_row(audited: tuple[Path, str]) -> None:
    folder, _ = audited
    with xr.open_zarr(folder / "run" / "results.zarr", chunks=None, consolidated=False) as results:
        decoded = [str(value) for v in results.variables.values() for value in v.values.ravel()]
        names = [str(name) for name in results.pseudonym.values]
    for path in (folder / "parquet").glob("*.parquet"):
        decoded += [str(value) for value in pd.read_parquet(path).to_numpy().ravel()]
    for path in (folder / "netcdf").glob("*.nc"):
        with xr.open_dataset(path) as dataset:
            decoded += [str(x) for v in dataset.variables.values() for x in v.values.ravel()]
    assert not [value for value in decoded if DOMAIN in value]
    assert len(names) == 3
    assert all(name.startswith("row ") and name[4:].isdecimal() for name in names)
