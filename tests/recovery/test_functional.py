"""Priors, strategies and errors of PETS17 against what the paper writes, number by number."""

from functools import partial
from math import e, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from loops import for_each
from oracles import recovery as oracle

from clusterscale.analyses import recovery
from clusterscale.analyses.recovery.strategies import MaxRoi
from clusterscale.errors import InputError

LEARNT = {
    "freq_roi": oracle.freq_roi,
    "roi_day": partial(oracle.roi_season, cycle=24),
    "roi_day_week": partial(oracle.roi_season, cycle=168),
    "time_day": partial(oracle.time_season, cycle=24),
    "time_day_week": partial(oracle.time_season, cycle=168),
}
REMEMBERED = {"last_week": 168, "last_day": 24, "last_hour": 1}


@pytest.fixture(scope="module")
def traces():
    rng = np.random.default_rng(5)
    busy = rng.random((12, 1, 200)) < rng.random((12, 1, 1))
    return recovery.with_null((rng.random((12, 6, 200)) < 0.3) & busy)


@for_each("name", LEARNT)
@for_each("observed", [168, 180])  # 180: not a whole number of days or weeks
def test_what_is_learnt(traces, name, observed):
    n_epochs = traces.shape[2] - observed
    seen = traces[:, :, :observed]
    found = recovery.learn(name, seen, n_epochs)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, LEARNT[name](seen, n_epochs), atol=1e-15)
    np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize(("name", "lag"), REMEMBERED.items())
def test_what_is_remembered(traces, name, lag):
    found = recovery.remember(name, traces, 30)
    np.testing.assert_array_equal(found, traces[:, :, 170 - lag : 200 - lag])


def test_popular_and_every_are_thresholds():
    shares = np.array([0.0, 0.2, 0.5, 1.0, 0.0])[:, None]
    assert recovery.popular(shares)[:, 0].tolist() == [False, False, True, True, False]
    assert recovery.popular(shares, 0.2)[:, 0].tolist() == [False, True, True, True, False]
    assert recovery.every(shares)[:, 0].tolist() == [False, True, True, True, False]
    for wrong in (0, 1.1, -1, np.nan):
        with pytest.raises(InputError, match="threshold"):
            recovery.popular(shares, wrong)
    with pytest.raises(InputError, match=r"shape \(…, roi, epoch\), not \(4,\)"):
        recovery.popular(np.ones(4))


def test_where_no_roi_is_popular_a_user_is_in_the_null_roi():
    """Users, ROIs and epochs: three ROIs, the last of which is null."""
    shares = np.array([[[0.4, 0.6], [0.4, 0.0], [0.2, 0.4]]])
    assert recovery.popular(shares)[0].T.tolist() == [[False, False, True], [True, False, False]]


sizes = st.tuples(st.integers(1, 7), st.integers(2, 5), st.integers(1, 4))


@st.composite
def cases(draw):
    """A prior with many ties, what is published, and how active users are."""
    shape = draw(sizes)
    weights = draw(arrays.arrays(np.int64, shape, elements=st.integers(0, 3)))
    prior = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    counts = st.integers(-1, shape[0] + 1)
    aggregate = draw(arrays.arrays(np.int64, shape[1:], elements=counts))
    activity = draw(arrays.arrays(np.int64, shape[0], elements=st.integers(0, 3)))
    truth = recovery.with_null(draw(arrays.arrays(np.bool_, (shape[0], shape[1] - 1, shape[2]))))
    return prior, aggregate, activity, truth


@pytest.mark.slow
@given(cases())
def test_strategies_are_those_of_the_paper(case):
    prior, aggregate, activity, _ = case
    counts = np.clip(aggregate, 0, len(prior))
    np.testing.assert_allclose(
        recovery.bayes(prior, aggregate),
        oracle.bayes(prior, np.maximum(aggregate, 0)),
        atol=1e-15,
    )
    for name in ("max_roi", "max_user"):
        found = getattr(recovery, name)(prior, aggregate, activity)
        np.testing.assert_array_equal(found, getattr(oracle, name)(prior, counts, activity))


@given(cases())
def test_no_more_than_published_are_assigned(case):
    prior, aggregate, activity, _ = case
    for strategy in (recovery.max_roi, recovery.max_user):
        assigned = strategy(prior, aggregate, activity)
        assert (assigned[:, :-1].sum(axis=0) <= np.maximum(aggregate[:-1], 0)).all()
        assert (assigned.sum(axis=1) > 0).all()


@given(cases())
def test_a_posterior_sums_to_one_or_to_nothing(case):
    prior, aggregate, _, _ = case
    total = recovery.bayes(prior, aggregate).sum(axis=1)
    assert (np.isclose(total, 1) | (total == 0)).all()


@given(cases(), st.randoms(use_true_random=False))
def test_users_have_no_order_beyond_their_activity(case, random):
    prior, aggregate, _, _ = case
    activity = np.arange(len(prior))  # without ties, which are decided by index
    order = random.sample(range(len(prior)), len(prior))
    for name in ("max_roi", "max_user"):
        strategy = getattr(recovery, name)
        found = strategy(prior[order], aggregate, activity[order])
        np.testing.assert_array_equal(found, strategy(prior, aggregate, activity)[order])
    np.testing.assert_array_equal(
        recovery.bayes(prior[order], aggregate), recovery.bayes(prior, aggregate)[order]
    )


@given(cases(), st.sampled_from([2, e, 10]))
def test_errors_are_those_of_scipy_and_scikit_learn(case, base):
    prior, _, _, truth = case
    found = recovery.profiling_error(truth, prior, base=base)
    np.testing.assert_allclose(found, oracle.profiling_error(truth, prior, base), atol=2e-8)
    for told in (recovery.popular(prior), recovery.every(prior)):
        found = recovery.localization_error(truth, told)
        np.testing.assert_allclose(found, oracle.localization_error(truth, told), atol=1e-12)


def test_a_profile_without_mass_is_as_far_as_can_be():
    truth = recovery.with_null(np.zeros((1, 2, 1), bool))
    assert recovery.profiling_error(truth, np.zeros(truth.shape)) == [1]
    assert recovery.profiling_error(np.zeros(truth.shape, bool), truth) == [1]
    assert recovery.profiling_error(truth, ~truth) == [1]
    assert recovery.profiling_error(truth, ~truth, base=e) == [sqrt(log(2))]


def test_a_clockwork_user_is_known_but_to_who_knows_the_hour_before():
    """Two ROIs in turn, one hour each, for four weeks."""
    bare = np.zeros((1, 2, 672), bool)
    bare[0, np.arange(672) % 2, np.arange(672)] = True
    there = recovery.with_null(bare)
    seen, truth = there[:, :, :504], there[:, :, 504:]
    seldom = sqrt((log(4 / 3) + log(2 / 3) / 2 + log(2) / 2) / 2)  # (1, 0) beside (½, ½)
    shares = recovery.learn("freq_roi", seen, 168)
    assert recovery.profiling_error(truth, shares, base=e) == pytest.approx(seldom)
    assert recovery.profiling_error(truth, recovery.learn("roi_day_week", seen, 168)) == [0]
    for name, error in (("last_week", 0), ("last_day", 0), ("last_hour", 1)):
        told = recovery.remember(name, there, 168)
        assert recovery.localization_error(truth, told) == [error]


def test_losses_and_gains_are_shares():
    loss = recovery.privacy_loss([0.5, 0.5, 0.0, 0.2], [0.25, 0.6, 0.3, 0.0])
    assert loss.tolist() == [0.5, 0, 0, 1]
    gain = recovery.privacy_gain([0.5, 0.5, 1.0, 0.2], [0.75, 0.4, 1.0, 1.0])
    assert gain.tolist() == [0.5, 0, 0, 1]


@for_each(
    ("call", "what"),
    [
        (lambda t: recovery.with_null(t.astype(int)), "bool"),
        (lambda t: recovery.with_null(t[0]), r"\(user, roi, epoch\)"),
        (lambda t: recovery.learn("freq_roi", ~t, 3), "with_null"),
        (lambda t: recovery.learn("freq_roi", t, 0), "at least one"),
        (lambda t: recovery.learn("roi_day", t[:, :, :23], 3), "roi_day needs 24 observed epochs"),
        (lambda t: recovery.remember("last_week", t, 40), "last_week needs 168 observed epochs"),
        (lambda t: recovery.bayes(t * 1.0, t[0, :-1]), r"\(roi, epoch\)"),
        (lambda t: recovery.bayes(t * -1.0, t[0]), "non-negative"),
        (
            lambda t: recovery.bayes(t * 1.0, np.where(t[0], np.nan, 1)),
            "a finite value for every",
        ),
        (lambda t: recovery.max_roi(t * 1.0, t[0], np.zeros(3, int)), "12 users"),
        (lambda t: recovery.max_user(t * 1.0, t[0], np.zeros(12)), "must be an integer"),
        (lambda t: recovery.profiling_error(t, t[:3]), "the same shape"),
        (lambda t: recovery.profiling_error(t * 1.0, t), "bool"),
        (lambda t: recovery.profiling_error(t, t, base=1), "base"),
        (lambda t: recovery.profiling_error(t, t * -1.0), "non-negative"),
        (lambda t: recovery.localization_error(t, t * 0.3), "popular or every"),
    ],
)
def test_what_is_wrong_is_said(traces, call, what):
    with pytest.raises(InputError, match=what):
        call(traces)


def test_ties_are_decided_by_activity_or_by_an_order_that_has_nothing_to_do_with_it():
    """Of 200 equal users a count of 60 takes the most active, or about as many of each half."""
    n_users, count = 200, 60
    activity = np.arange(n_users)[::-1]
    equal = np.full((n_users, 2, 1), 0.5)
    first, any_order = (
        recovery.assign(MaxRoi(ties=ties), equal, [[count], [0]], activity)[:, 0, 0] > 0
        for ties in ("activity", "arbitrary")
    )
    assert first[:count].all()
    assert any_order.sum() == first.sum() == count
    assert any_order[: n_users // 2].sum() == pytest.approx(count / 2, abs=12)  # three deviations
    rng = np.random.default_rng(3)
    distinct = rng.permuted(np.arange(1.0, n_users + 1)).reshape(-1, 1, 1) * np.ones((1, 2, 1))
    same = [
        recovery.assign(MaxRoi(ties=ties), distinct, [[count], [0]], activity)
        for ties in ("activity", "arbitrary")
    ]
    np.testing.assert_array_equal(*same)
