"""Why counts are known, against all counts that are possible."""

import numpy as np
import pytest
from oracles.systems import possible, random_system

from clusterscale.release.intervals import bound_counts
from clusterscale.release.reasons import chain, conflict
from clusterscale.release.relations import Relations

MOST = 12  # counts of cells whose bounds are left out


def width(low, high, rows, cell):
    """Return the largest minus the least possible count; −1 if none is."""
    met = possible(low, high, rows)
    return int(np.ptp(met[:, cell])) if len(met) else -1


def without(low, high, rows, kept, cells):
    """Return a system of some rows, and of bounds of some cells."""
    free = ~np.isin(np.arange(len(low)), cells)
    return np.where(free, 0, low), np.where(free, MOST, high), [rows[r] for r in kept]


def check_minimal(low, high, rows, reasons, holds):
    """Check that rows and cells suffice, and that none of them can be left out."""
    kept, cells = reasons.relations.tolist(), reasons.cells.tolist()
    assert holds(*without(low, high, rows, kept, cells))
    for r in kept:
        assert not holds(*without(low, high, rows, [one for one in kept if one != r], cells))
    for cell in cells:
        assert not holds(*without(low, high, rows, kept, [one for one in cells if one != cell]))


def check(seed):
    """Check the reasons of one system; return how many there were of counts and contradictions."""
    low, high, rows = random_system(np.random.default_rng(seed), n_most=5)
    if seed % 3 == 0:
        low = high = np.minimum(low + seed % 2, high)
    relations = Relations.of(rows)
    found = bound_counts(low, high, relations)
    reasons = conflict(low, high, relations)
    assert (reasons is None) == (found.contradiction is None)
    if reasons is not None:
        check_minimal(low, high, rows, reasons, lambda *system: not len(possible(*system)))
        return np.array([0, 1])
    narrowed = np.flatnonzero(found.high - found.low < high - low)
    for cell in narrowed.tolist():
        most = int(found.high[cell] - found.low[cell])
        reasons = chain(low, high, relations, cell, width=most)
        check_minimal(
            low,
            high,
            rows,
            reasons,
            lambda *system, cell=cell, most=most: width(*system, cell) <= most,
        )
    return np.array([len(narrowed), 0])


def test_reasons_suffice_and_are_minimal():
    assert sum(check(seed) for seed in range(21)).min() > 2


@pytest.mark.slow
def test_reasons_of_200_systems():
    for seed in range(21, 221):
        check(seed)


def test_by_hand():
    """ES22 at 8:00 is 3: ES2 shows 14, ES21 shows 11; no more is needed."""
    rows = Relations.of([(0, [1, 4], True), (1, [2, 3], True), (5, [6, 7], True)])
    low, high = np.array([20, 14, 11, 0, 6, 9, 4, 5]), np.array([20, 14, 11, 4, 6, 9, 4, 5])
    reasons = chain(low, high, rows, 3, width=0)
    assert (reasons.relations.tolist(), reasons.cells.tolist()) == ([1], [1, 2])
    reasons = chain(low, high, rows, 2, width=0)  # it is published
    assert (reasons.relations.tolist(), reasons.cells.tolist()) == ([], [2])


def test_a_count_of_margins():
    """Three hidden corners of a rectangle: two relations and what they share suffice for one."""
    cells = np.arange(42).reshape(6, 7)
    true = np.random.default_rng(1).integers(5, 20, (6, 7))
    hidden = np.isin(cells, [cells[0, 1], cells[0, 4], cells[3, 1]])
    rows = Relations.of((42 + i, line, True) for i, line in enumerate([*cells, *cells.T]))
    sums = np.concatenate([true.sum(1), true.sum(0)])
    low, high = (np.concatenate([np.where(hidden, end, true).ravel(), sums]) for end in (0, 1_000))
    reasons = chain(low, high, rows, int(cells[0, 1]), width=0)
    assert len(reasons.relations) == 2
    assert not np.isin(np.flatnonzero(hidden), reasons.cells).any()


def test_a_conflict_is_found_in_its_network():
    """Of two tables with margins, the second contradicts: the first has no part in the reasons."""
    rows, low, high = [], [], []
    for sums in ([3, 3, 2, 4], [5, 3, 2, 4]):
        first = len(low)
        lines = [(0, 1), (2, 3), (0, 2), (1, 3)]
        rows += [(first + 4 + i, [first + a, first + b], True) for i, (a, b) in enumerate(lines)]
        low, high = [*low, 0, 0, 0, 0, *sums], [*high, 9, 9, 9, 9, *sums]
    reasons = conflict(np.array(low), np.array(high), Relations.of(rows))
    assert reasons.relations.tolist() == [4, 5, 6, 7]
    assert reasons.cells.tolist() == [12, 13, 14, 15]
