"""What totals tell is what all tables with these totals have in common."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.errors import InputError
from clusterscale.release.checks.totals import bound_cells


def solve(low, high, rois, epochs):
    """The bounds of cells, or None."""
    found = bound_cells(
        low,
        high,
        np.concatenate([rois, epochs, [np.nan]]),
        np.zeros(len(rois) + len(epochs) + 1, np.bool_),
    )
    ends = (end[: low.size].reshape(low.shape) for end in (found.low, found.high))
    return None if found.contradiction is not None else tuple(ends)


def every_table(low, high, rois, epochs):
    """All tables between the bounds that have the totals, by trying them."""
    cells = [range(a, b + 1) for a, b in zip(low.flat, high.flat, strict=True)]
    tables = np.array(list(product(*cells))).reshape(-1, *low.shape)
    fits = np.ones(len(tables), bool)
    for axis, totals in ((2, rois), (1, epochs)):
        fits &= (np.isnan(totals) | (tables.sum(axis=axis) == totals)).all(axis=1)
    return tables[fits]


@st.composite
def problems(draw):
    """Small tables with few choices, some totals of which are hidden or wrong."""
    shape = draw(st.tuples(st.integers(1, 3), st.integers(1, 4)))
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 3, shape)
    room = rng.integers(1, 4, shape) * (rng.random(shape) < rng.choice([0.4, 0.7, 0.9]))
    while np.prod(room + 1) > 5000:
        room[np.unravel_index(rng.integers(room.size), shape)] = 0
    true = rng.integers(low, low + room + 1)
    totals = [true.sum(axis=axis).astype(float) for axis in (1, 0)]
    if rng.random() < 0.2:
        totals[0] += rng.integers(-1, 2, len(totals[0]))
    hide = rng.choice([0.0, 0.3, 0.8])
    return low, low + room, *(np.where(rng.random(len(t)) < hide, np.nan, t) for t in totals)


@given(problems())
def test_all_tables_are_tried(problem):
    tables = every_table(*problem)
    found = solve(*problem)
    if not len(tables):
        assert found is None
        return
    low, high = found
    assert ((low <= tables) & (tables <= high)).all()
    np.testing.assert_array_equal(low == high, (tables == tables[0]).all(axis=0))


def test_bounds_tell_more_than_bridges():
    """All four cells lie on a cycle, but none can be lowered."""
    low, high = np.zeros((2, 2), int), np.full((2, 2), 3)
    for found in solve(low, high, np.array([0.0, 5.0]), np.array([2.0, 3.0])):
        np.testing.assert_array_equal(found, [[0, 0], [2, 3]])
    least, most = solve(low, high, np.array([2.0, 2.0]), np.array([2.0, 2.0]))
    assert (least < most).all()


def test_without_totals_nothing_is_known():
    low, high = np.array([[0, 2]]), np.array([[1, 2]])
    found = solve(low, high, np.array([np.nan]), np.full(2, np.nan))
    np.testing.assert_array_equal(found, [low, high])


@pytest.mark.parametrize(("roi", "epoch"), [(3.0, 2.0), (2.0, 3.0), (1.0, np.nan), (5.0, np.nan)])
def test_a_single_cell_that_cannot_be(roi, epoch):
    assert solve(np.array([[2]]), np.array([[4]]), np.array([roi]), np.array([epoch])) is None or (
        np.isnan(epoch) and 2 <= roi <= 4
    )


def test_a_large_table_is_solved_at_once():
    rng = np.random.default_rng(4)
    true = rng.poisson(3, (200, 300))
    hidden = rng.random(true.shape) < 0.01
    low, high = np.where(hidden, 0, true), np.where(hidden, 50, true)
    totals = [true.sum(axis=axis).astype(float) for axis in (1, 0)]
    least, most = solve(low, high, *totals)
    alone = (hidden.sum(axis=1) == 1)[:, None] | (hidden.sum(axis=0) == 1)
    assert (least == most)[hidden & alone].all()
    assert ((least <= true) & (true <= most)).all()


def test_totals_beyond_a_flow_are_refused():
    low, high, totals = np.zeros((2, 2), int), np.full((2, 2), 2**31), np.full(2, 2.0**31)
    with pytest.raises(InputError, match="a flow of 4,294,967,296 visits"):
        solve(low, high, totals, totals)
