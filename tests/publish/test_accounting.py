"""Composition of releases, against the formula of the optimal one and by hand."""

import re
from math import comb, exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each
from oracles.publications import plan

from clusterscale.analyses.publish.series import Series
from clusterscale.analyses.publish.spending import compose, spent_by, spent_on_person
from clusterscale.contracts import Bounds
from clusterscale.mechanisms import create
from clusterscale.mechanisms.accounting import concentrated_epsilon, gaussian_epsilon, rho_of_unit
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
    exact = create("exact")  # as entries of users do not depend on the mechanism
    epsilon, delta = spent_on_person([(one, exact) for one in entries], 1e-5)
    assert delta == pytest.approx(5.2e-5)
    assert epsilon == compose([(1.0, 1e-6)] * 52, delta) < 52
    assert spent_on_person([(entries[0], exact)], 1e-5) == (1.0, 1e-5)
    sure = entries[0].model_copy(update={"delta": 0.5})
    assert spent_on_person([(sure, exact)] * 2, 0.0) == (np.inf, 1.0)


def gaussian(**fields):
    """Return a mechanism of days with discrete normal noise, bound."""
    noise = {"name": "gaussian", "epsilon": 0.5, "delta": 1e-5, "discrete": True, **fields}
    steps = [{"name": "cap_contributions", "per_day": 1}, {"unit": "user_day", **noise}]
    return create("chain", steps=steps).bind(Bounds(1, 1, 1, 1, 1, False))


@for_each("n", [1, 2, 14, 52])
def test_gaussian_releases_compose_by_their_law(n):
    """n releases are one with √n times the shift: its ε, of normal noise, is a lower bound."""
    mechanism, delta = gaussian(), n * 1e-5
    rho = rho_of_unit(mechanism)
    found = compose([(0.5, 1e-5, rho)] * n, delta)
    exact = gaussian_epsilon(1 / (2 * rho * n) ** 0.5, delta)
    assert exact <= found <= max(0.5, 1.2 * exact)
    assert found == max(0.5, concentrated_epsilon(n * rho, delta))
    if n > 1:
        assert found < compose([(0.5, 1e-5)] * n, delta) < 0.5 * n, "less than their sum"


@given(st.lists(st.tuples(st.sampled_from([0.1, 0.5]), st.booleans()), min_size=1, max_size=5))
def test_with_other_noise_normal_noise_never_spends_more_than_by_its_epsilon(releases):
    rho = {each: rho_of_unit(gaussian(epsilon=each)) for each in (0.1, 0.5)}
    losses = [(each, 1e-5, rho[each]) if normal else (each, 0.0) for each, normal in releases]
    found = compose(losses, 1e-4)
    assert found <= compose([one[:2] for one in losses], 1e-4) + 1e-9
    assert found >= max(one[0] for one in losses)
    assert compose([*losses, (0.1, 1e-5, rho[0.1])], 1e-4) >= found - 1e-3


def test_a_delta_that_only_the_law_keeps_within():
    """Five times 1e-5 is above the budget; the loss of all at that δ is known nevertheless."""
    rho = rho_of_unit(gaussian())
    assert compose([(0.5, 1e-5)] * 5, 4e-5) == np.inf
    assert 0.5 < compose([(0.5, 1e-5, rho)] * 5, 4e-5) < 1.5
    assert compose([(0.5, 1e-5, rho), (0.1, 5e-5)], 4e-5) == np.inf
    assert compose([(0.5, 1e-5, rho)], 0.0) == np.inf


def test_a_person_is_counted_on_the_days_of_all_releases_by_one_accountant():
    """Two weeks of (.5, 1e-5) a day are at most (7, 1.4e-4), and less by the law of the noise."""
    mechanism, laplace = gaussian(), create("laplace", epsilon=0.5, unit="event", discrete=True)
    weeks = [entry(1, 1, 7, 0.5), entry(2, 8, 14, 0.5)]
    weeks = [one.model_copy(update={"unit": "user_day", "delta": 1e-5}) for one in weeks]
    epsilon, delta = spent_on_person([(one, laplace) for one in weeks], 0.0)
    assert (epsilon, delta) == (pytest.approx(7, abs=1e-3), pytest.approx(1.4e-4))
    days = [one.model_copy(update={"first_day": one.last_day - 6}) for one in weeks]
    assert spent_on_person([(one, laplace) for one in days], 0.0) == (epsilon, delta)
    normal = [one.model_copy(update={"rho": rho_of_unit(mechanism)}) for one in weeks]
    by_law = spent_on_person([(one, mechanism) for one in normal], 0.0)
    assert by_law == (compose([(0.5, 1e-5, rho_of_unit(mechanism))] * 14, delta), delta)
    assert by_law[0] < 2
    pure = [one.model_copy(update={"delta": 0.0}) for one in weeks]
    assert spent_on_person([(one, laplace) for one in pure], 0.0) == (7.0, 0.0)


def test_seals_of_entries_of_other_noise_are_as_they_were():
    one = entry(1, 1, 7)
    assert one.sealed().seal == "c27d279db74ca600de4b1cb8d358902d"
    other = one.model_copy(update={"rho": 0.1}).sealed()
    assert other.is_sealed
    assert not other.model_copy(update={"rho": 0.2}).is_sealed
    assert not other.model_copy(update={"rho": None}).is_sealed


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
