"""Merged places and hours, against sets of cells."""

import numpy as np
import pytest
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from mechanisms.published import BOUNDS, publish

from clusterscale import mechanisms
from clusterscale.contracts import NO_NOISE, CellCoordinates, Stability, Traces
from clusterscale.cube import Grid
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.coarsening import find_grid


def space(**params):
    return mechanisms.create("coarsen_space", **params)


def time(**params):
    return mechanisms.create("coarsen_time", **params)


def frame(n_rois, n_epochs, *, per_day=2):
    """ROIs scattered so that no two share a latitude or longitude."""
    lat = 50.0 + (np.arange(n_rois) * 7 % 11) / 100
    return CellCoordinates(7 + np.arange(n_epochs) // per_day, lat, -1.0 - np.arange(n_rois) / 100)


def grid(rows, columns, n_epochs=3):
    lat, lon = np.meshgrid(50.0 + np.arange(rows), 1.0 + np.arange(columns), indexing="ij")
    return CellCoordinates(np.zeros(n_epochs, np.int64), lat.ravel(), lon.ravel())


def apply(step, traces, where):
    return step.apply(traces, where, rng=np.random.default_rng(0))


def cells(traces, user):
    """A user's cells as (roi, epoch), after a look at how they are stored."""
    assert traces.offsets.dtype == np.int64
    assert (traces.offsets[0], traces.offsets[-1]) == (0, len(traces.cells))
    found = traces.trace(user)
    assert (np.diff(found) > 0).all()
    assert ((found >= 0) & (found < traces.n_cells)).all()
    return {divmod(int(cell), traces.n_epochs) for cell in found}


def check_union(before, after, block_of_roi, block_of_epoch):
    assert after.n_users == before.n_users
    assert after.n_rois == max(block_of_roi) + 1
    assert after.n_epochs == max(block_of_epoch) + 1
    assert after.cells.dtype == np.int32
    assert not after.null_roi
    for user in range(before.n_users):
        expected = {
            (block_of_roi[roi], block_of_epoch[epoch]) for roi, epoch in cells(before, user)
        }
        assert cells(after, user) == expected


def numbered(labels):
    """Blocks counted in the order in which they appear."""
    known = list(dict.fromkeys(labels))
    return [known.index(label) for label in labels]


def groupings(n):
    """Disjoint groups of some of ``n``, one of them of two or more."""
    return st.permutations(range(n)).flatmap(
        lambda order: st.integers(2, n).flatmap(
            lambda first: st.integers(first, n).map(
                lambda second: [
                    group for group in (list(order[:first]), list(order[first:second])) if group
                ]
            )
        )
    )


def labels_of(n, groups):
    return numbered([next((min(g) for g in groups if i in g), i) for i in range(n)])


@given(dense=crowd.cubes(), factor=st.integers(2, 7), dtype=st.sampled_from([np.int32, np.int64]))
def test_epochs_are_merged_by_a_factor(dense, factor, dtype):
    """Also one that does not divide: the last block has fewer."""
    _, n_rois, n_epochs = dense.shape
    before, where = crowd.traces(dense, dtype), frame(n_rois, n_epochs)
    after, coarse = apply(time(factor=factor), before, where)
    blocks = [epoch // factor for epoch in range(n_epochs)]
    check_union(before, after, list(range(n_rois)), blocks)
    assert coarse.days.tolist() == where.days[::factor].tolist()
    assert coarse.lat is where.lat


@given(dense=crowd.cubes().filter(lambda dense: dense.shape[2] > 1), data=st.data())
def test_epochs_are_merged_by_a_list(dense, data):
    _, n_rois, n_epochs = dense.shape
    groups = data.draw(groupings(n_epochs))
    before, where = crowd.traces(dense), frame(n_rois, n_epochs)
    after, coarse = apply(time(groups=groups), before, where)
    blocks = labels_of(n_epochs, groups)
    check_union(before, after, list(range(n_rois)), blocks)
    first = [blocks.index(block) for block in range(max(blocks) + 1)]
    assert coarse.days.tolist() == where.days[first].tolist()
    assert (np.diff(coarse.days) >= 0).all()


@given(dense=crowd.cubes().filter(lambda dense: dense.shape[1] > 1), data=st.data())
def test_places_are_merged_by_a_list(dense, data):
    _, n_rois, n_epochs = dense.shape
    groups = data.draw(groupings(n_rois))
    before, where = crowd.traces(dense), frame(n_rois, n_epochs)
    after, coarse = apply(space(groups=groups), before, where)
    blocks = labels_of(n_rois, groups)
    check_union(before, after, blocks, list(range(n_epochs)))
    for block in range(max(blocks) + 1):
        inside = [roi for roi in range(n_rois) if blocks[roi] == block]
        assert coarse.lat[block] == pytest.approx(np.mean(where.lat[inside]))
        assert coarse.lon[block] == pytest.approx(np.mean(where.lon[inside]))
    assert coarse.days is where.days


@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    factor=st.integers(2, 4),
    seed=st.integers(0, 9),
)
def test_places_on_a_grid_are_merged_by_squares(rows, columns, factor, seed):
    where = grid(rows, columns)
    before = crowd.traces(crowd.draw(4, rows * columns, 3, seed=seed))
    after, coarse = apply(space(factor=factor), before, where)
    squares = [(roi // columns // factor, roi % columns // factor) for roi in range(rows * columns)]
    check_union(before, after, numbered(squares), [0, 1, 2])
    assert find_grid(coarse) == (-(-rows // factor), -(-columns // factor))


def test_a_grid_of_a_cube_is_one():
    """As regions lay it out, from south to north."""
    regions = Grid.parse("50,0,51,1/4x6").regions
    where = CellCoordinates(np.zeros(1, np.int64), regions.lat, regions.lon)
    assert find_grid(where) == (4, 6)
    _, coarse = apply(space(factor=3), crowd.traces(crowd.draw(1, 24, 1)), where)
    assert find_grid(coarse) == (2, 2)


@pytest.mark.parametrize("step", ["space", "time"])
def test_two_steps_are_one(step):
    dense = crowd.draw(5, 16, 13, share=0.05)
    before = crowd.traces(dense), grid(4, 4, 13)
    make = {"space": space, "time": time}[step]
    once = apply(make(factor=4), *before)
    twice = apply(make(factor=2), *apply(make(factor=2), *before))
    for field in ("offsets", "cells", "n_rois", "n_epochs"):
        np.testing.assert_array_equal(getattr(once[0], field), getattr(twice[0], field))
    np.testing.assert_array_equal(once[1].days, twice[1].days)
    np.testing.assert_allclose(once[1].lat, twice[1].lat)


@for_each("seed", range(5))
def test_places_off_a_grid_are_merged_with_their_neighbours(seed):
    """Four towns in four corners, three antennas each, in any order."""
    rng = np.random.default_rng(seed)
    town = rng.permutation(np.repeat(np.arange(4), 3))
    lat = 50.0 + (town // 2) + rng.uniform(0, 0.1, 12)
    lon = 1.0 + (town % 2) + rng.uniform(0, 0.1, 12)
    where = CellCoordinates(np.zeros(2, np.int64), lat, lon)
    assert find_grid(where) is None
    before = crowd.traces(crowd.draw(6, 12, 2, share=0.2, seed=seed))
    after, coarse = apply(space(factor=3), before, where)
    check_union(before, after, numbered(town.tolist()), [0, 1])
    assert np.ptp(coarse.lat) > 0.5


@pytest.mark.parametrize(("n_rois", "factor"), [(12, 5), (7, 2), (3, 9), (1, 2)])
def test_blocks_off_a_grid_are_as_large_as_asked(n_rois, factor):
    rng = np.random.default_rng(0)
    where = CellCoordinates(
        np.zeros(1, np.int64), rng.uniform(50, 51, n_rois), rng.uniform(1, 2, n_rois)
    )
    dense = np.ones((1, n_rois, 1), np.bool_)
    after, _ = apply(space(factor=factor), crowd.traces(dense), where)
    assert after.n_rois == -(-n_rois // factor)
    numbers = np.arange(after.n_rois, dtype=float)[:, None]
    sizes = np.bincount(space(factor=factor).expand(numbers, where)[:, 0].astype(int))
    assert sorted(sizes)[1:] == [factor] * (len(sizes) - 1)
    assert sizes.sum() == n_rois


@for_each("batch", [(), (3,), (2, 2)])
@for_each("null_roi", [False, True])
def test_every_cell_takes_the_value_of_its_block(batch, null_roi):
    where = grid(3, 5, 7)
    steps = {
        "square": (space(factor=2), numbered([(roi // 10, roi % 5 // 2) for roi in range(15)])),
        "listed": (
            space(groups=[[14, 3], [1, 2]]),
            labels_of(15, [[14, 3], [1, 2]]),
        ),
    }
    for step, blocks in steps.values():
        n_blocks = max(blocks) + 1
        values = np.random.default_rng(0).random((*batch, n_blocks + null_roi, 7))
        found = step.expand(values, where)
        assert found.shape == (*batch, 15 + null_roi, 7)
        for roi, block in enumerate(blocks):
            np.testing.assert_array_equal(found[..., roi, :], values[..., block, :])
        if null_roi:
            np.testing.assert_array_equal(found[..., -1, :], values[..., -1, :])
    for step, blocks in (
        (time(factor=3), [0, 0, 0, 1, 1, 1, 2]),
        (time(groups=[[0, 6], [2, 1]]), [0, 1, 1, 2, 3, 4, 0]),
    ):
        values = np.random.default_rng(0).random((*batch, 15 + null_roi, max(blocks) + 1))
        found = step.expand(values, where)
        np.testing.assert_array_equal(found, values[..., blocks])


def test_expanded_counts_are_at_least_those_of_before():
    """A merged cell holds everyone who was in a part of it."""
    dense = crowd.draw(8, 6, 9, share=0.2)
    where = grid(2, 3, 9)
    for step in (space(factor=2), time(factor=4)):
        after, _ = apply(step, crowd.traces(dense), where)
        coarse = crowd.densify(after).sum(axis=0).astype(float)
        expanded = step.expand(coarse, where)
        assert (expanded >= dense.sum(axis=0)).all()
        assert (expanded <= len(dense)).all()


def test_nobody_and_nowhere():
    nobody = Traces(np.zeros(1, np.int64), np.zeros(0, np.int32), 6, 9)
    idle = Traces(np.zeros(4, np.int64), np.zeros(0, np.int32), 6, 9)
    for step in (space(factor=2), time(factor=4)):
        for traces in (nobody, idle):
            after, _ = apply(step, traces, grid(2, 3, 9))
            assert after.n_users == traces.n_users
            assert len(after.cells) == 0
            assert after.n_cells < traces.n_cells


def test_cells_beyond_32_bits():
    """Flat cells of many users are sorted as one key of 64 bits."""
    n_users, n_rois, n_epochs = 3000, 2000, 2000
    offsets = np.arange(n_users + 1)
    held = np.full(n_users, n_rois * n_epochs - 1, np.int32)
    where = CellCoordinates(
        np.zeros(n_epochs, np.int64), np.full(n_rois, np.nan), np.full(n_rois, np.nan)
    )
    after, _ = apply(time(factor=2), Traces(offsets, held, n_rois, n_epochs), where)
    assert (np.diff(after.offsets) == 1).all()
    assert (after.cells == n_rois * n_epochs // 2 - 1).all()


def test_what_a_step_says_of_itself():
    for step in (space(factor=2), time(factor=2)):
        assert step.trace_steps == (step,)
        assert step.noise == NO_NOISE
        assert step.guarantee.epsilon == np.inf
        assert step.guarantee.reason == "counts of changed traces are published as they are"
        assert step.bind(BOUNDS) is step
        assert step.stability(Stability(4, 9.0), grid(2, 3, 9)) == Stability(4, 9.0)
        counts = np.arange(6).reshape(2, 3)
        np.testing.assert_array_equal(publish(step, counts), counts)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (space(groups=[[0, 6]]), "coarsen_space: there is no ROI 6 among 6"),
        (time(groups=[[0, 1], [2, 9]]), "coarsen_time: there is no epoch 9 among 9"),
    ],
)
def test_cells_that_do_not_exist(step, message):
    with pytest.raises(ConfigError) as caught:
        apply(step, crowd.traces(crowd.draw(2, 6, 9)), grid(2, 3, 9))
    assert str(caught.value) == message


def test_places_without_a_position():
    where = grid(2, 3, 9)
    where.lat[4] = np.nan
    traces = crowd.traces(crowd.draw(2, 6, 9))
    with pytest.raises(ConfigError) as caught:
        apply(space(factor=2), traces, where)
    assert str(caught.value) == (
        "coarsen_space: a factor merges ROIs that are close together, and some have no position: "
        "list groups instead"
    )
    after, _ = apply(space(groups=[[0, 4]]), traces, where)
    assert after.n_rois == 5
