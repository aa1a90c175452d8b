"""A cube on object storage: the same content, whole or not at all."""

from __future__ import annotations

import json
import pickle

import fsspec
import numpy as np
import pytest
import xarray as xr
from cube import crowd
from object_store import serve

from clusterscale.cube import TraceCube
from clusterscale.cube.dense import pack
from clusterscale.cube.describe import summarise
from clusterscale.errors import (
    DamagedError,
    ExistsError,
    FormatError,
    InputError,
    MissingError,
    StoreError,
)
from clusterscale.storage import exists, remove, size

pytestmark = pytest.mark.slow  # each writes to an object store

OLD, NEW = crowd.draw(5, 3, 6), crowd.draw(8, 3, 6, seed=1)


@pytest.fixture(scope="module")
def server():
    """A bucket on a server of this process."""
    with serve() as store:
        yield store


@pytest.fixture
def uri(server, request) -> str:
    return f"{server.uri}/{request.node.name.replace('[', '-').strip(']')}/cube.zarr"


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
    with pytest.raises(ExistsError, match="is not a Zarr store"):
        crowd.write(uri, NEW, force=True)
    assert filesystem.cat_file(f"{path}/thesis.tex") == b"chapter one"


def test_an_error_in_the_block(uri):
    with pytest.raises(ZeroDivisionError):
        crowd.write(uri, NEW, then=lambda: 1 / 0)
    assert keys(uri) == []


def is_copied(method, path):
    return method == "PUT" and "/cube.zarr/" in path


def test_a_copy_that_fails(server, uri, quick):
    """Nothing opens, the new store is whole in its staging place, and another try succeeds."""
    crowd.write(uri, OLD)
    copied = []

    def fault(method, path):
        if is_copied(method, path):
            copied.append(path)
        return "500 InternalError" if is_copied(method, path) and len(copied) > 3 else None

    server.fault = fault
    with pytest.raises(StoreError, match=r"tried 5 times; .*InternalError") as caught:
        crowd.write(uri, NEW, force=True)
    server.fault = lambda method, path: None
    (note,) = caught.value.__notes__
    staging = note.rpartition(" ")[2]
    assert note == f"{uri} was not written completely; the new store is complete in {staging}"
    np.testing.assert_array_equal(crowd.densify(TraceCube(staging).traces()), NEW)
    with pytest.raises(FormatError) as told:
        TraceCube(uri)
    assert str(told.value) == f"{uri} is not a complete clusterscale cube"
    again = crowd.write(uri, OLD, force=True)
    np.testing.assert_array_equal(crowd.densify(again.traces()), OLD)


def test_a_reader_in_the_middle_of_force_sees_no_cube(server, uri):
    """While chunks are copied the root is bare; the true one comes last of all."""
    old = crowd.write(uri, OLD)
    with pytest.raises(ExistsError):
        crowd.write(uri, NEW)
    assert TraceCube(uri).fingerprint == old.fingerprint
    roots, reader = [], fsspec.filesystem("s3", skip_instance_cache=True)

    def look(method, path):
        if is_copied(method, path):
            roots.append(json.loads(reader.cat_file(f"{uri}/zarr.json"))["attributes"])

    server.fault = look
    new = crowd.write(uri, NEW, force=True)
    server.fault = lambda method, path: None
    np.testing.assert_array_equal(crowd.densify(new.traces()), NEW)
    assert all("/cube.zarr/" in key for key in keys(uri))
    assert roots.pop(0)["fingerprint"] == old.fingerprint  # before the bare one is put there
    assert len(roots) == len(keys(uri))
    assert not any(roots)


def test_damage_is_named(uri, small_chunks):
    cube = crowd.write(uri, NEW)
    filesystem, path = fsspec.core.url_to_fs(uri)
    filesystem.rm_file(f"{path}/event_cell/c/2")
    with pytest.raises(DamagedError) as caught:
        cube.traces()
    assert str(caught.value) == f"{uri}: chunk 2 of event_cell is missing"


@pytest.mark.slow
def test_a_dense_cube_is_packed(uri):
    source = uri.replace("cube.zarr", "dense.zarr")
    trace = xr.DataArray(OLD.transpose(2, 0, 1), dims=("epoch", "user", "roi"), name="trace")
    trace.to_zarr(source, zarr_format=3, consolidated=False)
    np.testing.assert_array_equal(crowd.densify(pack(source, uri).traces()), OLD)
    with pytest.raises(InputError, match="which is read: name another output"):
        pack(source, f"{source}/", force=True)
