"""Unicity is exact, however users are cut into blocks and time into slices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import traits as oracle
from traits.crowd import crowds, traces_of

from clusterscale.analyses import traits
from clusterscale.analyses.traits.characteristics import Sets
from clusterscale.analyses.traits.mobility import slices
from clusterscale.errors import ConfigError


@given(crowds(most_users=12))
def test_it_is_what_loops_give(dense):
    np.testing.assert_array_equal(traits.unicity(traces_of(dense)), oracle.unicity(dense))


@given(st.data(), crowds(most_users=12))
def test_blocks_may_come_in_any_order(data, dense):
    n_users, _, n_epochs = dense.shape
    cuts = sorted(data.draw(st.sets(st.integers(1, n_users), max_size=3)) | {n_users})
    blocks = data.draw(st.permutations(list(zip([0, *cuts], cuts, strict=False))))
    sets = Sets(n_users)
    for start, stop in blocks:
        sets.add(traces_of(dense[start:stop]), start)
    np.testing.assert_array_equal(sets.counts() / n_epochs, oracle.unicity(dense))


def test_the_same_rois_in_another_epoch_are_another_set():
    dense = np.zeros((3, 5, 4), bool)
    dense[0, [1, 3], 0] = dense[1, [1, 3], 2] = dense[2, [1, 3], 2] = True
    assert traits.unicity(traces_of(dense)).tolist() == [0.25, 0, 0]


def test_a_crowd_is_told_apart_as_sets_of_python_are():
    rng = np.random.default_rng(5)
    dense = rng.random((400, 30, 24)) < rng.choice([0.02, 0.2], (400, 1, 1))
    np.testing.assert_array_equal(traits.unicity(traces_of(dense)), oracle.unicity(dense))


def test_rois_far_apart_and_many_are_no_matter():
    """Neighbouring numbers, powers of two and all of them at once: no two sets agree."""
    n_rois = 4096
    dense = np.zeros((3000, n_rois, 1), bool)
    for user in range(2500):
        dense[user, [user, user + 1], 0] = True
    for user in range(2500, 2999):
        dense[user, : user - 2400, 0] = True
    dense[2999, :, 0] = True
    assert (traits.unicity(traces_of(dense)) == 1).all()


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=40),
    st.integers(1, 9),
    st.integers(0, 30),
)
def test_slices_cover_time_once(cube, active, n_workers, first):
    active, span = np.array(active), (first, first + len(active))
    found = list(slices(cube, active, span, memory=2 * 10**9, n_workers=n_workers))
    epochs = [epoch for start, stop in found for epoch in range(start, stop)]
    assert epochs == list(range(*span))
    assert len(found) <= 2 * n_workers + 1


def test_little_memory_makes_many_slices_and_too_little_is_said(cube):
    active = np.full(48, 60)
    wide = list(slices(cube, active, (0, 48), memory=2 * 10**9, n_workers=1))
    assert wide == [(0, 48)]
    with pytest.raises(ConfigError, match=r"memory: 1,000 bytes per worker are too few .* or more"):
        list(slices(cube, active, (0, 48), memory=1000, n_workers=1))
    with pytest.raises(ConfigError) as raised:
        list(slices(cube, active, (0, 48), memory=1000, n_workers=1))
    least = int(str(raised.value).split(" to ")[-1].split(" or")[0].replace(",", ""))
    narrow = list(slices(cube, active, (0, 48), memory=least, n_workers=1))
    assert len(narrow) == 48
