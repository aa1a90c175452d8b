"""A choice by segments has the law of one in one go, and is the same whoever holds whom."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from clusterscale.groups import draw
from clusterscale.groups.draw import NOT_HELD, CandidatePool
from clusterscale.seeds import stream

POOL = np.array([0, 1, 3, 4, 5, 9, 10, 14, 20, 21])
TARGET = 4


@pytest.fixture(params=["one go", "segments"])
def way(request, monkeypatch):
    """Whether the few users of a test are many."""
    if request.param == "segments":
        monkeypatch.setattr(draw, "_SEGMENT", 4)
        monkeypatch.setattr(draw, "_FEW", 1)
    return request.param


@pytest.fixture(scope="module")
def many():
    """Most of 300,000 users, in five segments."""
    return stream(0, "pool").permutation(300_000)[:260_000]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 8])
def test_every_choice_is_as_likely(way, size):
    others, rng = CandidatePool(POOL, TARGET), stream(1, "choices")
    found = {
        tuple(each): 0 for each in combinations(np.delete(POOL, POOL == TARGET).tolist(), size)
    }
    n_draws = 100 * len(found)
    for _ in range(n_draws):
        found[tuple(sorted(others.choose(size, rng).users.tolist()))] += 1
    excess = sum((n - 100) ** 2 / 100 for n in found.values())
    assert excess < chi2.ppf(0.9999, len(found) - 1)


@pytest.mark.parametrize("size", [64, 70_000, 259_900])
def test_many_of_many_are_distinct_and_spread(many, size):
    others = CandidatePool(many, int(many[0]))
    choice = others.choose(size, stream(2, "choices"))
    assert len(np.unique(choice.users)) == size
    assert np.isin(choice.users, many[1:]).all()
    assert choice.sizes.sum() == size
    segments = np.bincount(choice.users // 65536, minlength=5)
    np.testing.assert_array_equal(segments, choice.sizes)
    share = size / len(others)
    expected = np.bincount(others.users // 65536) * share
    # Hypergeometric: five standard deviations of a binomial are more than five of it.
    assert (np.abs(segments - expected) <= 5 * np.sqrt(expected * (1 - share)) + 1).all()


@given(
    first=st.integers(0, 24),
    n_held=st.integers(0, 24),
    size=st.integers(1, 8),
    seed=st.integers(0, 10**6),
)
def test_whoever_holds_whom_the_same_are_chosen(first, n_held, size, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "_SEGMENT", 4)
        patch.setattr(draw, "_FEW", 1)
        rng, again = stream(seed, "x"), stream(seed, "x")
        everyone, some = (
            CandidatePool(POOL, TARGET),
            CandidatePool(POOL, TARGET, (first, first + n_held)),
        )
        whole, part = everyone.choose(size, rng), some.choose(size, again)
        held = (whole.users >= first) & (whole.users < first + n_held)
        np.testing.assert_array_equal(part.users[held], whole.users[held])
        assert (part.users[~held] == whole.users[~held])[part.users[~held] != NOT_HELD].all()
        assert (whole.key, whole.sizes.tolist()) == (part.key, part.sizes.tolist())
        assert rng.integers(2**62) == again.integers(2**62), "both are as far"
        for place in range(size):
            less, same = whole.without(place), part.without(place)
            assert less.key == same.key != whole.key
            assert sorted(less.users) == sorted(np.delete(whole.users, place))
            np.testing.assert_array_equal(less.sizes, same.sizes)
        for rank in range(len(everyone) - size):
            outsider, seen = everyone.outsider(whole, rank), some.outsider(part, rank)
            assert seen in (outsider, NOT_HELD)
            assert seen == outsider or not first <= outsider < first + n_held


def test_outsiders_are_all_who_were_not_chosen(way):
    others = CandidatePool(POOL, TARGET)
    for seed in range(20):
        choice = others.choose(5, stream(seed, "choice"))
        found = [others.outsider(choice, rank) for rank in range(4)]
        assert found == sorted(set(POOL.tolist()) - {TARGET} - set(choice.users.tolist()))
        fewer = choice.without(2)
        assert len({others.outsider(fewer, rank) for rank in range(5)}) == 5


def test_the_same_users_have_the_same_key():
    others, rng = CandidatePool(np.arange(5), 0), stream(3, "x")
    choices = [others.choose(2, rng) for _ in range(200)]
    keys = {frozenset(choice.users.tolist()): choice.key for choice in choices}
    assert len(set(keys.values())) == len(keys) == 6
    assert all(choice.key == keys[frozenset(choice.users.tolist())] for choice in choices)


def test_few_of_a_pool_that_is_spread_widely_are_never_the_same_unseen():
    """A hundred users over five segments: nearly all of them can be chosen in few ways only."""
    pool = np.arange(0, 300_000, 3000)
    others, rng = CandidatePool(pool, -5), stream(4, "x")
    choices = [others.choose(99, rng) for _ in range(200)]
    assert len({choice.key for choice in choices}) <= 100
