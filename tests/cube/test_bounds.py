"""How much a unit changes the counts, by leaving each one out and counting again."""

import numpy as np
import pytest
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.contracts import Bounds, Traces
from clusterscale.cube import measure_bounds, with_null_roi
from clusterscale.cube.transforms import cut

DTYPES = st.sampled_from([np.int32, np.int64])
DAYS = st.lists(st.integers(0, 2), min_size=5, max_size=5).map(lambda steps: np.cumsum(steps) + 9)


def count(dense, *, null_roi):
    """Counts of users, those nowhere as a last ROI."""
    counts = dense.sum(axis=0)
    nowhere = (~dense.any(axis=1)).sum(axis=0)
    return np.vstack([counts, nowhere]) if null_roi else counts


def changes(dense, *, null_roi, days):
    """The most that leaving out a unit changes, in L1 norm; for ``rois`` their number."""
    most = {"event": 0, "user_day": 0, "user": 0, "series": 0, "rois": 0}
    before = count(dense, null_roi=null_roi)

    def see(kind, value):
        most[kind] = max(most[kind], int(value))

    def without(user, where):
        other = dense.copy()
        other[user][where] = False
        return np.abs(before - count(other, null_roi=null_roi)).sum()

    for user, trace in enumerate(dense):
        for event in np.argwhere(trace):
            see("event", without(user, tuple(event)))
        for day in np.unique(days):
            see("user_day", without(user, (slice(None), days == day)))
        gone = np.abs(before - count(np.delete(dense, user, axis=0), null_roi=null_roi))
        see("user", gone.sum())
        see("series", gone.sum(axis=1).max())
        see("rois", (gone.sum(axis=1) > 0).sum())
    return most


@pytest.mark.parametrize("null_roi", [False, True])
@given(dense=crowd.cubes(), days=DAYS, dtype=DTYPES)
def test_against_leaving_out_each_unit(dense, days, dtype, null_roi):
    days = days[: dense.shape[2]]
    traces = crowd.traces(dense, dtype)
    found = measure_bounds(with_null_roi(traces) if null_roi else traces, days)
    most = changes(dense, null_roi=null_roi, days=days)
    assert found.null_roi is null_roi
    assert found.event == 1 + null_roi  # whatever the data
    assert most["event"] <= found.event
    for kind in ("user_day", "user", "series", "rois"):
        assert getattr(found, kind) == max(1, most[kind]), kind


@given(dense=crowd.cubes(min_users=1), data=st.data())
def test_of_a_period(dense, data):
    """Idle hours of a period are a view into those of a cube."""
    n_epochs = dense.shape[2]
    first = data.draw(st.integers(0, n_epochs - 1))
    stop = data.draw(st.integers(first + 1, n_epochs))
    days = np.arange(n_epochs) // 2
    period = cut(with_null_roi(crowd.traces(dense)), first, stop)
    again = with_null_roi(crowd.traces(dense[:, :, first:stop]))
    assert measure_bounds(period, days[first:stop]) == measure_bounds(again, days[first:stop])


def test_a_day_of_events_may_leave_as_many_hours_idle():
    """Two events in one hour, one in another: three leave, two hours fall idle."""
    dense = np.zeros((1, 2, 4), np.bool_)
    dense[0, :, 0] = dense[0, 0, 1] = True
    days = np.array([5, 5, 5, 6])
    plain = measure_bounds(crowd.traces(dense), days)
    assert plain == Bounds(1, 3, 3, 2, 2, False)
    with_null = measure_bounds(with_null_roi(crowd.traces(dense)), days)
    assert with_null == Bounds(2, 5, 5, 2, 3, True)


def test_nobody_and_nothing():
    nobody = Traces(np.zeros(1, np.int64), np.zeros(0, np.int32), 2, 3)
    assert measure_bounds(nobody, np.zeros(3, np.int64)) == Bounds(1, 1, 1, 1, 1, False)
    quiet = with_null_roi(Traces(np.zeros(2, np.int64), np.zeros(0, np.int32), 2, 3))
    assert measure_bounds(quiet, np.zeros(3, np.int64)) == Bounds(2, 1, 3, 3, 1, True)


def test_numbers_are_plain():
    found = measure_bounds(crowd.traces(crowd.draw(5, 2, 3)), np.zeros(3, np.int64))
    assert {type(getattr(found, kind)) for kind in ("event", "user_day", "user")} == {int}
