"""The lazy xarray view equals the dense array, however it is indexed."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st
from loops import mostly_slow

from clusterscale.cube import TraceCube
from clusterscale.cube.backend import CubeBackend
from clusterscale.errors import ClusterscaleError, DamagedError, MissingError

SHAPE = (7, 4, 6)
DENSE = crowd.draw(*SHAPE)
WITH_NULL = np.concatenate([DENSE, ~DENSE.any(axis=1, keepdims=True)], axis=1)


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    return crowd.write(tmp_path_factory.mktemp("view") / "cube.zarr", DENSE).uri


def show(uri, **options):
    return xr.open_dataset(uri, engine="clusterscale", **options)


@st.composite
def keys(draw, sizes):
    """One index a dimension: an integer, a slice of any step, or an array (also empty)."""
    found = {}
    for dim, size in sizes.items():
        position = st.integers(-size, size - 1)
        kind = draw(st.sampled_from(["all", "int", "slice", "array"]))
        if kind == "int":
            found[dim] = draw(position)
        if kind == "slice":
            # From further below the start, xarray itself (2026.9) takes a reversed slice wrongly.
            ends = st.none() | st.integers(-size, size + 2)
            step = draw(st.sampled_from([None, 1, 2, 3, -1, -2, -5]))
            found[dim] = slice(draw(ends), draw(ends), step)
        if kind == "array":
            found[dim] = np.array(draw(st.lists(position, max_size=6)), np.int64)
    return found


def orthogonal(dense, key):
    """Index one dimension after the other, the last first so that axes keep their number."""
    for axis, dim in reversed(list(enumerate(("user", "roi", "epoch")))):
        dense = dense[(slice(None),) * axis + (key.get(dim, slice(None)),)]
    return dense


@mostly_slow("null_roi", [False, True])
@mostly_slow("block", [1 << 20, 60])
def test_every_way_to_index(uri, null_roi, block, monkeypatch):
    monkeypatch.setattr("clusterscale.cube.backend._BLOCK_BYTES", block)
    whole = WITH_NULL if null_roi else DENSE
    trace = show(uri, null_roi=null_roi, cache=False).trace

    @given(key=keys(trace.sizes))
    def check(key):
        found = trace.isel(key)
        expected = orthogonal(whole, key)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.values, expected)

    check()


@given(first=keys({"user": 7, "roi": 4, "epoch": 6}), at=st.lists(st.integers(0, 6), max_size=5))
def test_indexed_again_and_pointwise(uri, first, at):
    trace = show(uri, cache=False).trace
    points = xr.DataArray(np.array(at, np.int64), dims="point")
    found = trace.isel(user=points, epoch=points.clip(max=5)).values
    np.testing.assert_array_equal(found, DENSE[points.values, :, points.values.clip(max=5)])
    twice = trace[::-1].isel(first).values
    np.testing.assert_array_equal(twice, orthogonal(DENSE[::-1], first))


def test_whole_and_by_label(uri):
    shown = show(uri)
    assert shown.trace.dims == ("user", "roi", "epoch")
    assert shown.trace.dtype == np.bool_
    np.testing.assert_array_equal(shown.trace.values, DENSE)
    np.testing.assert_array_equal(show(uri, null_roi=True).trace.values, WITH_NULL)
    np.testing.assert_array_equal(
        shown.trace.sel(user=["user 5", "user 1"], roi="station 2").values, DENSE[[5, 1], 2]
    )
    assert shown.user.values.tolist() == crowd.names(7)
    assert shown.trace.sel(epoch="2008-05-19T08:00").epoch.item() == (crowd.START + 3600) * 10**9
    with pytest.raises(KeyError):
        shown.trace.sel(user="nobody")


def test_coordinates_and_attributes(uri):
    shown, cube = show(uri, null_roi=True), TraceCube(uri)
    assert shown.roi.values.tolist() == [*cube.regions.names, "null"]
    np.testing.assert_array_equal(shown.roi_lat.values, [*cube.regions.lat, np.nan])
    np.testing.assert_array_equal(shown.roi_lon.values, [*cube.regions.lon, np.nan])
    times = shown.epoch.values.astype("datetime64[s]").astype(np.int64)
    np.testing.assert_array_equal(times, cube.calendar.seconds())
    assert shown.attrs == {
        "fingerprint": cube.fingerprint,
        "timezone": "America/Los_Angeles",
        "epoch_seconds": 3600,
    }


def test_variables_can_be_dropped(uri):
    assert not show(uri, drop_variables="trace").data_vars
    left = show(uri, drop_variables=["roi_lat", "roi_lon", "unheard of"])
    assert set(left.variables) == {"trace", "user", "roi", "epoch"}


def test_opening_reads_no_event(tmp_path):
    cube = crowd.write(tmp_path / "cube.zarr", DENSE)
    (tmp_path / "cube.zarr/event_cell/c/0").write_bytes(b"not what was written")
    shown = show(cube.uri)
    assert shown.trace.shape == SHAPE
    assert shown.trace[:, 0].isel(epoch=slice(0, 2)).shape == (7, 2)
    with pytest.raises(DamagedError, match="chunk 0 of event_cell is damaged"):
        shown.trace.load()


def test_a_user_costs_its_own_chunks(tmp_path, small_chunks):
    cube = crowd.write(tmp_path / "cube.zarr", DENSE)
    chunks = sorted((tmp_path / "cube.zarr/event_cell/c").iterdir(), key=lambda p: int(p.name))
    assert len(chunks) > 4
    first = cube.offsets[1] // small_chunks + 1
    for chunk in chunks[first:]:
        chunk.unlink()
    np.testing.assert_array_equal(show(cube.uri).trace[0].values, DENSE[0])
    with pytest.raises(DamagedError, match="is missing"):
        show(cube.uri).trace[6].load()


def test_no_users(tmp_path):
    cube = crowd.write(tmp_path / "cube.zarr", DENSE[:0])
    assert show(cube.uri).trace.values.shape == (0, 4, 6)
    assert show(cube.uri, null_roi=True).trace.sum() == 0


def test_the_engine_is_found(uri, tmp_path):
    with xr.open_dataset(uri) as found:  # no engine named
        assert found.trace.shape == SHAPE
    backend = CubeBackend()
    assert backend.guess_can_open(uri)
    assert backend.guess_can_open(Path(uri))
    for other in (tmp_path, tmp_path / "none", "s3://bucket/cube", 7, None, b"\0"):
        assert not backend.guess_can_open(other)
    (tmp_path / "zarr.json").write_bytes(b'{"zarr_format": 3}\xff')
    assert not backend.guess_can_open(tmp_path)


def test_wrong_stores(tmp_path):
    with pytest.raises(MissingError):
        show(tmp_path / "none")
    with pytest.raises(ClusterscaleError):
        show(tmp_path)


@pytest.mark.dask
@pytest.mark.parametrize("null_roi", [False, True])
def test_in_blocks_with_dask(uri, null_roi, monkeypatch):
    dask = pytest.importorskip("dask")
    monkeypatch.setattr("clusterscale.cube.backend._BLOCK_BYTES", 60)
    whole = WITH_NULL if null_roi else DENSE
    trace = show(uri, chunks={}, null_roi=null_roi).trace
    assert trace.chunks[0] == (2, 2, 2, 1)
    assert len(trace.chunks[1]) == len(trace.chunks[2]) == 1

    @given(key=keys(trace.sizes))
    def check(key):
        with dask.config.set(scheduler="synchronous"):
            np.testing.assert_array_equal(trace.isel(key).values, orthogonal(whole, key))

    check()
    with dask.config.set(scheduler="threads"):
        np.testing.assert_array_equal(trace.sum("user").values, whole.sum(axis=0))


@pytest.mark.dask
def test_the_lazy_array_travels(uri):
    pytest.importorskip("dask")
    shown = pickle.loads(pickle.dumps(show(uri, chunks={"user": 7})))
    np.testing.assert_array_equal(shown.trace.values, DENSE)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(show(uri))).trace.values, DENSE)
