"""Releases, cube and ledger in an object store, by the command itself."""

import subprocess
import sys

import pandas as pd
import pytest
from conftest import write_cube
from object_store import UNCLOSED, serve
from oracles.catalogues import write_catalogue, write_release
from typer.testing import CliRunner

from clusterscale import storage
from clusterscale.cli import app

pytestmark = [
    pytest.mark.nightly(group="object-store"),
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings(UNCLOSED),
]


def start(*words):
    command = [sys.executable, "-m", "clusterscale", "reaudit", *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    out, err = process.communicate()
    return process.returncode, out, err


def test_two_starts_at_once_on_s3_end_with_the_ledger_of_one_on_a_disk(cube, dense, tmp_path):
    with serve() as server:
        for day in range(2):
            path = tmp_path / "releases" / f"day-{day}.nc"
            write_release(cube, path, first=24 * day, series="days")
            storage.put(f"{server.uri}/releases/day-{day}.nc", path.read_bytes())
        here = write_catalogue(cube, tmp_path)
        judged = CliRunner().invoke(app, ["reaudit", str(here)])
        assert judged.exit_code == 3, "so few targets are inconclusive"
        rows = sorted((tmp_path / "ledger" / "verdicts.parquet").glob("*"))
        (tmp_path / "s3").mkdir()
        config = write_catalogue(  # the cube is held by nobody else, and closed with the server
            write_cube(f"{server.uri}/cube.zarr", dense),
            tmp_path / "s3",
            output=f"{server.uri}/ledger",
            releases=None,
        )
        pattern = f"{server.uri}/releases/day-*.nc"
        ended = [end(each) for each in [start(pattern, "--config", config) for _ in range(2)]]
        assert sorted(code for code, _, _ in ended) == [0, 3], ended
        assert sum("is at work on" in out or "nothing new" in out for _, out, _ in ended) == 1, (
            ended
        )
        names = storage.list_names(f"{server.uri}/ledger/verdicts.parquet")
        assert names == [row.name for row in rows]
        for row in rows:
            place = f"{server.uri}/ledger/verdicts.parquet/{row.name}"
            assert storage.read(place) == row.read_bytes()
        code, out, _ = end(start(pattern, "--config", config))
        assert code == 0
        assert "nothing new among 2 releases" in out
    assert pd.read_parquet(rows[1]).n_common.tolist() == [60], "compared with the day before"
