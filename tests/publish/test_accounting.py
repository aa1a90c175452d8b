"""Composition of releases, against the formula of the optimal one and by hand."""

import re
from math import comb, exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from oracles.publications import plan

from clusterscale.analyses.publish.series import Series, compose, spent_by, spent_on_person
from clusterscale.release import LedgerEntry

MOST = st.floats(0.05, 2.0)


def optimal(epsilon, k, delta):
    """Return the smallest ε of k releases of one ε, at δ (Kairouz et al. 2015, Theorem 3.3)."""
    for i in range(k // 2, -1, -1):
        lost = sum(
            comb(k, n) * (exp((k - n) * epsilon) - exp((k - 2 * i + n) * epsilon))
            for n in range(i)
        ) / (1 + exp(epsilon)) ** k  # fmt: skip
        if lost <= delta:
            return (k - 2 * i) * epsilon
    return k * epsilon


@for_each("k", [1, 2, 7, 52])
@for_each("epsilon", [0.1, 0.5, 1.0])
def test_it_is_not_below_the_optimal_composition_and_close_to_it(epsilon, k):
    exact = optimal(epsilon, k, 1e-6)
    found = compose([(epsilon, 0.0)] * k, 1e-6)
    assert found <= k * epsilon + 1e-12
    # Theorem 3.3 gives ε on a grid of 2ε; between its points, δ allows less.
    assert exact - 2 * epsilon <= found <= exact + 1e-2


@pytest.mark.parametrize(("epsilon", "k"), [(0.5, 2), (0.5, 7), (1.0, 3)])
def test_its_delta_is_that_of_the_pairs_of_randomised_response(epsilon, k):
    found, at = compose([(epsilon, 0.0)] * k, 1e-3), exp(epsilon) / (1 + exp(epsilon))
    loss = [comb(k, n) * at ** (k - n) * (1 - at) ** n for n in range(k + 1)]
    delta = sum(p * max(0.0, 1 - exp(found - (k - 2 * n) * epsilon)) for n, p in enumerate(loss))
    assert delta <= 1e-3 * (1 + 1e-9)


@given(st.lists(MOST, min_size=1, max_size=6))
def test_without_delta_values_of_epsilon_are_added_up(epsilons):
    assert compose([(each, 0.0) for each in epsilons], 0.0) == pytest.approx(sum(epsilons))


@given(st.lists(st.tuples(MOST, st.sampled_from([0.0, 1e-7])), min_size=1, max_size=5), MOST)
def test_another_release_never_spends_less(losses, more):
    before, after = compose(losses, 1e-5), compose([*losses, (more, 0.0)], 1e-5)
    assert after >= before - 1e-3
    assert after >= more - 1e-9


def test_more_delta_than_allowed_has_no_epsilon():
    assert compose([(1.0, 1e-5)], 1e-6) == np.inf
    assert compose([(1.0, 1e-5)], 1e-5) == 1.0
    assert compose([(1.0, 1e-6)] * 3, 1e-6) == np.inf
    assert compose([], 0.0) == 0.0
    assert compose([(400.0, 0.0)] * 3, 1e-6) == 1200.0


def entry(number, first, last, epsilon=1.0):
    text = {"content": "", "run": "", "rules": "", "period": str(number)}
    return LedgerEntry(
        number=number, start=0, stop=1, first_day=first, last_day=last, unit="user",
        epsilon=epsilon, **text,
    )  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4), MOST), min_size=1, max_size=6),
    st.sampled_from(["event", "user_day"]),
)
def test_days_are_spent_one_by_one(spans, unit):
    entries = [entry(i + 1, a, a + n, e) for i, (a, n, e) in enumerate(spans)]
    by_day = [sum(e for a, n, e in spans if a <= day <= a + n) for day in range(1, 15)]
    assert spent_by(entries, unit, 0.0) == pytest.approx(max(by_day))
    assert spent_by(entries, unit, 0.0, (3, 5)) == pytest.approx(max(by_day[2:5]))
    assert spent_by(entries, "user", 0.0) == pytest.approx(sum(e for *_, e in spans))


def test_the_delta_of_many_releases_is_their_sum():
    entries = [entry(i, i, i).model_copy(update={"delta": 1e-6}) for i in range(1, 53)]
    epsilon, delta = spent_on_person([(one, ()) for one in entries], 1e-5)
    assert delta == pytest.approx(5.2e-5)
    assert epsilon == compose([(1.0, 1e-6)] * 52, delta) < 52
    assert spent_on_person([(entries[0], ())], 1e-5) == (1.0, 1e-5)
    sure = entries[0].model_copy(update={"delta": 0.5})
    assert spent_on_person([(sure, ())] * 2, 0.0) == (np.inf, 1.0)


DAYS = "; other days have their own budget"
ALL = " for each user, by all releases of the series; about"


@pytest.mark.parametrize(
    ("unit", "spans", "told"),
    [
        (
            "user_day",
            [(1, 7, 1.0), (8, 14, 0.5)],
            f"ε 0.5 of 2 is spent for each user's day from 0001-01-08 to 0001-01-14{DAYS}",
        ),
        (
            "event",
            [(1, 7, 1.0), (7, 8, 0.5)],
            f"up to ε 1.5 of 2 is spent for each event from 0001-01-07 to 0001-01-08{DAYS}",
        ),
        (
            "user_day",
            [(3, 3, 0.5), (1, 7, 1.0)],
            f"up to ε 1.5 of 2 is spent for each user's day from 0001-01-01 to 0001-01-07{DAYS}",
        ),
        (
            "user",
            [(1, 7, 0.5), (8, 14, 0.5)],
            f"ε 1 of 2 is spent{ALL} 1 is left, for 2 more releases like this one",
        ),
        (
            "user",
            [(1, 7, 1.9), (8, 14, 0.1)],
            f"ε 2 of 2 is spent{ALL} 0 is left, for 0 more releases like this one",
        ),
        (
            "user",
            [(1, 7, 0.001)],
            f"ε 0.001 of 2 is spent{ALL} 1.999 is left, for at least 1,000 more releases like "
            "this one",
        ),
    ],
)
def test_whose_budget_is_spent_is_told(unit, spans, told, tmp_path):
    made = plan(tmp_path)
    budget = made.budget.model_copy(update={"unit": unit})
    series = Series(made.model_copy(update={"budget": budget}), "UTC")
    series.entries = [entry(i, *one) for i, one in enumerate(spans, 1)]
    assert series.describe_spent(series.entries[-1]) == told


def test_as_many_more_releases_are_told_as_are_allowed(tmp_path):
    """With a δ, more fit into the budget than by adding up."""
    budget = {"unit": "user", "epsilon": 2.0, "delta": 1e-5}
    series = Series(plan(tmp_path, budget=budget), "UTC")
    series.entries = [entry(1, 1, 7, 0.1)]
    n = int(re.search(r"for (\d+) more releases", series.describe_spent(series.entries[0]))[1])
    assert n > 19
    assert compose([(0.1, 0.0)] * (1 + n), 1e-5) <= 2.0 < compose([(0.1, 0.0)] * (2 + n), 1e-5)


def test_a_release_without_a_guarantee_spends_everything():
    assert spent_by([entry(1, 1, 2, None)], "user", 0.0) == np.inf
