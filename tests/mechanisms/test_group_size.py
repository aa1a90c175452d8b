"""Which mechanisms hide a member better in a larger group, by enumeration."""

import numpy as np
import pytest
from oracles.entries import NEEDED
from scipy import stats

from clusterscale.mechanisms import MECHANISMS

P, LARGEST = 0.2, 24  # that somebody is in the cell, and the largest group

MONOTONE = {
    "exact", "laplace", "truncated_laplace", "gaussian",
    "cap_contributions", "coarsen_space", "coarsen_time", "sample_traces",
}  # fmt: skip


def advantages(outputs):
    """Return how well the best adversary tells whether a member is in one cell, by group size.

    ``outputs`` are the probabilities of each output, shape (count, output). Members are drawn
    independently; the target takes the place of one of them.
    """
    found = []
    for size in range(2, LARGEST + 1):
        out = stats.binom.pmf(np.arange(len(outputs)), size, P)
        inside = np.append(0, stats.binom.pmf(np.arange(len(outputs) - 1), size - 1, P))
        found.append(np.abs((inside - out) @ outputs).sum() / 2)
    return np.array(found)


def deterministic(mechanism):
    counts = np.arange(LARGEST + 1)
    values = mechanism.release(counts.reshape(1, -1).astype(np.int32), group_size=LARGEST,
                               rng=np.random.default_rng(0))[0]  # fmt: skip
    return (values[:, None] == np.unique(values)).astype(float)


def with_noise(mechanism):
    grid = np.arange(-60.0, 60.0 + LARGEST)
    return (
        mechanism.law(LARGEST)
        .likelihood(np.tile(grid[:, None], (1, 1)), np.arange(LARGEST + 1)[None])[:, 0]
        .T
    )


def test_which_mechanisms_hide_more_in_larger_groups():
    found = {
        name
        for name in MECHANISMS
        if MECHANISMS.create(name, **NEEDED.get(name, {})).hides_more_in_larger_groups
    }
    assert found == MONOTONE
    capped = {"name": "cap_contributions", "per_day": 3}
    noise = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
    for steps, monotone in (
        ([capped, noise], True),
        ([capped, noise | {"clip": True}], False),
        ([noise, {"name": "threshold", "k": 5}], False),
    ):
        assert MECHANISMS.create("chain", steps=steps).hides_more_in_larger_groups == monotone


@pytest.mark.parametrize("integers", ["round", "floor"])
def test_sums_of_contributions_and_noise_are_monotone(integers):
    noise = {"epsilon": 1.0, "unit": "event", "sensitivity": 1.0}
    whole = MECHANISMS.create("laplace", discrete=True, **noise)
    rounded = MECHANISMS.create("laplace", integers=integers, **noise)
    for outputs in (np.eye(LARGEST + 1), with_noise(whole), with_noise(rounded)):
        assert (np.diff(advantages(outputs)) < 1e-9).all()
    assert whole.hides_more_in_larger_groups
    assert rounded.hides_more_in_larger_groups


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("threshold", {"k": 5}),
        ("suppress_small", {"below": 5}),
        ("fixed_ranges", {"size": 8}),
        ("round_to_base", {"base": 8, "rule": "nearest"}),
    ],
)
def test_functions_of_a_count_are_not_monotone(name, fields):
    mechanism = MECHANISMS.create(name, **fields)
    assert not mechanism.hides_more_in_larger_groups
    assert np.diff(advantages(deterministic(mechanism))).max() > 0.005
