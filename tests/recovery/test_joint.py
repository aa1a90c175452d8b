"""The joint assignment is the best there is, by trying every other."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from clusterscale.analyses.recovery import assign
from clusterscale.analyses.recovery.epoch_belief import EpochBelief
from clusterscale.analyses.recovery.strategies import Joint, _apportion, _supply


def best(prior, counts, supply):
    """Return the highest sum of gains over all assignments that keep both sides."""
    possible = [
        (u, s)
        for u, s in zip(*np.nonzero(prior[:, :-1]), strict=True)
        if counts[s] > 0 and supply[u] > 0
    ]
    if not possible:
        return 0.0
    logs = np.log([prior[pair] for pair in possible])
    gain, most = logs + 1 - 2 * logs.min(), 0.0
    for choice in product((False, True), repeat=len(possible)):
        table = np.zeros(prior[:, :-1].shape, int)
        for pair, taken in zip(possible, choice, strict=True):
            table[pair] = taken
        if (table.sum(axis=0) <= counts).all() and (table.sum(axis=1) <= supply).all():
            most = max(most, gain @ choice)
    return most


def value(prior, counts, supply, assigned):
    """Return the sum of gains of an assignment."""
    there = (prior[:, :-1] > 0) & (counts > 0) & (supply[:, None] > 0)
    if not there.any():
        return 0.0
    gain = np.log(prior[:, :-1], where=there, out=np.zeros(there.shape))
    return ((gain + 1 - 2 * gain[there].min()) * assigned[:, :-1])[there].sum()


@given(
    arrays.arrays(np.int64, (4, 4), elements=st.integers(0, 4)),
    arrays.arrays(np.int64, 4, elements=st.integers(0, 4)),
)
def test_no_assignment_is_more_probable(weights, counts):
    weights[:, 0] *= 1 + np.arange(4)  # no two ROIs alike
    prior = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    activity = np.array([9, 5, 5, 1])
    supply = _supply(EpochBelief.of_table(prior), counts, activity)
    assigned = assign(Joint(), prior[:, :, None], counts[:, None], activity)[:, :, 0] > 0
    assert (assigned[:, :-1].sum(axis=0) <= counts[:-1]).all()
    assert (assigned[:, :-1].sum(axis=1) <= supply).all()
    found = value(prior, counts[:-1], supply, assigned)
    assert found == pytest.approx(best(prior, counts[:-1], supply), abs=1e-6)


def test_supplies_meet_what_is_published():
    prior = np.array([[0.6, 0.4, 0.0], [0.3, 0.3, 0.4], [0.2, 0.0, 0.8], [0.0, 0.0, 1.0]])
    activity = np.array([50, 10, 5, 0])
    supply = _supply(EpochBelief.of_table(prior), np.array([2, 2, 2]), activity)
    assert supply.tolist() == [3, 1, 0, 0]  # two are nowhere, two visits are left to be shared
    assert _supply(EpochBelief.of_table(prior), np.array([2, 2, 9]), activity).tolist() == [0] * 4
    assert _apportion(np.array([1.0, 1.0, 2.0]), 5).tolist() == [1, 1, 3]


def test_where_all_rois_are_alike_as_many_visits_as_can_be_are_assigned():
    prior = np.zeros((3, 5, 1))
    prior[:2, :4] = 0.25
    prior[2, 4] = 1
    counts = np.array([2, 1, 1, 0, 1])[:, None]
    assigned = assign(Joint(), prior, counts, np.array([7, 7, 7])) > 0
    np.testing.assert_array_equal(assigned.sum(axis=(0, 2)), [2, 1, 1, 0, 1])
