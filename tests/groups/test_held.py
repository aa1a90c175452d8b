"""Traces of some users alone: they count for themselves, and together for everyone."""

from itertools import pairwise

import numpy as np
import pytest
from cube import crowd
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.contracts import Traces
from clusterscale.cube import with_null_roi
from clusterscale.errors import InputError
from clusterscale.groups import count_visits, subsample_trace
from clusterscale.groups.count import replace_member
from clusterscale.groups.draw import NOT_HELD


def held(dense, first, stop, *, null_roi):
    """Traces of the users ``first`` up to ``stop`` of all."""
    some = crowd.traces(dense[first:stop])
    some = with_null_roi(some) if null_roi else some
    return Traces(
        some.offsets, some.cells, some.n_rois, some.n_epochs, some.idle, first, len(dense)
    )


def with_nowhere(dense, null_roi):
    nowhere = ~dense.any(axis=1, keepdims=True)
    return np.concatenate([dense, nowhere], axis=1) if null_roi else dense


@st.composite
def cuts(draw):
    """Everyone, cut in two or three, perhaps with nobody on one side."""
    dense = draw(crowd.cubes(min_users=1, max_users=9))
    ends = draw(st.lists(st.integers(0, len(dense)), min_size=1, max_size=2))
    return dense, [0, *sorted(ends), len(dense)]


@given(cuts(), st.booleans(), st.booleans(), st.integers(0, 10**6))
def test_counts_of_parts_add_up_to_dense_sums(cut, null_roi, left_out, seed):
    dense, ends = cut
    rng, n_users = np.random.default_rng(seed), len(dense)
    pool = np.sort(rng.permutation(n_users)[: rng.integers(1, n_users + 1)])
    size = len(pool) if left_out else rng.integers(1, len(pool) + 1)
    members = np.stack([rng.choice(pool, size, replace=False) for _ in range(3)])
    whole = with_nowhere(dense, null_roi)
    total, swapped = 0, 0
    old, new = members[0, 0], rng.integers(n_users, size=1)
    for first, stop in pairwise(ends):
        some = held(dense, first, stop, null_roi=null_roi)
        counts = count_visits(some, members, pool=pool if left_out else None)
        mine = (members >= first) & (members < stop)
        expected = [whole[row[here]].sum(axis=0) for row, here in zip(members, mine, strict=True)]
        np.testing.assert_array_equal(counts, np.array(expected).reshape(counts.shape))
        masked = np.where(mine, members, NOT_HELD)
        np.testing.assert_array_equal(
            count_visits(some, masked, pool=pool if left_out else None), counts
        )
        total = total + counts
        seen = np.where((new >= first) & (new < stop), new, NOT_HELD)
        replace_member(counts[:1], some, int(old), seen)
        swapped = swapped + counts[:1]
    np.testing.assert_array_equal(total, whole[members].sum(axis=1))
    expected = whole[members[0]].sum(axis=0) - 1 * whole[old] + 1 * whole[new[0]]
    np.testing.assert_array_equal(swapped[0], expected)


@pytest.mark.parametrize("null_roi", [False, True])
def test_who_is_not_held_has_no_trace_and_forgets_nothing(null_roi):
    dense = crowd.draw(8, 3, 5, seed=2)
    whole, some = (held(dense, *ends, null_roi=null_roi) for ends in ((0, 8), (3, 6)))
    assert (some.n_held, some.n_users) == (3, 8)
    for user in range(8):
        trace = some.trace(user)
        assert trace.dtype == whole.trace(user).dtype
        expected = whole.trace(user) if 3 <= user < 6 else []
        np.testing.assert_array_equal(trace, expected)
        if not 3 <= user < 6:
            assert not len(subsample_trace(trace, some, 0.5, rng=np.random.default_rng(0)))
    for stranger in (-1, 8):
        with pytest.raises(InputError, match=f"user {stranger} is not among 8 users"):
            some.trace(stranger)
