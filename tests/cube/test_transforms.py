"""Traces into other traces, against the same done to dense arrays."""

from __future__ import annotations

import numpy as np
import pytest
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.contracts import Traces
from clusterscale.cube import pick, with_null_roi
from clusterscale.cube.transforms import cut
from clusterscale.errors import InputError

DTYPES = st.sampled_from([np.int32, np.int64])


def null_roi(dense):
    return np.concatenate([dense, ~dense.any(axis=1, keepdims=True)], axis=1)


@given(dense=crowd.cubes(), dtype=DTYPES, data=st.data())
def test_cut(dense, dtype, data):
    first = data.draw(st.integers(0, dense.shape[2] - 1))
    stop = data.draw(st.integers(first + 1, dense.shape[2]))
    found = cut(crowd.traces(dense, dtype), first, stop)
    assert found.cells.dtype == dtype
    np.testing.assert_array_equal(crowd.densify(found), dense[:, :, first:stop])


@given(dense=crowd.cubes(min_users=1), dtype=DTYPES, data=st.data())
def test_pick(dense, dtype, data):
    users = np.array(data.draw(st.lists(st.integers(0, len(dense) - 1))), np.int64)
    found = pick(crowd.traces(dense, dtype), users)
    assert found.cells.dtype == dtype
    np.testing.assert_array_equal(crowd.densify(found), dense[users])


@given(dense=crowd.cubes(), dtype=DTYPES)
def test_with_null_roi(dense, dtype):
    found = with_null_roi(crowd.traces(dense, dtype))
    assert found.null_roi
    assert found.n_cells == (dense.shape[1] + 1) * dense.shape[2]
    np.testing.assert_array_equal(crowd.densify(found), null_roi(dense))
    with pytest.raises(InputError, match="already have a null ROI"):
        with_null_roi(found)


@given(dense=crowd.cubes(min_users=1), data=st.data())
def test_they_commute(dense, data):
    """A period and users can be taken before or after the null ROI is added."""
    traces, users = crowd.traces(dense), np.array([len(dense) - 1, 0])
    stop = data.draw(st.integers(1, dense.shape[2]))
    one = with_null_roi(pick(cut(traces, 0, stop), users))
    other = cut(pick(with_null_roi(traces), users), 0, stop)
    np.testing.assert_array_equal(one.cells, other.cells)
    np.testing.assert_array_equal(one.offsets, other.offsets)
    np.testing.assert_array_equal(one.idle, other.idle)


def test_nothing_is_changed_in_place():
    traces = crowd.traces(crowd.draw(4, 3, 6))
    before = traces.offsets.copy(), traces.cells.copy()
    cut(traces, 2, 4), pick(traces, np.array([3, 3, 0])), with_null_roi(traces)
    np.testing.assert_array_equal(traces.offsets, before[0])
    np.testing.assert_array_equal(traces.cells, before[1])


def test_the_null_roi_may_need_more_bits():
    n_epochs = 1 << 20
    n_rois = 1 << 11  # cells fit in 32 bits until the null ROI is added
    traces = Traces(np.array([0, 1]), np.array([7], np.int32), n_rois, n_epochs)
    found = with_null_roi(traces)
    assert found.trace(0)[0] == 7
    assert found.trace(0)[-1] == (n_rois + 1) * n_epochs - 1
