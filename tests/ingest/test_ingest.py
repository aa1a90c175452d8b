"""The way from records to a cube: who runs it, who is kept, what is left behind."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dask")

import dask
from ingest.oracle import GRID, START, content, ingest_records

from clusterscale.cube.regions import Grid
from clusterscale.cube.store import TraceCube
from clusterscale.errors import ClusterscaleError, ExistsError, InputError, MissingError
from clusterscale.ingestion import Events, IngestReport, read_key

pytestmark = [pytest.mark.dask, pytest.mark.usefixtures("small_chunks")]

KEY = b"0123456789abcdef"


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Records of 60 users: user k has about k events, in random order, all names of one length."""
    rng = random.Random(1)
    lines = [
        f"user{k:03d},{START + rng.randrange(600)},{rng.randrange(8)},{rng.randrange(8)}"
        for k in range(60)
        for _ in range(k + 1)
    ]
    rng.shuffle(lines)
    path = tmp_path / "records.csv"
    path.write_text("\n".join(["user,timestamp,lat,lon", *lines]))
    return str(path)


def build(source: str, name: str = "cube.zarr", **options: Any) -> tuple[IngestReport, TraceCube]:
    uri = str(Path(source).with_name(name))
    report = ingest_records(source, uri, **options)
    return report, TraceCube(uri)


@pytest.mark.slow
def test_the_cube_is_the_same_to_the_last_byte_whoever_runs_it(source: str) -> None:
    cubes = [build(source, "one.zarr")[1]]
    for scheduler in ("threads", "synchronous"):
        cubes.append(build(source, f"{scheduler}.zarr", block_bytes=700, scheduler=scheduler)[1])
    files = [_files(Path(cube.uri)) for cube in cubes]
    assert all(each == files[0] for each in files)
    assert sorted(path.name for path in Path(source).parent.iterdir()) == sorted(
        ["records.csv", *(Path(cube.uri).name for cube in cubes)]
    )


@pytest.mark.slow
def test_a_cluster_makes_the_same_cube_and_is_used_only_where_it_is_named(source: str) -> None:
    distributed = pytest.importorskip("distributed")
    expected = _files(Path(build(source, "one.zarr")[1].uri))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
    ) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            named = build(source, "named.zarr", block_bytes=700, scheduler=client)[1]
        assert _files(Path(named.uri)) == expected
        n_before = cluster.scheduler.transition_counter
        assert n_before > 0
        with distributed.Client(cluster):
            other = build(source, "other.zarr", block_bytes=700)[1]
        assert cluster.scheduler.transition_counter == n_before
        assert _files(Path(other.uri)) == expected


def _refuse(*args: object, **options: object) -> None:
    pytest.fail("this scheduler was not asked for")


@pytest.mark.parametrize(
    ("reader", "locator"), [(Events(), GRID), (Events(roi="lat"), None)], ids=["grid", "names"]
)
def test_the_configuration_of_dask_does_not_choose_the_scheduler(
    source: str, reader: Events, locator: Grid | None
) -> None:
    how = {"reader": reader, "locator": locator}
    expected = build(source, **how)[1].fingerprint
    with dask.config.set({"scheduler": _refuse, "dataframe.shuffle.method": "p2p"}):
        assert build(source, "other.zarr", **how)[1].fingerprint == expected


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_only_the_users_with_most_events_stay(source: str) -> None:
    everybody = {user: len(cells) for user, cells in content(build(source)[1].uri).items()}
    ranked = sorted(everybody, key=lambda user: (-everybody[user], user))
    report, cube = build(source, "top.zarr", top_users=7, block_bytes=900)
    assert set(content(cube.uri)) == set(ranked[:7])
    assert report.dropped["user_filtered"] == sum(everybody[user] for user in ranked[7:])
    assert report.n_rows == report.n_events + sum(report.dropped.values())
    assert build(source, "all.zarr", top_users=1000)[1].n_users == 60


def test_only_users_with_enough_events_stay(source: str) -> None:
    everybody = content(build(source)[1].uri)
    report, cube = build(source, "some.zarr", min_events=20)
    assert content(cube.uri) == {u: cells for u, cells in everybody.items() if len(cells) >= 20}
    assert report.n_rows == report.n_events + sum(report.dropped.values())


@pytest.mark.slow
def test_runs_of_users_are_written_in_the_order_of_their_ids(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = build(source)[1]
    monkeypatch.setattr("clusterscale.ingestion.merge._RUN", 10)
    told: list[tuple[str, int, int]] = []
    runs = build(source, "runs.zarr", block_bytes=500, on_progress=lambda *step: told.append(step))[
        1
    ]
    assert runs.fingerprint == whole.fingerprint
    for stage in ("read", "write"):
        done = [step[1] for step in told if step[0] == stage]
        total = {step[2] for step in told if step[0] == stage}
        assert done == sorted(done)
        assert total == {done[-1]}
        assert len(done) > 5


def test_pseudonyms_are_keyed_hashes_and_stand_in_their_own_order(
    source: str, tmp_path: Path
) -> None:
    keyfile = tmp_path / "key"
    keyfile.write_bytes(KEY)
    keyfile.chmod(0o600)
    plain = content(build(source)[1].uri)
    for block_bytes in (1 << 20, 600):
        cube = build(
            source,
            f"{block_bytes}.zarr",
            pseudonymise=read_key(str(keyfile)),
            block_bytes=block_bytes,
        )[1]
        assert content(cube.uri) == {
            blake2b(user.encode(), key=KEY, digest_size=16).hexdigest(): cells
            for user, cells in plain.items()
        }
        assert cube.attributes["provenance"]["pseudonymised"] is True
    stored = b"".join(_files(Path(cube.uri)).values())
    assert KEY not in stored
    assert b"user0" not in stored


def test_another_key_gives_other_pseudonyms(source: str) -> None:
    one = build(source, "a.zarr", pseudonymise=KEY)[1].user_ids()
    two = build(source, "b.zarr", pseudonymise=KEY[::-1])[1].user_ids()
    assert not set(one) & set(two)


@pytest.mark.parametrize("size", [0, 15, 65])
def test_a_key_of_another_size_is_refused(size: int, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"x" * size)
    path.chmod(0o600)
    with pytest.raises(InputError) as caught:
        read_key(str(path))
    assert str(caught.value) == f"{path}: a key has 16 to 64 bytes, this one has {size}"


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(KEY)
    path.chmod(0o640)
    with pytest.raises(InputError, match="others can use this key file: chmod 600"):
        read_key(str(path))


def test_a_key_that_repeats_few_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(b"abcdefg" * 4)
    path.chmod(0o600)
    with pytest.raises(InputError, match="repeats few bytes"):
        read_key(str(path))


def test_a_missing_key_file_is_made_as_the_error_says(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="there is no such key file") as caught:
        read_key(str(tmp_path / "key"))
    subprocess.run(
        str(caught.value).partition("only you can read: ")[2], shell=True, check=True
    )  # a command of our own
    assert len(read_key(str(tmp_path / "key"))) == 32


def test_provenance_says_where_the_records_came_from_but_no_folder(source: str) -> None:
    report, cube = build(source, min_events=3)
    provenance = cube.attributes["provenance"]
    assert provenance == {
        "source": "records.csv",
        "reader": Events().model_dump(),
        "regions": GRID.describe(),
        "pseudonymised": False,
        "top_users": None,
        "min_events": 3,
        **report.counts(),
    }
    assert str(Path(source).parent) not in json.dumps(cube.attributes)


def test_the_report_reads_as_a_table() -> None:
    report = IngestReport(1200, 1, 900, 3, {"unparsable": 300, "out_of_range": 0}, 0.25)
    assert str(report) == (
        "rows read              1,200\n"
        "dropped: unparsable      300\n"
        "dropped: out of range      0\n"
        "events kept              900\n"
        "users                      3\n"
        "seconds                  0.2"
    )


def test_an_old_cube_is_kept_unless_forced(source: str) -> None:
    before = build(source)[1].fingerprint
    with pytest.raises(ExistsError):
        build(source)
    with pytest.raises(ClusterscaleError):
        build(source, min_events=10_000, force=True)
    assert build_again(source) == before
    assert build(source, force=True, top_users=3)[1].n_users == 3


def build_again(source: str) -> str:
    return TraceCube(str(Path(source).with_name("cube.zarr"))).fingerprint


def test_an_interrupted_ingest_leaves_nothing(source: str) -> None:
    def interrupt(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(source, on_progress=interrupt)
    assert [path.name for path in Path(source).parent.iterdir()] == ["records.csv"]


_VICTIM = """
import sys, threading
from ingest.oracle import ingest_records

def stall(stage, done, total):
    if stage == sys.argv[3]:
        print("stalled", flush=True)
        threading.Event().wait()

ingest_records(sys.argv[1], sys.argv[2], force=True,
       on_progress=stall, block_bytes=600)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("stage", "there"), [("read", False), ("write", True)])
def test_a_killed_ingest_leaves_no_cube_that_opens_and_loses_no_old_one(
    stage: str, there: bool, source: str, tmp_path: Path
) -> None:
    uri = str(tmp_path / "cube.zarr")
    old = build(source, top_users=5)[1].fingerprint if there else None
    with subprocess.Popen(
        [sys.executable, "-c", _VICTIM, source, uri, stage],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    ) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"stalled\n"
        victim.kill()
    left = [str(path) for path in tmp_path.glob("*.zarr*")]
    assert len(left) > 1
    for place in left:
        if place != uri:
            with pytest.raises(ClusterscaleError):
                TraceCube(place)
    if old is None:
        with pytest.raises(MissingError):
            TraceCube(uri)
    else:
        assert TraceCube(uri).fingerprint == old
    assert build(source, force=True)[1].n_users == 60
