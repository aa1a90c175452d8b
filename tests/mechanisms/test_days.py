"""A user's day, when merged hours lie on two of them."""

import numpy as np
import pytest
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st

from clusterscale import mechanisms
from clusterscale.contracts import CellCoordinates
from clusterscale.cube import Calendar, measure_bounds, with_null_roi

DAYS = st.lists(st.integers(0, 1), min_size=5, max_size=5).map(lambda steps: np.cumsum(steps) + 9)
RNG = np.random.default_rng(0)


def frame(days, n_rois):
    return CellCoordinates(days, np.arange(n_rois) / 10, np.zeros(n_rois))


def counts_after(dense, steps, where, *, null_roi, seed=0):
    """Count everybody after the steps, and return the frame they leave."""
    traces = crowd.traces(dense)
    for step in steps:
        traces, where = step.apply(traces, where, rng=np.random.default_rng(seed))
    traces = with_null_roi(traces) if null_roi else traces
    counts = np.zeros(traces.n_cells, int)
    for user in range(traces.n_users):
        counts[traces.trace(user)] += 1
    return counts, traces, where


@pytest.mark.parametrize("null_roi", [False, True])
@given(dense=crowd.cubes(min_users=1), days=DAYS, factor=st.integers(2, 4))
def test_a_day_changes_merged_counts_by_no_more_than_measured(dense, days, factor, null_roi):
    days = days[: dense.shape[2]]
    where, step = frame(days, dense.shape[1]), mechanisms.create("coarsen_time", factor=factor)
    before, traces, after = counts_after(dense, [step], where, null_roi=null_roi)
    bounds = measure_bounds(traces, after.days, after.until)
    for user in range(len(dense)):
        for day in np.unique(days):
            other = dense.copy()
            other[user][:, days == day] = False
            counts, *_ = counts_after(other, [step], where, null_roi=null_roi)
            assert np.abs(before - counts).sum() <= bounds.user_day


@pytest.mark.parametrize(("factor", "most"), [(16, 2), (7, 4), (24, 1), (48, 1)])
def test_blocks_over_midnight_belong_to_both_days(factor, most):
    """Two days, one place, always there: a day takes part in so many blocks."""
    traces = crowd.traces(np.ones((1, 1, 48), bool))
    step = mechanisms.create("coarsen_time", factor=factor)
    traces, where = step.apply(traces, frame(np.arange(48) // 24, 1), rng=RNG)
    assert measure_bounds(traces, where.days, where.until).user_day == most


@given(
    dense=crowd.cubes(min_users=1),
    days=DAYS,
    factor=st.integers(2, 4),
    per_day=st.integers(1, 3),
    seed=st.integers(0, 5),
)
def test_a_cap_after_merging_counts_epochs_where_they_begin(dense, days, factor, per_day, seed):
    days = days[: dense.shape[2]]
    steps = [
        mechanisms.create("coarsen_time", factor=factor),
        mechanisms.create("cap_contributions", per_day=per_day),
    ]
    where = frame(days, dense.shape[1])
    _, traces, after = counts_after(dense, steps, where, null_roi=False, seed=seed)
    for user in range(len(dense)):
        epochs = traces.trace(user) % traces.n_epochs
        for day in np.unique(days):
            assert (after.days[epochs] == day).sum() <= per_day


def test_an_epoch_that_ends_on_the_next_day():
    calendar = Calendar.parse("2024-03-01T00:00", "9h", 4, "UTC")
    first = calendar.days()[0]
    assert (calendar.days() - first).tolist() == [0, 0, 0, 1]
    assert (calendar.days(ends=True) - first).tolist() == [0, 0, 1, 1]
