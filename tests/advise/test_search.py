"""The rules of the search, against definitions and by simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.analyses.advise.fronts import front_of, halve, layers, next_batch

POINTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=25)


def axes(points):
    return np.array(points, np.float64).T


def by_definition(points):
    """Peel off, one after another, those that no other of the rest beats."""
    layer, left, number = [None] * len(points), set(range(len(points))), 0
    while left:
        best = {
            i for i in left
            if not any(
                points[j][0] >= points[i][0]
                and points[j][1] <= points[i][1]
                and points[j] != points[i]
                for j in left
            )
        }  # fmt: skip
        for i in best:
            layer[i] = number
        left, number = left - best, number + 1
    return layer


@given(POINTS)
def test_layers_are_those_of_the_definition(points):
    assert layers(*axes(points)).tolist() == by_definition(points)


@given(POINTS, st.integers(1, 8))
def test_half_is_kept_and_the_best_of_both_axes_with_it(points, n_least):
    scores, exposures = axes(points)
    kept = halve(scores, exposures, n_least)
    assert len(kept) == min(len(points), max(n_least, -(-len(points) // 2)))
    assert scores[kept].max() == scores.max()
    layer = layers(scores, exposures)
    left_out = np.setdiff1d(np.arange(len(points)), kept)
    if len(left_out):
        assert layer[kept].max() <= layer[left_out].min()


@given(POINTS)
def test_along_the_front_scores_and_exposures_fall(points):
    scores, exposures = axes(points)
    front = front_of(scores, exposures)
    assert (np.diff(scores[front]) <= 0).all()
    assert (np.diff(exposures[front]) <= 0).all()


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 5))
def test_the_first_that_passes_is_found_with_few_attacks(n, first, size):
    passes = [i >= first for i in range(n)]
    known, n_batches = [None] * n, 0
    while batch := next_batch(known, size):
        assert all(known[i] is None for i in batch)
        for i in batch:
            known[i] = passes[i]
        n_batches += 1
    found = next((i for i, one in enumerate(known) if one), None)
    assert found == (first if first < n else None)
    assert n_batches <= np.log(n + 1) / np.log(size + 1) + 2


@pytest.mark.parametrize("size", [1, 4])
def test_without_candidates_nobody_is_attacked(size):
    assert next_batch([], size) == []
