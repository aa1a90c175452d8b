"""Groups that look like a part of another by chance, counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import mostly_slow
from scipy import stats

from clusterscale.release.checks.pairs import _come_and_go, coincidence

EVERYWHERE = np.ones((1, 1), bool)


@given(
    visits=st.integers(0, 40),
    part=st.integers(0, 40),
    people=st.integers(0, 12),
    share=st.floats(0.05, 0.5),
)
def test_of_one_cell_all_splits_are_tried(visits, part, people, share):
    part = min(part, visits)
    whole = np.array([[visits - part]])
    splits = np.arange(visits + 1)
    fits = (visits - 2 * splits >= 0) & (visits - 2 * splits <= people)
    due = stats.binom.pmf(splits, visits, share)[fits].sum()
    found = np.exp(coincidence(whole, np.array([[part]]), EVERYWHERE, people, share))
    assert found <= due + 1e-12
    # One cell of one epoch tells nothing of coming and going, so only the plain bound or that for
    # the share that is seen can hold.
    seen = part / max(visits, 1)
    again = stats.binom.pmf(splits, visits, seen)[fits].sum()
    assert found == pytest.approx(min(due, again), abs=1e-12)


def test_rois_are_multiplied():
    rng = np.random.default_rng(1)
    whole, part = rng.poisson(6, (5, 20)), rng.poisson(3, (5, 20))
    exact = rng.random(whole.shape) < 0.8
    one = [
        coincidence(whole[i : i + 1], part[i : i + 1], exact[i : i + 1], 9, 0.3) for i in range(5)
    ]
    assert coincidence(whole, part, exact, 9, 0.3) == pytest.approx(sum(one))


def test_what_is_not_exact_is_left_out():
    rng = np.random.default_rng(2)
    whole, part = rng.poisson(6, (5, 20)), rng.poisson(3, (5, 20))
    exact = rng.random(whole.shape) < 0.5
    other = np.where(exact, part, 19)
    found = [coincidence(whole, each, exact, 9, 0.3) for each in (part, other)]
    assert found[0] == found[1]
    assert coincidence(whole, part, np.zeros_like(exact), 9, 0.3) == 0


def test_more_people_make_it_likelier():
    rng = np.random.default_rng(3)
    whole, part = rng.poisson(6, (5, 20)), rng.poisson(3, (5, 20))
    everywhere = np.ones(whole.shape, bool)
    found = [coincidence(whole, part, everywhere, people, 0.3) for people in (0, 1, 3, 9, 40)]
    assert found == sorted(found)
    assert found[0] < found[-1] < 0


def comings(counts, exact=None):
    counts = np.asarray(counts)
    return _come_and_go(counts, np.ones(counts.shape, bool) if exact is None else exact)


def test_those_who_stay_do_not_come_and_go():
    rng = np.random.default_rng(4)
    stayers = np.tile(rng.poisson(9, (4, 1)), (1, 96))
    daily = np.tile(rng.poisson(9, (4, 24)), (1, 4))
    new = rng.poisson(9, (4, 96))
    np.testing.assert_array_equal(comings(stayers), 0)
    np.testing.assert_array_equal(comings(daily), 0)
    assert (comings(new) > 0.4).all()
    half = comings(stayers + new)
    assert (half > 0.2).all()
    assert (half < 0.8).all()


def test_it_is_a_share():
    found = comings(np.tile([[0, 50, 3, 90, 1]], (3, 8)) * np.array([[1], [2], [0]]))
    assert (found >= 0).all()
    assert (found <= 1).all()
    assert found[2] == 0
    assert comings(np.ones((2, 1), int)).max() == 1
    blind = np.zeros((2, 10), bool)
    np.testing.assert_array_equal(comings(np.zeros((2, 10), int), blind), 0)


@mostly_slow(("larger", "smaller"), [(12, 11), (12, 9), (20, 18), (9, 4)])
def test_the_bound_holds_for_people_who_come_and_go(larger, smaller):
    """Of many pairs of groups apart, as many look like a part as is said, or fewer."""
    rng = np.random.default_rng([larger, smaller])
    n, shape, rate = 4000, (2, 6), 0.25
    whole = rng.binomial(larger, rate, (n, *shape))
    part = rng.binomial(smaller, rate, (n, *shape))
    away = whole - part
    looks = ((away >= 0) & (away <= larger - smaller)).all(axis=(1, 2))
    everywhere, share = np.ones(shape, bool), smaller / (larger + smaller)
    logs = np.array([
        coincidence(whole[i], part[i], everywhere, larger - smaller, share)
        for i in np.flatnonzero(looks)
    ])  # fmt: skip
    for chance in (0.01, 0.05, 0.2):
        called = int((logs < np.log(chance)).sum())
        assert stats.binomtest(called, n, chance, alternative="greater").pvalue > 0.001
