"""The closed forms are the formulas they claim to be, and an alibi is never false."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles.dense import traces_of
from oracles.plays import EXACT, blind, deal

from clusterscale.attacks import create
from clusterscale.contracts import NO_NOISE, Examples, Knowledge, Release, TargetKnowledge
from clusterscale.errors import InputError
from clusterscale.groups import count_visits
from clusterscale.mechanisms.noise import GaussianNoise, LaplaceNoise

RNG = np.random.default_rng(0)  # none of them draws from it


def holding(trace, *, complete=True, shape=(1, 3), size=3):
    """Return knowledge of a trace whose training groups say nothing."""
    release = Release(np.zeros((2, *shape), np.int32), size, "exact", EXACT)
    whereabouts = TargetKnowledge(
        np.array(trace, np.int64), complete, np.full(shape, 2, np.int32), 4
    )
    return Knowledge(Examples(release, np.array([True, False]), np.arange(2)), whereabouts)


def says_inside(knowledge, values, size, noise=EXACT):
    alibi = create("contradiction").fit(knowledge, rng=RNG)
    return alibi.score(Release(values, size, "any", noise)) >= alibi.threshold


def test_projection_by_hand():
    seen = np.array([[2, 0], [1, 1]], np.int32)
    trace = np.array([0, 3])  # in ROI 0 at epoch 0 and in ROI 1 at epoch 1
    values = np.array([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [2.0, 0.0]]])
    training = Examples(Release(values, 3, "exact"), np.array([True, False]), np.arange(2))
    knowledge = Knowledge(training, TargetKnowledge(trace, True, seen, 4))
    distinguisher = create("projection").fit(knowledge, rng=RNG)
    direction = np.array([0.5, 0.0, -0.25, 0.75])
    np.testing.assert_allclose(
        distinguisher.score(training.release), values.reshape(2, 4) @ direction
    )
    assert distinguisher.threshold == (1.75 - 0.5) / 2
    assert seen[0, 0] == 2, "the knowledge must not be written to"


def variance_by_hand(noise, size, chance, values):
    match noise:
        case None:
            mean = sum(values) / len(values)
            found = sum((value - mean) ** 2 for value in values) / len(values)
            return max(found, chance * (1 - chance))
        case _ if noise == NO_NOISE:
            return size * chance * (1 - chance)
        case LaplaceNoise(scale):
            return size * chance * (1 - chance) + 2 * scale**2
        case GaussianNoise(scale):
            return size * chance * (1 - chance) + scale**2


@pytest.mark.parametrize("noise", [EXACT, LaplaceNoise(1.5), GaussianNoise(4.0), None])
def test_diagonal_divides_each_cell_by_its_variance(noise):
    play = deal(1, noise=noise)
    training, where = play.knowledge.training, play.knowledge.whereabouts
    known, asked = training.release.flat.tolist(), play.challenge.flat.tolist()
    weights = []
    for cell, mean in enumerate(where.mean_trace.ravel().tolist()):
        seen = round(mean * where.n_users)
        chance = (seen + 0.5) / (where.n_users + 1)
        spread = variance_by_hand(noise, 8, chance, [row[cell] for row in known])
        weights.append(((cell in where.trace) - mean) / spread)

    def total(rows):
        return np.array([sum(w * x for w, x in zip(weights, row, strict=True)) for row in rows])

    distinguisher = create("diagonal").fit(play.knowledge, rng=RNG)
    np.testing.assert_allclose(distinguisher.score(play.challenge), total(asked), rtol=1e-9)
    inside, outside = (total(known)[training.labels == side].mean() for side in (True, False))
    assert distinguisher.threshold == pytest.approx((inside + outside) / 2)


def test_diagonal_finds_variances_in_wide_releases_too():
    """Of more cells than are looked at in one go."""
    rng = np.random.default_rng(2)
    values = rng.normal(scale=rng.gamma(2.0, size=(3, 1700)), size=(6, 3, 1700))
    release = Release(values, 5, "unknown")
    where = TargetKnowledge(np.arange(0, 5100, 3), True, np.full((3, 1700), 2, np.int32), 8)
    knowledge = Knowledge(Examples(release, np.arange(6) % 2 == 0, np.arange(6)), where)
    chance = (0.25 * 8 + 0.5) / 9
    spread = np.maximum(values.reshape(6, -1).var(axis=0), chance * (1 - chance))
    weights = ((np.arange(5100) % 3 == 0) - 0.25) / spread
    found = create("diagonal").fit(knowledge, rng=RNG).score(release)
    np.testing.assert_allclose(found, values.reshape(6, -1) @ weights, rtol=1e-9)


@pytest.mark.parametrize("complete", [True, False])
def test_contradiction_is_that_no_other_members_could_explain_the_counts(complete):
    """All counts of three members in three cells, against all traces of the other two."""
    traces = list(itertools.product([0, 1], repeat=3))
    counts = np.array(list(itertools.product(range(4), repeat=3)), np.int32)
    for told in traces:
        possible = {
            tuple(np.add(own, np.add(first, second)))
            for own in traces
            if own == told or (not complete and np.all(np.array(own) >= told))
            for first, second in itertools.product(traces, repeat=2)
        }
        knowledge = holding(np.flatnonzero(told), complete=complete)
        expected = [tuple(row) in possible for row in counts.tolist()]
        found = says_inside(knowledge, counts[:, None, :], 3)
        np.testing.assert_array_equal(found, expected)


def test_an_incomplete_trace_ignores_where_the_target_was_not_seen():
    everyone = np.array([[[1, 0, 3]]], np.int32)
    assert not says_inside(holding([0]), everyone, 3)
    assert says_inside(holding([0], complete=False), everyone, 3)
    assert not says_inside(holding([1], complete=False), everyone, 3)


@pytest.mark.parametrize("noise", [LaplaceNoise(1.0), GaussianNoise(1.0), None])
def test_altered_counts_contradict_nothing(noise):
    alibi = create("contradiction").fit(holding([0]), rng=RNG)
    values = np.array([[[0.0, 3.0, 3.0]], [[1.0, 0.0, 0.0]]])
    np.testing.assert_array_equal(alibi.score(Release(values, 3, "noisy", noise)), [0, 0])


@st.composite
def groups_with_the_target(draw):
    """Draw a cube, with or without a null ROI, a group with user 0, and what is known of it."""
    shape = draw(st.tuples(st.integers(2, 5), st.integers(1, 4), st.integers(1, 5)))
    dense = draw(arrays(np.bool_, shape))
    traces = traces_of(dense)
    if draw(st.booleans()):
        wider = traces_of(np.pad(dense, [(0, 0), (0, 1), (0, 0)]))
        traces = replace(wider, idle=~dense.any(axis=1))
    others = draw(st.sets(st.integers(1, len(dense) - 1)))
    whole = traces.trace(0)
    kept = draw(arrays(np.bool_, len(whole)))
    return traces, np.array([[0, *sorted(others)]]), whole[kept], bool(kept.all())


@given(groups_with_the_target())
def test_no_contradiction_where_the_target_is_inside(case):
    traces, members, trace, complete = case
    shape = (traces.n_rois, traces.n_epochs)
    counts = count_visits(traces, members)
    size = members.shape[1]
    for claim in {complete, False}:
        knowledge = holding(trace, complete=claim, shape=shape, size=size)
        assert says_inside(knowledge, counts, size).all()


@pytest.mark.parametrize("name", ["projection", "diagonal", "contradiction"])
def test_nothing_is_known_of_the_target(name):
    with pytest.raises(InputError, match="needs the target's location"):
        create(name).fit(blind(deal(0).knowledge), rng=RNG)
