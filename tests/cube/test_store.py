"""The event store gives back what was written, whatever the blocks, the chunks and the question."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import zarr
from cube import crowd
from hypothesis import example, given
from hypothesis import strategies as st
from loops import for_each

from clusterscale.cube import Regions, TraceCube, arrays, new_cube
from clusterscale.errors import ExistsError, FormatError, InputError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def ask(data, dense):
    """Some users in any order, also repeated, and a range of epochs."""
    n_users, _, n_epochs = dense.shape
    users = data.draw(st.lists(st.integers(0, n_users - 1), max_size=8) if n_users else st.just([]))
    first = data.draw(st.integers(0, n_epochs - 1))
    return np.array(users, np.int64), (first, data.draw(st.integers(first + 1, n_epochs)))


@given(dense=crowd.cubes(), data=st.data())
@example(dense=np.zeros((0, 1, 1), np.bool_), data=None)
def test_round_trip(fresh, dense, data):
    cube = crowd.write(fresh(), dense)
    assert (cube.n_users, cube.n_rois, cube.n_epochs) == dense.shape
    assert cube.n_events == dense.sum()
    np.testing.assert_array_equal(crowd.densify(cube.traces()), dense)
    if data is None:
        return
    for _ in range(4):
        users, epochs = ask(data, dense)
        found = cube.traces(users, epochs)
        np.testing.assert_array_equal(crowd.densify(found), dense[users, :, slice(*epochs)])
        assert found.cells.dtype == np.int32


@given(dense=crowd.cubes(max_users=8), data=st.data())
def test_no_matter_how_chunks_and_runs_fall(fresh, dense, data):
    size = data.draw(st.integers(1, 7), label="chunk")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clusterscale.cube.writer.CHUNK", size)
        patch.setattr("clusterscale.cube.store.CHUNK", size)
        patch.setattr("clusterscale.cube.store._RUN", data.draw(st.integers(1, 3), label="run"))
        cube = crowd.write(fresh(), dense)
        np.testing.assert_array_equal(crowd.densify(cube.traces()), dense)
        users, epochs = ask(data, dense)
        found = crowd.densify(cube.traces(users, epochs))
    np.testing.assert_array_equal(found, dense[users, :, slice(*epochs)])


@given(dense=crowd.cubes(), data=st.data(), loaded=st.booleans())
def test_a_block_is_those_users_whether_all_offsets_were_read_or_not(fresh, dense, data, loaded):
    cube = crowd.write(fresh(), dense)
    if loaded:
        assert len(cube.offsets) == len(dense) + 1
    start = data.draw(st.integers(0, len(dense)))
    stop = data.draw(st.integers(start, len(dense)))
    first = data.draw(st.integers(0, cube.n_epochs - 1))
    last = data.draw(st.integers(first + 1, cube.n_epochs))
    found = cube.block(start, stop, (first, last))
    np.testing.assert_array_equal(crowd.densify(found), dense[start:stop, :, first:last])
    np.testing.assert_array_equal(crowd.densify(cube.block(start, stop)), dense[start:stop])
    assert loaded == ("offsets" in cube.__dict__)
    with pytest.raises(InputError, match=f"are not within 0 to {len(dense)}"):
        cube.block(start, len(dense) + 1)


@given(dense=crowd.cubes(), data=st.data())
def test_blocks_leave_no_mark(fresh, dense, data):
    cuts = data.draw(st.lists(st.integers(0, len(dense)), max_size=4))
    size = data.draw(st.integers(1, 7))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clusterscale.cube.writer.CHUNK", size)
        parts = crowd.write(fresh(), dense, cuts=cuts)
    whole = crowd.write(fresh(), dense)
    assert parts.fingerprint == whole.fingerprint
    np.testing.assert_array_equal(parts.traces().cells, whole.traces().cells)
    np.testing.assert_array_equal(parts.offsets, whole.offsets)


def test_the_fingerprint_tells_any_difference(fresh):
    dense = crowd.draw(4, 3, 5)
    where, when = crowd.regions(3), crowd.calendar(5)
    other_event, other_size, other_order = dense.copy(), dense.copy(), dense[[1, 0, 2, 3]]
    row = other_event[2].reshape(-1)
    row[:] = np.roll(row, 1)
    other_size[0, 0, 0] ^= True
    cubes = [
        crowd.write(fresh(), dense),
        crowd.write(fresh(), other_event),
        crowd.write(fresh(), other_size),
        crowd.write(fresh(), other_order),
        crowd.write(fresh(), dense.transpose(0, 2, 1)),
        crowd.write(fresh(), dense, users=["a", "b", "c", "d"]),
        crowd.write(fresh(), dense, users=["a", "b", "d", "c"]),
        crowd.write(fresh(), dense, where=replace(where, names=("a", "b", "c"))),
        crowd.write(fresh(), dense, where=replace(where, lat=where.lat + 1e-9)),
        crowd.write(fresh(), dense, where=replace(where, lon=where.lon + 1e-9)),
        crowd.write(fresh(), dense, when=replace(when, start=when.start + 1)),
        crowd.write(fresh(), dense, when=replace(when, step=when.step + 1)),
        crowd.write(fresh(), dense, when=replace(when, timezone="UTC")),
    ]
    assert len({cube.fingerprint for cube in cubes}) == len(cubes)
    assert crowd.write(fresh(), dense).fingerprint == cubes[0].fingerprint


@given(ids=st.lists(TEXT, max_size=6, unique=True))
@example(ids=["", "ann", "zoë", "Ω" * 100, "\U0001f6b2", "a\0b", "1"])
def test_user_ids_of_any_script(fresh, ids):
    cube = crowd.write(fresh(), np.ones((len(ids), 1, 1), np.bool_), users=ids)
    assert cube.user_ids().tolist() == ids
    assert cube.user_ids(1, 2).tolist() == ids[1:2]


def test_a_handle_travels_as_its_address(fresh):
    dense = crowd.draw(5, 2, 3)
    cube = crowd.write(fresh(), dense)
    assert cube.traces().n_users == 5  # what it read stays behind
    pickled = pickle.dumps(cube)
    assert len(pickled) < 300
    np.testing.assert_array_equal(crowd.densify(pickle.loads(pickled).traces()), dense)
    assert repr(cube).endswith(f"5 users, 2 ROIs, 3 epochs, {dense.sum()} events)")


def test_regions_and_times_come_back(fresh):
    where = Regions(("A", "é"), np.array([1.5, np.nan]), np.array([-2.5, np.nan]))
    cube = crowd.write(fresh(), crowd.draw(2, 2, 3), where=where)
    assert cube.regions.names == where.names
    np.testing.assert_array_equal(cube.regions.lat, where.lat)
    np.testing.assert_array_equal(cube.regions.lon, where.lon)
    assert cube.calendar == crowd.calendar(3)
    assert TraceCube(f"{cube.uri}/").fingerprint == cube.fingerprint
    assert TraceCube(f"file://{cube.uri}").fingerprint == cube.fingerprint


def test_more_cells_than_32_bits_count(fresh):
    n_rois, n_epochs = 3, 1 << 30
    last = n_rois * n_epochs - 1
    when, uri = crowd.calendar(n_epochs, step=1), fresh()
    with new_cube(uri, crowd.regions(n_rois), when, provenance={}) as writer:
        writer.append(["a", "b"], np.array([2, 1]), np.array([5, last, n_epochs + 7]))
    cube = TraceCube(uri)
    assert cube.cell_bytes == 8
    traces = cube.traces(np.array([1, 0]))
    assert traces.cells.dtype == np.int64
    assert [traces.trace(0).tolist(), traces.trace(1).tolist()] == [[n_epochs + 7], [5, last]]
    late = cube.traces(epochs=(n_epochs - 10, n_epochs))
    assert late.cells.tolist() == [2 * 10 + 9]
    assert cube.traces(np.empty(0, int)).cells.dtype == np.int64


def test_scattered_users_are_read_in_pieces(fresh, small_chunks, monkeypatch):
    """Not the whole cube at once, though no gap between the users is wider than a chunk."""
    dense = crowd.draw(60, 4, 5)
    cube = crowd.write(fresh(), dense)
    monkeypatch.setattr("clusterscale.cube.store._RUN", 2)
    sizes, read = [], arrays.read

    def look(array, start, stop, *, where):
        sizes.append(stop - start)
        return read(array, start, stop, where=where)

    assert cube.offsets[-1] > 20 * small_chunks
    monkeypatch.setattr(arrays, "read", look)
    users = np.arange(1, 60, 2)
    np.testing.assert_array_equal(crowd.densify(cube.traces(users)), dense[users])
    assert max(sizes) <= 2 * small_chunks + np.diff(cube.offsets).max()
    sizes.clear()
    cube.traces(np.array([3, 50]))  # far from each other: nothing between is read
    assert sum(sizes) == np.diff(cube.offsets)[[3, 50]].sum()


@for_each("n_users", [1, 2, 3, 7, 100])
def test_blocks_of_users_are_all_users(fresh, n_users):
    dense = crowd.draw(7, 2, 3)
    found = list(crowd.write(fresh(), dense).blocks(n_users))
    assert [start for start, _ in found] == list(range(0, 7, n_users))
    np.testing.assert_array_equal(np.concatenate([crowd.densify(t) for _, t in found]), dense)


@for_each(
    ("ask", "message"),
    [
        (lambda c: c.traces(np.array([0, 3])), "user 3 is not in a cube of 3 users"),
        (lambda c: c.traces(np.array([-1])), "user -1 is not in a cube of 3 users"),
        (lambda c: c.traces(np.array([True, False, True])), "users are bool, not indices"),
        (lambda c: c.traces(epochs=(2, 2)), "epochs 2 to 2 are not within 0 to 4"),
        (lambda c: c.traces(np.array([], int), (0, 9)), "epochs 0 to 9 are not within 0 to 4"),
        (lambda c: list(c.blocks(0)), "n_users is 0: a block has at least 1 user"),
    ],
)
def test_questions_without_an_answer(fresh, ask, message):
    with pytest.raises(InputError) as caught:
        ask(crowd.write(fresh(), crowd.draw(3, 2, 4)))
    assert str(caught.value) == message


def test_what_is_there_is_kept(fresh):
    cube = crowd.write(fresh(), crowd.draw(3, 2, 4))
    with pytest.raises(ExistsError) as caught:
        crowd.write(cube.uri, crowd.draw(3, 2, 4, seed=1))
    assert str(caught.value) == (
        f"{cube.uri} already exists: choose another address, or overwrite it with `force=True`"
    )
    assert TraceCube(cube.uri).fingerprint == cube.fingerprint
    again = crowd.write(cube.uri, crowd.draw(3, 2, 4, seed=1), force=True)
    assert again.fingerprint != cube.fingerprint


def test_a_folder_of_damaged_arrays_is_no_cube_and_gives_no_hint(tmp_path):
    group = zarr.open_group(str(tmp_path / "store"), mode="w")
    group.create_array("trace", shape=(2, 2, 2), dtype="bool")
    with pytest.raises(FormatError, match=r"is not a complete clusterscale cube.*trace"):
        TraceCube(str(tmp_path / "store"))
    (tmp_path / "store" / "trace" / "zarr.json").write_text("{")
    with pytest.raises(FormatError, match=r"is not a complete clusterscale cube$"):
        TraceCube(str(tmp_path / "store"))
