"""Events that are dropped once: which, how many, and of whom."""

import numpy as np
import pytest
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from clusterscale import mechanisms
from clusterscale.contracts import CellCoordinates
from clusterscale.cube import with_null_roi
from clusterscale.errors import InputError


def thin(traces, remove, seed=0):
    step = mechanisms.create("sample_traces", remove=remove)
    n_rois = traces.n_cells // traces.n_epochs
    frame = CellCoordinates(np.arange(traces.n_epochs), np.zeros(n_rois), np.zeros(n_rois))
    after, same = step.apply(traces, frame, rng=np.random.default_rng(seed))
    assert same is frame
    return after


@given(
    dense=crowd.cubes(), remove=st.floats(0.01, 0.99), dtype=st.sampled_from([np.int32, np.int64])
)
def test_only_events_of_the_same_user_are_left(dense, remove, dtype):
    before = crowd.traces(dense, dtype)
    after = thin(before, remove)
    assert after.cells.dtype == dtype
    assert after.offsets.dtype == before.offsets.dtype
    assert (after.offsets[0], after.offsets[-1]) == (0, len(after.cells))
    assert not (crowd.densify(after) & ~dense).any()


def test_each_event_is_dropped_as_often():
    """30,000 events, of each cell and user; two tests at .001 each."""
    dense = np.ones((60, 5, 100), bool)
    left = crowd.densify(thin(crowd.traces(dense, np.int64), 0.3, seed=4))
    assert stats.binomtest(int(left.sum()), dense.size, 0.7).pvalue > 0.001
    by_cell = left.sum(axis=0).ravel()
    spread = ((by_cell - 42) ** 2).sum() / (60 * 0.7 * 0.3)
    assert stats.chi2(len(by_cell)).sf(spread) > 0.001


def test_the_null_roi_comes_after():
    traces = crowd.traces(np.ones((2, 3, 4), bool), np.int64)
    with pytest.raises(InputError, match="add the null ROI after"):
        thin(with_null_roi(traces), 0.5)


def test_it_is_a_step_on_traces_and_promises_nothing():
    mechanism = mechanisms.create("sample_traces", remove=0.2)
    assert mechanism.trace_steps == (mechanism,)
    assert mechanism.guarantee.unit == "none"
