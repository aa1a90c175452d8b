"""A cube on object storage: the same content, whole or not at all."""

from __future__ import annotations

import gc
import json
import pickle
import warnings
from collections.abc import Iterator

import fsspec
import numpy as np
import pytest
import xarray as xr
from cube import crowd

from clusterscale.cube import TraceCube
from clusterscale.cube.dense import pack
from clusterscale.cube.storage import exists, remove, size
from clusterscale.cube.summary import summarise
from clusterscale.errors import DamagedError, ExistsError, FormatError, InputError, MissingError

pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")

OLD, NEW = crowd.draw(5, 3, 6), crowd.draw(8, 3, 6, seed=1)


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket on a server of this process."""
    with pytest.MonkeyPatch.context() as patch:
        running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        running.start()
        host, port = running.get_host_and_port()
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fsspec.filesystem("s3").mkdir("audits")
        yield "s3://audits"
        running.stop()
        fsspec.filesystem("s3").clear_instance_cache()
        with warnings.catch_warnings():
            # The session of the file system that Zarr made for itself is closed by nobody.
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()


@pytest.fixture
def uri(bucket, request) -> str:
    return f"{bucket}/{request.node.name.replace('[', '-').strip(']')}/cube.zarr"


def keys(uri: str) -> list[str]:
    filesystem, path = fsspec.core.url_to_fs(uri)
    filesystem.invalidate_cache()
    return sorted(filesystem.find(path.rpartition("/")[0]))


def test_written_and_read(uri, tmp_path):
    assert not exists(uri)
    with pytest.raises(MissingError) as caught:
        TraceCube(uri)
    assert str(caught.value) == f"{uri}: nothing is stored there"
    cube = crowd.write(uri, OLD)
    np.testing.assert_array_equal(crowd.densify(cube.traces()), OLD)
    users = np.array([4, 0, 4])
    np.testing.assert_array_equal(crowd.densify(cube.traces(users, (2, 5))), OLD[users, :, 2:5])
    local = crowd.write(tmp_path / "cube", OLD)
    assert cube.fingerprint == local.fingerprint
    assert pickle.loads(pickle.dumps(cube)).n_events == OLD.sum()
    assert summarise(cube).stored_bytes == size(uri)
    assert all("/cube.zarr/" in key for key in keys(uri))  # nothing is left beside
    shown = xr.open_dataset(uri, engine="clusterscale")
    np.testing.assert_array_equal(shown.trace[::-2, 1].values, OLD[::-2, 1])
    remove(uri)
    assert not exists(uri)
    remove(uri)


def test_force_does_not_empty_a_prefix_of_other_things(uri):
    filesystem, path = fsspec.core.url_to_fs(uri)
    filesystem.pipe_file(f"{path}/thesis.tex", b"chapter one")
    with pytest.raises(ExistsError, match="is no Zarr store"):
        crowd.write(uri, NEW, force=True)
    assert filesystem.cat_file(f"{path}/thesis.tex") == b"chapter one"


def test_an_error_in_the_block(uri):
    with pytest.raises(ZeroDivisionError):
        crowd.write(uri, NEW, then=lambda: 1 / 0)
    assert keys(uri) == []


def intrude(monkeypatch, uri, before_each):
    """Call ``before_each(filesystem, target)`` before each object is copied into place."""
    filesystem, _ = fsspec.core.url_to_fs(uri)
    original = type(filesystem)._cp_file

    async def copy(self, path1, path2, **options):
        await before_each(self, path2)
        await original(self, path1, path2, **options)

    monkeypatch.setattr(type(filesystem), "_cp_file", copy)


def test_a_copy_that_fails(uri, monkeypatch):
    """Nothing opens, the new store is whole in its staging place, and another try succeeds."""
    crowd.write(uri, OLD)
    copied = []

    async def fail_once(filesystem, target):
        if len(copied) == 3:
            raise OSError("the network is down")
        copied.append(target)

    with monkeypatch.context() as patch:
        intrude(patch, uri, fail_once)
        with pytest.raises(OSError, match="the network is down") as caught:
            crowd.write(uri, NEW, force=True)
    (note,) = caught.value.__notes__
    staging = note.rpartition(" ")[2]
    assert note == f"{uri} could not be written in full; the new store is whole in {staging}"
    np.testing.assert_array_equal(crowd.densify(TraceCube(staging).traces()), NEW)
    with pytest.raises(FormatError) as told:
        TraceCube(uri)
    assert str(told.value) == f"{uri} is not a complete clusterscale cube"
    again = crowd.write(uri, OLD, force=True)
    np.testing.assert_array_equal(crowd.densify(again.traces()), OLD)


def test_a_reader_in_the_middle_of_force_sees_no_cube(uri, monkeypatch):
    """While chunks are copied the root is bare; the true one comes last of all."""
    old = crowd.write(uri, OLD)
    with pytest.raises(ExistsError):
        crowd.write(uri, NEW)
    assert TraceCube(uri).fingerprint == old.fingerprint
    roots = []

    async def look(filesystem, target):
        raw = await filesystem._cat_file(f"{uri}/zarr.json")
        roots.append(json.loads(raw)["attributes"])

    intrude(monkeypatch, uri, look)
    new = crowd.write(uri, NEW, force=True)
    np.testing.assert_array_equal(crowd.densify(new.traces()), NEW)
    assert all("/cube.zarr/" in key for key in keys(uri))
    assert len(roots) == len(keys(uri))
    assert not any(roots)


def test_damage_is_named(uri, small_chunks):
    cube = crowd.write(uri, NEW)
    filesystem, path = fsspec.core.url_to_fs(uri)
    filesystem.rm_file(f"{path}/event_cell/c/2")
    with pytest.raises(DamagedError) as caught:
        cube.traces()
    assert str(caught.value) == f"{uri}: chunk 2 of event_cell is missing"


def test_a_dense_cube_is_packed(uri):
    source = uri.replace("cube.zarr", "dense.zarr")
    trace = xr.DataArray(OLD.transpose(2, 0, 1), dims=("epoch", "user", "roi"), name="trace")
    trace.to_zarr(source, zarr_format=3, consolidated=False)
    np.testing.assert_array_equal(crowd.densify(pack(source, uri).traces()), OLD)
    with pytest.raises(InputError, match="cannot be packed onto itself"):
        pack(source, f"{source}/", force=True)
