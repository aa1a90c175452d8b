"""Change of exposure: what it counts, how often its interval holds and its test is wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each, mostly_slow
from scipy import stats

from clusterscale.errors import InputError
from clusterscale.metrics import Drift, UserLosses, compare_exposure, mean_interval, pool_exposure

LOSSES = st.floats(0, 1).map(lambda loss: round(loss, 2))  # two digits, so that many are tied
SIDE = st.dictionaries(st.integers(0, 30), LOSSES, max_size=25)


def split(side):
    return np.array(list(side), int), np.array(list(side.values()), float)


def compared(before, after, **options):
    return compare_exposure(split(before), split(after), **{"limit": 0.5} | options)


def paired(before, after, ends=((), ()), **options):
    users = np.arange(len(before))
    sides = (users, before, *ends[0]), (users, after, *ends[1])
    return compare_exposure(*sides, **{"limit": 0.5} | options)


def trial(n, shift, rng):
    """Losses of the same people in two releases, cut at 0 as losses are."""
    auc = 0.5 + 0.5 * rng.beta(1, 2, n)
    moved = auc + shift * rng.random(n)
    each = (np.clip(a + rng.normal(0, 0.06, n), 0, 1) for a in (auc, moved))
    return [np.maximum(0, 2 * a - 1) for a in each]


@mostly_slow(("n", "repetitions"), [(5, 1500), (10, 1500), (19, 1500), (25, 200)])
@mostly_slow("shift", [0.0, -0.05])
def test_the_interval_holds_the_change_at_least_as_often_as_it_says(
    n, repetitions, shift, monkeypatch
):
    """Three standard errors are 1.7 points at 1,500 repetitions and 4.6 at 200."""
    monkeypatch.setattr("clusterscale.metrics.drift._test", lambda *_: 1.0)
    before, after = trial(500_000, shift, np.random.default_rng(0))
    truth = (after - before).mean()
    rng = np.random.default_rng([n, 1])
    found = [paired(*trial(n, shift, rng)) for _ in range(repetitions)]
    held = np.mean([each.low <= truth <= each.high for each in found])
    tolerance = 3 * (0.05 * 0.95 / repetitions) ** 0.5
    assert held >= 0.95 - tolerance
    assert n > 19 or held <= 0.975 + tolerance


@mostly_slow(("n", "repetitions"), [(6, 1500), (12, 1500), (40, 600), (80, 600)])
def test_the_test_rejects_no_more_than_it_says_where_nothing_changed(n, repetitions, monkeypatch):
    monkeypatch.setattr("clusterscale.metrics.drift._interval", lambda *_: (0.0, 0.0))
    rng = np.random.default_rng([n, 2])
    p = np.array([paired(*trial(n, 0.0, rng)).p_value for _ in range(repetitions)])
    for level in (0.01, 0.05, 0.2):
        tolerance = 3 * (level * (1 - level) / repetitions) ** 0.5
        assert np.mean(p <= level) <= level + tolerance


def test_the_test_on_other_people_rejects_no_more_than_it_says(monkeypatch):
    monkeypatch.setattr("clusterscale.metrics.drift._interval", lambda *_: (0.0, 0.0))
    rng, p = np.random.default_rng(3), []
    for _ in range(800):
        before, after = trial(24, 0.0, rng)
        users = np.arange(24)
        drift = compare_exposure((users, before), (users + 20, rng.permutation(after)), limit=0.5)
        assert drift.n_common == 4
        p.append(drift.p_value)
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * (0.05 * 0.95 / 800) ** 0.5


@pytest.mark.parametrize("n", [12, 70])
def test_a_real_change_is_found(n):
    rng = np.random.default_rng(4)
    found = [paired(*trial(n, 0.4, rng)) for _ in range(60)]
    assert np.mean([each.p_value < 0.05 for each in found]) > 0.95
    assert np.mean([each.low > 0 for each in found]) > 0.95
    assert min(each.change for each in found) > 0


@pytest.mark.parametrize("n", [6, 13, 50])
def test_without_ties_it_is_the_exact_signed_rank_test(n):
    rng = np.random.default_rng(n)
    before, after = rng.random(n), rng.random(n)
    expected = stats.wilcoxon(after - before, method="exact").pvalue
    assert paired(before, after).p_value == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.tuples(LOSSES, LOSSES), min_size=6, max_size=9))
def test_with_ties_and_zeros_it_is_the_permutation_test(pairs):
    before, after = np.array(pairs).T
    difference = np.round(after - before, 12)
    if not difference.any():
        assert paired(before, after).p_value == 1
        return
    ranks = stats.rankdata(np.abs(difference)) * (difference != 0)
    observed = ranks[difference > 0].sum()
    signs = np.array(np.meshgrid(*[[0, 1]] * len(pairs))).reshape(len(pairs), -1)
    sums = ranks @ signs
    expected = min(1, 2 * min(np.mean(sums <= observed + 1e-9), np.mean(sums >= observed - 1e-9)))
    assert paired(before, after).p_value == pytest.approx(expected, rel=1e-9)


def test_beyond_fifty_users_the_exact_test_becomes_the_normal_one():
    rng = np.random.default_rng(5)
    before, after = np.round(rng.random((2, 51)), 1)
    many = paired(before, after).p_value
    known = stats.wilcoxon(np.round(after - before, 12), zero_method="pratt", correction=True)
    assert many == pytest.approx(known.pvalue)
    assert many == pytest.approx(paired(before[:50], after[:50]).p_value, abs=0.1)


def test_few_common_users_leave_the_test_to_all():
    rng = np.random.default_rng(6)
    before, after = rng.random(9), rng.random(12)
    drift = compare_exposure((np.arange(9), before), (np.arange(12) + 4, after), limit=0.5)
    assert drift.n_common == 5
    assert drift.p_value == pytest.approx(stats.mannwhitneyu(before, after).pvalue)
    assert drift.change == pytest.approx((after[:5] - before[4:]).mean())


def test_the_interval_is_that_of_student_for_few_users_and_for_any_law_for_many():
    rng = np.random.default_rng(7)
    before, after = 0.5 * rng.random((2, 40))
    few, difference = paired(before[:19], after[:19], confidence=0.9), (after - before)[:19]
    expected = stats.t.interval(0.9, 18, difference.mean(), stats.sem(difference))
    assert (few.low, few.high) == pytest.approx(expected)
    many = paired(before, after)
    assert (many.low, many.high) == mean_interval(np.round(after - before, 12), bounds=(-1, 1))
    wide = paired([0.0, 0.0], [0.0, 1.0])
    assert (wide.low, wide.high) == (-1, 1)


@given(SIDE, SIDE, LOSSES, st.floats(0, 0.3))
def test_before_and_after_exchanged_turn_everything_over(before, after, limit, margin):
    one = compared(before, after, limit=limit, margin=margin)
    other = compared(after, before, limit=limit, margin=margin)
    assert other.n_common == one.n_common == len(set(before) & set(after))
    assert other.change == pytest.approx(-one.change, nan_ok=True)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=1e-9, nan_ok=True)
    assert other.p_value == pytest.approx(one.p_value, nan_ok=True)
    assert other.n_newly_exposed == one.n_no_longer_exposed
    assert other.n_no_longer_exposed == one.n_newly_exposed


@given(SIDE, SIDE, st.randoms(use_true_random=False))
def test_the_order_of_users_does_not_matter(before, after, random):
    def shuffled(side):
        items = list(side.items())
        random.shuffle(items)
        return dict(items)

    def bits(drift):
        return np.array([getattr(drift, name) for name in Drift.__slots__], float).tobytes()

    assert bits(compared(before, after)) == bits(compared(shuffled(before), shuffled(after)))


@given(SIDE, SIDE, LOSSES, st.floats(0, 0.3))
def test_crossings_are_those_counted_by_hand(before, after, limit, margin):
    drift = compared(before, after, limit=limit, margin=margin)
    common = [(before[user], after[user]) for user in before.keys() & after.keys()]
    up = sum(was <= limit < now and round(now - was, 12) > margin for was, now in common)
    down = sum(now <= limit < was and round(was - now, 12) > margin for was, now in common)
    assert (drift.n_newly_exposed, drift.n_no_longer_exposed) == (up, down)


def test_a_crossing_within_the_intervals_is_noise():
    before, after = np.array([0.4, 0.4, 0.4, 0.7]), np.array([0.6, 0.6, 0.6, 0.3])
    ends = (
        ([0.3, 0.3, np.nan, 0.6], [0.5, 0.55, np.nan, 0.8]),
        ([0.51, 0.55, 0.1, 0.1], [0.7, 0.7, 0.9, 0.59]),
    )
    assert paired(before, after).n_newly_exposed == 3
    drift = paired(before, after, ends)
    assert drift.n_newly_exposed == 2  # the second touches; nothing is known of the third
    assert drift.n_no_longer_exposed == 1
    assert paired(before, after, ends, margin=0.25).n_newly_exposed == 0


def test_noise_alone_makes_almost_nobody_newly_exposed():
    """Intervals of 95 % that are apart: 1 in 180 by chance for a user on the limit itself."""
    rng = np.random.default_rng(8)
    before, after = np.clip(rng.normal(0.5, 0.05, (2, 20_000)), 0, 1)
    ends = [(np.clip(x - 0.098, 0, 1), np.clip(x + 0.098, 0, 1)) for x in (before, after)]
    users = np.arange(20_000)
    bare = compare_exposure((users, before), (users, after), limit=0.5)
    sure = compare_exposure(
        UserLosses(users, before, *ends[0]), UserLosses(users, after, *ends[1]), limit=0.5
    )
    assert bare.n_newly_exposed > 0.2 * 20_000
    assert sure.n_newly_exposed + sure.n_no_longer_exposed < 0.0075 * 20_000


def test_users_without_a_loss_are_not_seen():
    drift = paired([0.1, np.nan, 0.2], [0.3, 0.9, np.nan])
    assert (drift.n_common, drift.n_newly_exposed) == (1, 0)
    assert drift.change == pytest.approx(0.2)
    assert (drift.low, drift.high) == pytest.approx((0.025 * 1.2 - 1, 1 - 0.025 * 0.8))


def test_nothing_to_compare_is_not_a_number():
    drift = compare_exposure(([], []), ([3], [0.9]), limit=0.5)
    assert (drift.n_common, drift.n_newly_exposed, drift.n_no_longer_exposed) == (0, 0, 0)
    assert np.isnan([drift.change, drift.low, drift.high, drift.p_value]).all()


@pytest.mark.parametrize("n", [3, 6, 60])
def test_the_same_again_is_no_change(n):
    losses = np.linspace(0, 1, n)
    drift = paired(losses, losses)
    low, high = mean_interval(np.zeros(n), bounds=(-1, 1))
    assert drift == Drift(n, 0.0, low, high, 1.0, 0, 0)
    assert low < 0 < high


def test_a_pool_is_the_mean_over_the_releases_where_a_user_was_seen():
    releases = [([3, 1], [0.5, 0.1]), ([1, 2], [0.3, np.nan]), ([1, 3], [0.5, 0.6])]
    users, loss, *_ = pool_exposure(releases)
    assert users.tolist() == [1, 3]
    assert loss == pytest.approx([0.3, 0.55])
    assert users.dtype == np.int64


@given(st.lists(SIDE, max_size=5))
def test_a_pool_is_the_plain_mean(sides):
    users, loss, *_ = pool_exposure([split(side) for side in sides])
    assert users.tolist() == sorted(set().union(*sides))
    for user, mean in zip(users.tolist(), loss, strict=True):
        assert mean == pytest.approx(np.mean([side[user] for side in sides if user in side]))


@for_each(
    ("before", "after", "options", "message"),
    [
        (([0.5], [0.1]), ([1], [0.1]), {}, "before: users are row indices, whole numbers, not flo"),
        (
            ([True], [0.1]),
            ([1], [0.1]),
            {},
            "before: users are row indices, whole numbers, not boo",
        ),
        (([1], [0.1]), ([1, 1], [0.1, 0.2]), {}, "after: 1 users appear twice"),
        (([1], [0.1]), ([1, 2], [0.1]), {}, "after: users and losses must have one length, not"),
        (([1], [1.1]), ([1], [0.1]), {}, "before: a privacy loss must be between 0 and 1, not 1.1"),
        (
            ([1], [0.1]),
            ([1], [-0.1]),
            {},
            "after: a privacy loss must be between 0 and 1, not -0.1",
        ),
        (
            ([1], [0.1]),
            ([1], [0.1]),
            {"limit": np.nan},
            "limit must be a privacy loss between 0 and 1",
        ),
        (([1], [0.1]), ([1], [0.1]), {"margin": -1}, "margin must be at least 0, not -1"),
        (
            ([1], [0.1]),
            ([1], [0.1]),
            {"confidence": 1},
            "confidence must be strictly between 0 and 1",
        ),
        (
            ([1], [0.1]),
            ([1], [0.1], [0.1, 0.2], [0.3, 0.4]),
            {},
            "after: users and losses must have one length, not",
        ),
        (
            ([1], [0.1]),
            ([1], [0.1], [-1], [0.3]),
            {},
            "bounds after: a privacy loss must be between 0 and 1, not -1.0",
        ),
    ],
)
def test_nonsense_is_refused(before, after, options, message):
    with pytest.raises(InputError) as caught:
        compare_exposure(before, after, **{"limit": 0.5} | options)
    assert str(caught.value).startswith(message)


def test_a_bad_release_of_a_pool_is_named():
    with pytest.raises(
        InputError, match=r"release 1: a privacy loss must be between 0 and 1, not 2\.0"
    ):
        pool_exposure([([1], [0.2]), ([1], [2.0])])
