"""Which further cells to hide, against all choices."""

from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
import scipy

from clusterscale.errors import InputError
from clusterscale.release.intervals import bound_counts
from clusterscale.release.relations import Relations
from clusterscale.release.repair import RepairProblem, find_repair

SIZE = 60  # people of the group
TOO_LONG = SimpleNamespace(status=1, x=None)  # result of a program


def levels(rng):
    """Return counts and relations of two levels and their total."""
    leaf = rng.integers(0, 9, 7)
    middle = np.array([leaf[:3].sum(), leaf[3:].sum()])
    rows = [(7, [0, 1, 2], True), (8, [3, 4, 5, 6], True), (9, [7, 8], True)]
    return np.concatenate([leaf, middle, [middle.sum()]]), rows


def margins(rng):
    """Return counts and relations of a table with totals of rows and columns, which are shown."""
    leaf = rng.integers(0, 9, (3, 3))
    cells = np.arange(9).reshape(3, 3)
    rows = [(9 + i, line.tolist(), True) for i, line in enumerate([*cells, *cells.T])]
    return np.concatenate([leaf.ravel(), leaf.sum(1), leaf.sum(0)]), rows


def strata(rng):
    """Return counts and relations of a level with two strata and their totals, and of persons."""
    leaf = rng.integers(0, 6, (2, 3))
    both, sums, union = leaf.sum(0), leaf.sum(1), leaf.sum(0).max() + 1
    rows = [(6 + i, [i, 3 + i], True) for i in range(3)]
    rows += [(9, [0, 1, 2], True), (10, [3, 4, 5], True), (11, [6, 7, 8], False)]
    return np.concatenate([leaf.ravel(), both, sums, [union]]), rows


def problem_of(seed, margin=0):
    rng = np.random.default_rng(seed)
    counts, rows = (levels, margins, strata)[seed % 3](rng)
    hidden = (counts < 4) & (np.arange(len(counts)) < 9)
    low, high = np.where(hidden, 0, counts), np.where(hidden, 3, counts)
    n_may = len(counts) - 6 * (seed % 3 == 1)
    return RepairProblem(
        low=low,
        high=high,
        relations=Relations.of(rows),
        protect=hidden,
        hidden_low=np.zeros_like(low),
        hidden_high=np.full_like(high, SIZE),
        cost=np.ones(len(low)) if seed % 2 else 1.0 + counts,
        may_hide=~hidden & (np.arange(len(low)) < n_may),
        width=2 * margin,
    )


def known(problem, hide):
    """Return the protected cells that are known if some are hidden."""
    hidden = np.isin(np.arange(len(problem.low)), hide)
    found = bound_counts(*problem.bounds(hidden), problem.relations)
    assert found.exact.all()
    return np.flatnonzero(problem.protect & (found.high - found.low <= problem.width))


def least_cost(problem, left, most):
    """Return the least cost of hiding cells so that no others than those left are known."""
    cells = np.flatnonzero(problem.may_hide)
    costs = np.inf
    for n in range(len(cells) + 1):
        for hide in combinations(cells, n):
            cost = problem.cost[list(hide)].sum()
            if cost < min(costs, most) and np.isin(known(problem, hide), left).all():
                costs = cost
        if n * problem.cost[cells].min(initial=np.inf) >= min(costs, most):
            break
    return min(costs, most)


def check(seed, margin=0):
    """Check one repair; return its cost, and the least."""
    problem = problem_of(seed, margin)
    repair = find_repair(problem)
    np.testing.assert_array_equal(known(problem, repair.hide), repair.left)
    assert problem.may_hide[repair.hide].all()
    np.testing.assert_array_equal(  # these are known whatever is hidden
        repair.left, known(problem, np.flatnonzero(problem.may_hide))
    )
    for cell, protects in zip(repair.hide, repair.protects, strict=True):
        assert protects in known(problem, np.setdiff1d(repair.hide, cell))
    cost = problem.cost[repair.hide].sum()
    return cost, least_cost(problem, repair.left, cost)


def test_repair_protects_all_and_costs_least():
    costs = np.array([check(seed) for seed in range(9)])
    assert (costs[:, 0] > 0).sum() > 3
    np.testing.assert_allclose(costs[:, 0], costs[:, 1])


@pytest.mark.slow
def test_cost_of_100_systems():
    costs = np.array([check(seed) for seed in range(9, 109)])
    assert (costs[:, 0] <= 1.15 * costs[:, 1]).all()


def test_counts_are_not_known_within_a_margin():
    costs = np.array([check(seed, margin=1) for seed in range(6)])
    assert (costs[:, 0] > 0).sum() > 3
    np.testing.assert_allclose(costs[:, 0], costs[:, 1])


def costs_of_programs(monkeypatch, n_values, near):
    """Return the costs of repairs by programs of some size, with and without a margin."""
    monkeypatch.setattr("clusterscale.release.repair._MOST_VALUES", n_values)
    monkeypatch.setattr("clusterscale.release.repair._NEAR", near)
    costs = []
    for seed in range(24):
        problem = problem_of(seed, margin=seed % 2)
        repair = find_repair(problem)
        np.testing.assert_array_equal(known(problem, repair.hide), repair.left)
        costs.append(problem.cost[repair.hide].sum())
    return np.array(costs)


def test_a_program_for_each_count_costs_little_more_than_one_for_all(monkeypatch):
    least = costs_of_programs(monkeypatch, 600, 200)
    assert least.sum() <= costs_of_programs(monkeypatch, 1, 5).sum() <= 1.15 * least.sum()
    pruned = costs_of_programs(monkeypatch, 1, 200)
    assert (pruned >= least).all()
    monkeypatch.setattr("clusterscale.release.repair._Search.show_again", lambda search: None)
    assert pruned.sum() < costs_of_programs(monkeypatch, 1, 200).sum()


def test_cells_are_hidden_along_cycles_in_large_networks(monkeypatch):
    monkeypatch.setattr("clusterscale.release.repair._MANY", 0)
    costs = []
    for seed in range(24):
        problem = problem_of(seed, margin=seed % 4 == 3)
        repair = find_repair(problem)
        assert set(known(problem, repair.hide)) <= set(repair.left)
        assert problem.protect[repair.protects].all()
        np.testing.assert_array_equal(repair.left, known(problem, np.flatnonzero(problem.may_hide)))
        cost = problem.cost[repair.hide].sum()
        costs.append((cost, least_cost(problem, repair.left, cost)))
    costs = np.array(costs)
    assert costs[:, 0].sum() <= 1.15 * costs[:, 1].sum()


@pytest.mark.parametrize(
    ("counts", "most", "zeros", "n_theirs"),
    [  # young and old people of Iceland, Portugal and Spain; EU and nonEU; and totals
        ([2, 0, 5, 3, 4, 6], 2, True, 5),
        ([2, 0, 5, 3, 4, 6], 4, False, 4),
        ([0, 0, 5, 3, 4, 6], 2, True, 7),
    ],
)
def test_as_many_cells_as_gauss_suppression(counts, most, zeros, n_theirs):
    """Examples of GaussSuppression, whose output lists the cells that it hides (vignette)."""
    leaf = np.array(counts).reshape(2, 3)
    table = np.c_[leaf, leaf[:, :1], leaf[:, 1:].sum(1), leaf.sum(1)]
    table = np.r_[table, table.sum(0)[None]]
    cells = np.arange(table.size).reshape(table.shape)
    rows = [(line[3], [line[0]], True) for line in cells]
    rows += [(line[4], line[1:3], True) for line in cells]
    rows += [(line[5], line[3:5], True) for line in cells]
    rows += [(line[2], line[:2], True) for line in cells.T]
    flat = table.ravel()
    hidden = (flat <= most) & (zeros | (flat > 0))
    problem = RepairProblem(
        low=np.where(hidden, 0, flat),
        high=np.where(hidden, SIZE, flat),
        relations=Relations.of(rows),
        protect=hidden,
        hidden_low=np.zeros_like(flat),
        hidden_high=np.full_like(flat, SIZE),
        cost=np.ones(flat.size),
        may_hide=~hidden & (zeros | (flat > 0)),
    )
    repair = find_repair(problem)
    assert len(known(problem, repair.hide)) == len(repair.left) == 0
    assert 0 < len(repair.hide) <= n_theirs


def test_counts_without_two_possible_values_are_left(monkeypatch):
    """Persons in crossing sums: cells are hidden, unless programs take too long."""
    rows = [(0, [1, 2], False), (0, [1, 3], True), (0, [2, 4], True), (5, [1, 4, 6], True)]
    counts = np.array([5, 3, 3, 2, 2, 12, 7])
    hidden = np.arange(7) < 5
    problem = RepairProblem(
        low=np.where(hidden, 0, counts),
        high=np.where(hidden, 5, counts),
        relations=Relations.of(rows),
        protect=hidden,
        hidden_low=np.zeros(7, int),
        hidden_high=np.full(7, SIZE),
        cost=np.ones(7),
        may_hide=~hidden,
    )
    assert len(find_repair(problem).left) == 0
    solve = scipy.optimize.milp
    for only_hides in (True, False):  # programs that hide cells, and those for possible counts too

        def stop(cost, *, only_hides=only_hides, **given):
            return TOO_LONG if cost.any() or not only_hides else solve(cost, **given)

        monkeypatch.setattr(scipy.optimize, "milp", stop)
        repair = find_repair(problem)
        assert repair.left.tolist() == [0, 1, 2, 3, 4]
        assert len(repair.hide) == 0


def test_relations_that_contradict_are_refused():
    one = np.ones(3, int)
    problem = RepairProblem(
        one, one, Relations.of([(0, [1, 2], True)]), one > 0, 0 * one, 9 * one, one / 1, one > 0
    )
    with pytest.raises(InputError, match="relations contradict"):
        find_repair(problem)
