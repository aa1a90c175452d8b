"""What relations say of hidden counts, against all counts that are possible."""

import pickle

import numpy as np
import pytest
from oracles.systems import possible, random_system

from clusterscale.release.intervals import bound_counts
from clusterscale.release.relations import Relations


def compare(seed):
    """Check one system; return how many counts are hidden, and how many of them are determined."""
    low, high, rows = random_system(np.random.default_rng(seed))
    found, met = bound_counts(low, high, Relations.of(rows)), possible(low, high, rows)
    if not len(met):
        assert found.contradiction is not None, seed
        return 0, 0
    assert found.contradiction is None, seed
    assert found.exact.all(), seed
    np.testing.assert_array_equal(found.low, met.min(axis=0), err_msg=str(seed))
    np.testing.assert_array_equal(found.high, met.max(axis=0), err_msg=str(seed))
    rough = bound_counts(low, high, Relations.of(rows), most=0)  # without integer programs
    assert (rough.low <= found.low).all(), seed
    assert (rough.high >= found.high).all(), seed
    same, open_ = rough.low == rough.high, found.low == found.high
    assert (same == open_)[rough.settled].all(), seed
    for one, other in ((rough.low, found.low), (rough.high, found.high)):
        np.testing.assert_array_equal(one[rough.exact], other[rough.exact], err_msg=str(seed))
    for width in (0, 2):  # where two counts further apart are enough
        loose = bound_counts(low, high, Relations.of(rows), enough=width)
        narrow = found.high - found.low <= width
        assert loose.settled.all(), seed
        assert (narrow == (loose.high - loose.low <= width)).all(), seed
        for one, other in ((loose.low, found.low), (loose.high, found.high)):
            np.testing.assert_array_equal(one[narrow], other[narrow], err_msg=str(seed))
        assert (loose.low <= found.low).all(), seed
        assert (loose.high >= found.high).all(), seed
    return int((low < high).sum()), int((same & (low < high)).sum())


def test_ranges_are_those_of_all_possible_counts():
    seen = np.sum([compare(seed) for seed in range(40)], axis=0)
    assert seen.min() > 10


@pytest.mark.slow
def test_ranges_of_500_systems():
    for seed in range(40, 540):
        compare(seed)


@pytest.mark.parametrize(
    ("rows", "low", "high", "expected"),
    [
        # ES2 shows 14 and ES21 11: ES22 is 3.
        ([(0, [1, 2], True)], [14, 11, 0], [14, 11, 4], ([14, 11, 3], [14, 11, 3])),
        # The same of persons, who may be in both.
        ([(0, [1, 2], False)], [14, 11, 0], [14, 11, 4], ([14, 11, 3], [14, 11, 4])),
        # 50 of everyone and 45 of residents: 5 visitors, by way of a second level.
        (
            [(0, [1, 2], True), (2, [3, 4], True)],
            [50, 45, 0, 3, 0],
            [50, 45, 50, 3, 4],
            ([50, 45, 5, 3, 2], [50, 45, 5, 3, 2]),
        ),
    ],
)
def test_by_hand(rows, low, high, expected):
    found = bound_counts(np.array(low), np.array(high), Relations.of(rows))
    assert (found.low.tolist(), found.high.tolist()) == expected


def test_margins_of_hidden_corners():
    """Four hidden cells at the corners of a rectangle are not determined by margins; three are."""
    true = np.random.default_rng(1).integers(5, 20, (6, 7))
    true[np.ix_([0, 3], [1, 4])] = [[1, 2], [3, 4]]
    cells = np.arange(true.size).reshape(true.shape)
    sums = np.concatenate([true.sum(1), true.sum(0)])
    rows = Relations.of((true.size + i, line, True) for i, line in enumerate([*cells, *cells.T]))
    for n_hidden in (4, 3):
        hidden = np.zeros(true.shape, bool)
        hidden[np.ix_([0, 3], [1, 4])] = np.arange(4).reshape(2, 2) < n_hidden
        low, high = np.where(hidden, 0, true), np.where(hidden, 4, true)
        ends = (np.concatenate([end.ravel(), sums]) for end in (low, high))
        found = bound_counts(*ends, rows)
        assert found.exact.all()
        determined = (found.low == found.high)[: true.size].reshape(true.shape)
        assert determined[hidden].all() == (n_hidden == 3)
        assert determined[hidden].any() == (n_hidden == 3)


def test_counts_of_strata_in_crossing_trees():
    """Strata of places and hours with totals: three relations a count, no programs."""
    rng = np.random.default_rng(0)
    for i in range(20):
        true = rng.integers(0, 4, (2, 3))
        women = rng.binomial(true, 0.5)
        cells = np.arange(6).reshape(2, 3)
        counts = np.concatenate(
            [each.ravel() for each in (true, women, true - women, true.sum(1), true.sum(0))]
        )
        rows = [(18 + j, line.tolist(), True) for j, line in enumerate([*cells, *cells.T])]
        rows += [(cell, [6 + cell, 12 + cell], i % 2 == 0) for cell in range(6)]  # or persons
        hidden = (rng.random(23) < 0.6) & (np.arange(23) < 18)
        low, high = np.where(hidden, 0, counts), np.where(hidden, 3, counts)
        relations = Relations.of(rows)
        found, exact = (
            bound_counts(low, high, relations, most=0),
            bound_counts(low, high, relations),
        )
        assert found.settled.all()
        assert exact.exact.all()
        np.testing.assert_array_equal(found.low == found.high, exact.low == exact.high)


def test_ranges_are_sought_where_they_are_wanted():
    rows = [(0, [1, 2], True), (0, [1, 3], True), (0, [2, 3], True), (4, [5, 6, 7], False)]
    low, high = np.zeros(8, int), np.array([9, 9, 9, 9, 9, 9, 9, 9])
    found = bound_counts(low, high, Relations.of(rows), wanted=np.array([2]))
    assert found.exact.tolist() == [True, False, True, False, True, True, True, True]
    assert found.high[2] == 4


def test_each_component_is_a_task_that_can_be_sent():
    rows = [(4 * i, [4 * i + 1 + j for j in pair], True)
            for i in range(2) for pair in ((0, 1), (0, 2), (1, 2))]  # fmt: skip
    low, high, relations = np.zeros(8, int), np.full(8, 9), Relations.of(rows)
    tasks = []

    def run(function, items):
        tasks.extend(pickle.dumps((function, item)) for item in items)
        results = [function(item) for function, item in map(pickle.loads, tasks)]
        return pickle.loads(pickle.dumps(results))

    sent, here = bound_counts(low, high, relations, run=run), bound_counts(low, high, relations)
    assert len(tasks) == 2
    assert here.high[[1, 5]].tolist() == [4, 4]
    for name in ("low", "high", "exact", "settled"):
        np.testing.assert_array_equal(getattr(sent, name), getattr(here, name))


@pytest.mark.parametrize("n_levels", [2, 3])
def test_ranges_where_levels_and_hours_cross_are_found_by_flows(n_levels):
    """Sums over hours at every level follow from those of the lowest."""
    rng = np.random.default_rng(n_levels)
    counts, n_hours = [rng.integers(0, 7, (8, 4))], 4
    for _ in range(n_levels - 1):
        counts.append(counts[-1][::2] + counts[-1][1::2])
    counts = [np.c_[level, level.sum(1)] for level in counts]
    first, rows = 0, []
    for level in counts:
        cells = first + np.arange(level.size).reshape(level.shape)
        rows += [(row[n_hours], row[:n_hours], True) for row in cells]
        first += level.size
        above = first + np.arange(level.size // 2)
        if level is not counts[-1]:
            pairs = cells.reshape(-1, 2, n_hours + 1)
            rows += [
                (w, p, True)
                for w, p in zip(above, pairs.transpose(0, 2, 1).reshape(-1, 2), strict=True)
            ]
    flat = np.concatenate([level.ravel() for level in counts])
    hidden = flat < 5
    low, high = np.where(hidden, 0, flat), np.where(hidden, 4, flat)
    relations = Relations.of(rows)
    assert relations.independent.all() == (n_levels == 2)  # in which no count is in three sums
    flows, programs = (bound_counts(low, high, relations, most=most) for most in (0, 400))
    assert flows.exact.all()
    np.testing.assert_array_equal(flows.low, programs.low)
    np.testing.assert_array_equal(flows.high, programs.high)
    monkey = Relations(relations.whole, relations.parts, relations.offsets, relations.adds)
    monkey.__dict__["independent"] = np.ones(len(rows), bool)  # found by programs, then
    by_programs = bound_counts(low, high, monkey)
    np.testing.assert_array_equal(flows.low, by_programs.low)
    np.testing.assert_array_equal(flows.high, by_programs.high)


def test_a_wrong_hierarchy_is_a_contradiction():
    found = bound_counts(
        np.array([10, 6, 6]), np.array([10, 6, 6]), Relations.of([(0, [1, 2], True)])
    )
    assert found.contradiction == 0
