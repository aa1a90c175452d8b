"""A store appears whole or not at all, and what was there is never lost."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zarr
from cube import crowd

from clusterscale import storage
from clusterscale.cube import TraceCube, new_cube
from clusterscale.errors import ClusterscaleError, ExistsError, MissingError
from clusterscale.storage.atomic import staged
from clusterscale.storage.chunk_store import ChunkStore

OLD, NEW = crowd.draw(4, 2, 5), crowd.draw(6, 2, 5, seed=1)

_VICTIM = """
import os, signal, sys
from pathlib import Path
import zarr
from cube import crowd
from clusterscale.cube import new_cube
from clusterscale.cube import writer as module

def die(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)

def rename(path, target, original=Path.rename):
    die() if str(target) == uri else original(path, target)

uri, point = sys.argv[1:]
module.CHUNK = 4
if point == "attributes":
    zarr.core.attributes.Attributes.put = die
if point == "rename":
    Path.rename = rename
dense = crowd.draw(6, 2, 5, seed=1)
with new_cube(uri, crowd.regions(2), crowd.calendar(5), provenance={}, force=True) as writer:
    writer.append(crowd.names(6), *crowd.events(dense))
    if point == "block":
        die()
"""


def interrupt():
    raise KeyboardInterrupt


def test_a_store_that_was_interrupted_in_its_place_can_be_written_again():
    """In the same process: where a rename would copy, it has no other address."""
    uri = "memory://again/store.zarr"

    def write(end):
        with staged(uri, force=True, sealed=True) as staging:
            assert staging == uri
            zarr.create_group(storage.open_store(staging, "r+"))
            end()

    with pytest.raises(KeyboardInterrupt):
        write(interrupt)
    assert not storage.exists(uri)
    write(int)
    assert storage.exists(f"{uri}/zarr.json")


@pytest.mark.parametrize("remote", [False, True])
def test_ctrl_c_while_chunks_are_written_leaves_nothing(remote, tmp_path, monkeypatch):
    """Zarr goes on writing in another thread, and would bring the folder back."""
    uri = "memory://interrupted/store.zarr" if remote else f"{tmp_path}/store.zarr"
    begun, original = threading.Event(), ChunkStore._set

    async def slow(*given, **named):
        begun.set()
        await asyncio.sleep(0.02)
        await original(*given, **named)

    def interrupt():
        begun.wait()
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def write():
        with staged(uri, force=False) as staging:
            group = storage.create_group(staging)
            array = group.create_array("values", shape=(3000,), chunks=(1,), dtype="i4")
            monkeypatch.setattr(ChunkStore, "_set", slow)
            threading.Thread(target=interrupt).start()
            array[:] = np.arange(3000)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # imports may replace it
    try:
        with pytest.raises(KeyboardInterrupt):
            write()
    finally:
        signal.signal(signal.SIGINT, before)
    time.sleep(0.1)
    assert storage.list_names(uri.rpartition("/")[0]) == []


def kill(uri: Path, point: str) -> None:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run(
        [sys.executable, "-c", _VICTIM, uri, point],
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def fail(error: type[BaseException]) -> None:
    raise error


def beside(uri: Path) -> list[Path]:
    return sorted(path for path in uri.parent.iterdir() if path != uri)


@pytest.mark.parametrize(("point", "is_old_there"), [("block", False), ("attributes", True)])
def test_a_killed_writer_leaves_the_old_store_or_nothing(tmp_path, point, is_old_there):
    uri = tmp_path / "cube.zarr"
    old = crowd.write(uri, OLD).fingerprint if is_old_there else None
    kill(uri, point)
    (left,) = beside(uri)
    assert left.name.startswith("cube.zarr.partial-")
    with pytest.raises(ClusterscaleError):
        TraceCube(left)
    if is_old_there:
        assert TraceCube(uri).fingerprint == old
    else:
        with pytest.raises(MissingError) as caught:
            TraceCube(uri)
        assert str(caught.value) == f"{uri}: nothing is stored there"
    assert crowd.write(uri, NEW, force=True).n_users == len(NEW)  # the next is not disturbed


@pytest.mark.slow
def test_a_writer_killed_between_the_two_renames_keeps_both(tmp_path):
    uri = tmp_path / "cube.zarr"
    old = crowd.write(uri, OLD).fingerprint
    kill(uri, "rename")
    (new, aside) = beside(uri)
    with pytest.raises(MissingError) as caught:
        TraceCube(uri)
    assert str(caught.value) == (
        f"{uri}: nothing is stored there; "
        f"the store that was being replaced is complete in {aside}: rename it back"
    )
    assert TraceCube(new).n_users == len(NEW)
    aside.rename(uri)
    assert TraceCube(uri).fingerprint == old


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("is_old_there", [False, True])
def test_an_error_in_the_block_leaves_no_trace(tmp_path, error, is_old_there):
    uri = tmp_path / "deep/er/cube.zarr"
    old = crowd.write(uri, OLD).fingerprint if is_old_there else None
    with pytest.raises(error):
        crowd.write(uri, NEW, force=True, then=lambda: fail(error))
    assert beside(uri) == []
    assert (TraceCube(uri).fingerprint if old else None) == old
    assert uri.exists() == is_old_there


def test_what_cannot_be_sealed_is_not_published(tmp_path):
    old = crowd.write(tmp_path / "cube", OLD)
    unspeakable = {"key": object()}
    where, when = crowd.regions(2), crowd.calendar(5)
    with (
        pytest.raises(TypeError),
        new_cube(old.uri, where, when, provenance=unspeakable, force=True) as writer,
    ):
        writer.append(crowd.names(6), *crowd.events(NEW))
    assert TraceCube(old.uri).fingerprint == old.fingerprint
    assert beside(tmp_path / "cube") == []


def test_a_failed_rename_puts_the_old_back(tmp_path, monkeypatch):
    uri = tmp_path / "cube.zarr"
    old = crowd.write(uri, OLD).fingerprint
    rename = Path.rename

    def refuse(path, target):
        if path.suffix != ".old" and str(target) == str(uri):
            raise OSError("disk full")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="disk full"):
        crowd.write(uri, NEW, force=True)
    monkeypatch.undo()
    assert TraceCube(uri).fingerprint == old
    assert beside(uri) == []


def test_the_slower_of_two_writers_gives_way(tmp_path):
    uri = tmp_path / "cube.zarr"
    with pytest.raises(ExistsError):
        crowd.write(uri, NEW, then=lambda: crowd.write(uri, OLD))
    np.testing.assert_array_equal(crowd.densify(TraceCube(uri).traces()), OLD)
    assert beside(uri) == []


def test_force_replaces_stores_and_nothing_else(tmp_path):
    """A mistyped address must not cost a folder of other things, nor the records themselves."""
    uri = tmp_path / "here"
    for make in (
        lambda: uri.write_text("ann,2008-05-19,1,2"),
        lambda: (uri.unlink(), uri.mkdir(), (uri / "thesis.tex").write_text("")),
    ):
        make()
        with pytest.raises(ExistsError) as caught:
            crowd.write(uri, NEW, force=True)
        assert str(caught.value) == (
            f"{uri} is not a Zarr store, so it is not overwritten even with `force=True`: "
            "choose another address, or remove it yourself"
        )
    (uri / "thesis.tex").unlink()
    assert crowd.write(uri, NEW, force=True).n_users == len(NEW)  # an empty folder is nothing
    assert beside(uri) == []


def test_a_link_stays_a_link(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    uri = tmp_path / "cube"
    uri.symlink_to(disk / "cube")
    for dense in (OLD, NEW):
        assert crowd.write(uri, dense, force=True).n_users == len(dense)
        assert uri.is_symlink()
        assert [path.name for path in disk.iterdir()] == ["cube"]


def test_file_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with staged(f"file://{tmp_path}/a/b", force=False) as staging:
        Path(staging).mkdir()
    assert (tmp_path / "a/b").is_dir()
    with staged("c/", force=False) as staging:
        Path(staging).mkdir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]
