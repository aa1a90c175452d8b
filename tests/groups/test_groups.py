"""Groups are distinct, half with the target, and counted like a dense sum."""

from copy import deepcopy
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from oracles.dense import traces_of

from clusterscale.cube import with_null_roi
from clusterscale.errors import PoolError
from clusterscale.groups import Pool, count_visits
from clusterscale.groups.draw import largest_group


def draw_groups(users, target, *, size, n_groups, name, rng, paired=False):
    """Return the members of drawn groups, and their labels."""
    traces = traces_of(np.zeros((max(users) + 1, 1, 1), bool))
    again = deepcopy(rng)
    slices = Pool(traces, users, target, size, name).slices(n_groups, rng=rng, paired=paired)
    members = np.concatenate([members for members, _ in slices])
    counted, _ = Pool(traces, users, target, size, name).draw(n_groups, rng=again, paired=paired)
    return members, counted.labels


@given(st.integers(4, 30), st.integers(1, 29), st.integers(0, 10**6))
def test_groups_are_distinct_sorted_and_half_hold_the_target(n_pool, size, seed):
    n_groups, target = 8, 2
    rng = np.random.default_rng(seed)
    if min(comb(n_pool - 1, size - 1), comb(n_pool - 1, size)) < n_groups // 2:
        with pytest.raises(PoolError, match=rf"groups of {size} are too (large|small)"):
            draw_groups(
                np.arange(n_pool), target, size=size, n_groups=n_groups, name="test", rng=rng
            )
        return
    members, labels = draw_groups(
        np.arange(n_pool), target, size=size, n_groups=n_groups, name="test", rng=rng
    )
    assert members.shape == (n_groups, size)
    assert (np.diff(members, axis=1) > 0).all()
    assert len({row.tobytes() for row in members}) == n_groups
    np.testing.assert_array_equal(labels, (members == target).any(axis=1))
    assert labels.sum() == n_groups // 2


@for_each("n_pool", range(2, 11))
@for_each("n_groups", [4, 10, 30])
def test_largest_group_is_what_enumeration_finds(n_pool, n_groups):
    def enough(size):
        others = range(n_pool - 1)
        sides = (combinations(others, size - 1), combinations(others, size))
        return all(len(list(side)) >= n_groups // 2 for side in sides)

    fitting = [size for size in range(1, n_pool) if enough(size)]
    assert largest_group(n_pool, n_groups) == max(fitting, default=0)


def test_every_group_of_a_small_pool_can_be_drawn():
    """With 5 others there are 10 pairs and 10 triples: asking for all of them must succeed."""
    members, labels = draw_groups(
        np.arange(6), 0, size=3, n_groups=20, name="test", rng=np.random.default_rng(0)
    )
    assert {tuple(row) for row in members[labels]} == {
        (0, *pair) for pair in combinations(range(1, 6), 2)
    }


def test_members_are_drawn_uniformly():
    rng = np.random.default_rng(11)
    members, labels = draw_groups(np.arange(40), 5, size=10, n_groups=4000, name="test", rng=rng)
    seen = np.bincount(members[~labels].ravel(), minlength=40)
    assert seen[5] == 0
    others = np.delete(seen, 5)
    chance = 10 / 39
    # Binomial counts: at five standard deviations 39 users fail together once in 40,000 seeds.
    assert abs(others - 2000 * chance).max() < 5 * np.sqrt(2000 * chance * (1 - chance))


def test_too_small_a_pool_names_itself_and_what_fits():
    with pytest.raises(PoolError) as caught:
        draw_groups(
            np.arange(12), 0, size=12, n_groups=20, name="training", rng=np.random.default_rng(0)
        )
    assert str(caught.value) == (
        "groups of 12 are too large: the training pool has 12 users including the target, "
        "and 20 distinct groups are needed; the largest that fits is 10"
    )


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 6), st.integers(0, 10**6))
def test_counts_are_dense_sums(n_users, n_rois, n_epochs, seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((n_users, n_rois, n_epochs)) < 0.4
    members = np.array([rng.permutation(n_users)[: 1 + n_users // 2] for _ in range(3)])
    counts = count_visits(traces_of(dense), members)
    assert counts.dtype == np.int32
    np.testing.assert_array_equal(counts, dense[members].sum(axis=1))


@given(st.integers(2, 59), st.booleans(), st.integers(0, 10**6))
def test_counting_those_left_out_gives_the_same(dense, size, null_roi, seed):
    """Whichever way is shorter: members, or the pool less the others."""
    rng = np.random.default_rng(seed)
    pool = rng.permutation(60)[: rng.integers(size, 61)]
    members = np.stack([np.sort(rng.choice(pool, size, replace=False)) for _ in range(3)])
    traces = traces_of(dense)
    if null_roi:
        traces = with_null_roi(traces)
        dense = np.concatenate([dense, ~dense.any(axis=1, keepdims=True)], axis=1)
    expected = dense[members].sum(axis=1)
    np.testing.assert_array_equal(count_visits(traces, members), expected)
    np.testing.assert_array_equal(count_visits(traces, members, pool=pool), expected)


@given(st.integers(6, 30), st.integers(2, 20), st.integers(0, 10**6))
def test_pairs_share_all_but_one_member(n_pool, size, seed):
    if size > n_pool - 4:
        return
    members, labels = draw_groups(
        np.arange(n_pool), 2, size=size, n_groups=8, name="test", paired=True,
        rng=np.random.default_rng(seed),
    )  # fmt: skip
    assert len({row.tobytes() for row in members}) == 8
    for inside, outside in zip(members[labels], members[~labels], strict=True):
        assert set(inside) - set(outside) == {2}
        assert len(set(outside) - set(inside)) == 1


def test_pairs_that_cannot_be_found_are_an_error_not_a_hang(monkeypatch):
    """Three pairs need all three groups without the target; a wrong start leaves none."""
    monkeypatch.setattr("clusterscale.groups.draw._MOST_TRIES", 100)

    def draw(seed):
        rng = np.random.default_rng(seed)
        pool = np.arange(4)
        return draw_groups(pool, 0, size=2, n_groups=6, name="test", paired=True, rng=rng)

    ends = []
    for seed in range(30):
        try:
            ends.append(len(draw(seed)[0]))
        except PoolError as error:
            ends.append(str(error))
    words = "no more than 2 pairs of groups of 2 were found among 4 users including the target"
    assert set(ends) == {6, f"{words}: draw fewer or smaller groups"}
