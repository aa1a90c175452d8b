"""Weekly releases of real people, three of them wrong: each is judged once, whatever happens."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr
from oracles import stopping
from real.cabs import ingest_cabs
from real.weekly import BAD, RELEASES, write, write_config

from clusterscale.cube import Calendar, Grid, TraceCube

pytest.importorskip("distributed")  # to ingest
pytestmark = [pytest.mark.nightly(group="real"), pytest.mark.dask, pytest.mark.timeout(1800)]

APPEARING = (3, 6, 8)
N_KILLED = 5  # of the releases are in the catalogue whose runs are killed; the last is bad


@pytest.fixture(scope="module")
def cubes(real_data, tmp_path_factory):
    from clusterscale.ingestion import READERS, IngestOptions, ingest

    folder = tmp_path_factory.mktemp("cubes")
    riders = str(folder / "riders.zarr")
    ingest(
        str(real_data / "valleybike_1min.parquet"),
        riders,
        IngestOptions(
            reader=READERS.create("events"),
            locator=Grid.parse("42.05,-72.72,42.45,-72.48/20x12"),
            calendar=Calendar.parse("2018-08-20T00:00", "1h", 28 * 24, "America/New_York"),
            min_events=10,
        ),
    )
    cabs = ingest_cabs(real_data, str(folder / "cabs.zarr"))
    return {"cabs": cabs, "riders": TraceCube(riders)}


def run(config, *words):
    command = [sys.executable, "-m", "clusterscale", "reaudit", str(config), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def rows(folder):
    return sorted((folder / "ledger" / "verdicts.parquet").glob("*.parquet"))


@pytest.fixture(scope="module")
def judged(cubes, tmp_path_factory):
    """The folder of a catalogue that grew, with what each run of the command said."""
    folder, said = tmp_path_factory.mktemp("weekly"), []
    config = write_config(cubes, folder)
    for first, stop in zip((0, *APPEARING), APPEARING, strict=False):
        for release in RELEASES[first:stop]:
            write(release, cubes[release.cube], folder)
        said.append(run(config, "--json", folder / f"{stop}.json"))
    return folder, config, said


def test_each_is_judged_once_and_the_bad_ones_fail_with_the_reason(judged):
    folder, _, said = judged
    assert [code for code, _, _ in said] in ([0, 4, 4], [3, 4, 4]), said
    table = pd.read_parquet(folder / "ledger" / "verdicts.parquet")
    assert table.number.tolist() == list(range(len(RELEASES)))
    assert table.release.tolist() == [each.name for each in RELEASES]
    for row in table.itertuples():
        reasons = json.loads(row.reasons)
        failed = [each["check"] for each in reasons if each["level"] == "fail"]
        warned = {each["check"] for each in reasons if each["level"] == "warn"}
        assert (row.verdict == "fail") == (row.release in BAD), (row.release, row.reasons)
        assert warned <= {"exposure"}, "few targets may be inconclusive"
        if row.release in BAD:
            assert BAD[row.release] in failed, (row.release, row.reasons)
    for stop, first in zip(APPEARING, (0, *APPEARING), strict=False):
        told = json.loads((folder / f"{stop}.json").read_text())
        assert [each["release"] for each in told["releases"]] == [
            each.name for each in RELEASES[first:stop]
        ]


def test_the_values_themselves_tell_who_is_inside(judged):
    folder, _, _ = judged
    table = pd.read_parquet(folder / "ledger" / "verdicts.parquet").set_index("release")
    assert table.published_auc["cabs-1"] > 0.9
    assert (table.published_auc_low <= table.published_auc).all()


def test_what_is_there_already_costs_nothing(judged):
    folder, config, _ = judged
    before = [(path.name, path.read_bytes()) for path in rows(folder)]
    code, out, _ = run(config)
    assert code == 0
    assert "nothing new among 8 releases" in out
    assert [(path.name, path.read_bytes()) for path in rows(folder)] == before


def test_what_is_killed_and_run_again_ends_with_the_same_ledger(judged, cubes, tmp_path):
    """Killed with -9 within an audit and between two; and started twice at the same time."""
    whole, _, _ = judged
    listed = [write(release, cubes[release.cube], tmp_path) for release in RELEASES[:N_KILLED]]
    config, marker = write_config(cubes, tmp_path, listed), tmp_path / "stopped"
    appended, kept = (
        "clusterscale.reauditing.ledger.Ledger.append",
        "clusterscale.analyses.audit.finished_tasks",
    )
    for name, n_calls in ((appended, 1), (f"{kept}.FinishedTasks.note", 2), (appended, 2)):
        with stopping.stopped(name, n_calls, marker, "reaudit", config):
            pass  # it is killed where it stopped
    assert len(rows(tmp_path)) == 3
    with stopping.stopped(f"{kept}.FinishedTasks.note", 1, marker, "reaudit", config) as first:
        code, out, err = run(config)
        assert code == 0, err
        assert "is at work on" in out
        assert first.poll() is None, "the first one is still at work"
        marker.unlink()
        first.communicate()
        assert first.returncode == 4
    check_same(whole, tmp_path)


def check_same(one: Path, other: Path):
    """Assert that the first rows of one ledger and their results are those of another.

    They are the same bit by bit, except for times.
    """
    names = [path.name for path in rows(other)]
    assert names == [path.name for path in rows(one)[:N_KILLED]]
    for left, right in zip(rows(one), rows(other), strict=False):
        assert left.read_bytes() == right.read_bytes(), left.name
    for run in pd.read_parquet(other / "ledger" / "verdicts.parquet").run:
        for name in ("release/facts.json", "screen/results.zarr/auc/c/0/0/0/0/0"):
            pair = [(folder / "ledger" / run / name).read_bytes() for folder in (one, other)]
            if name.endswith("json"):
                where = {"listed": None, "digest": None}  # where it lay
                pair = [json.loads(each) | where for each in pair]
            assert pair[0] == pair[1]
        results = [
            xr.open_zarr(folder / "ledger" / run / "results.zarr", consolidated=False).load()
            for folder in (one, other)
        ]
        xr.testing.assert_identical(*(each.drop_vars("seconds") for each in results))
