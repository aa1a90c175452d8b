"""Where a published release stands among challenges, by counting them."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import draw_dense, write_cube
from hypothesis import assume, given
from hypothesis import strategies as st
from loops import for_each

from clusterscale import attacks, priors
from clusterscale.contracts import Bounds, GroupRequest, publish
from clusterscale.errors import InputError
from clusterscale.game import AttackEvaluation
from clusterscale.game.outcome import place_score
from clusterscale.groups import count_visits
from clusterscale.mechanisms import create
from clusterscale.seeds import stream

TARGET, SIZE = 4, 5
PATH = ("release", "known", SIZE, TARGET)
EXACT, NOISY = create("exact"), create("laplace", epsilon=2.0, unit="event")
BOUNDS = Bounds(event=1, user_day=30, user=60, series=20, rois=6, null_roi=False)
TRIED = (attacks.create("projection"), attacks.create("logistic"))
SCORES = st.integers(-3, 3).map(float)


@given(SCORES, SCORES, st.lists(st.tuples(st.booleans(), SCORES), min_size=2))
def test_shares_are_counted(score, threshold, challenges):
    labels = np.array([label for label, _ in challenges])
    assume(labels.any() and not labels.all())
    found = place_score("a", score, threshold, labels, np.array([each for _, each in challenges]))

    def share(side):
        others = [each for label, each in challenges if label == side]
        return sum(1.0 if each < score else 0.5 * (each == score) for each in others) / len(others)

    assert found.above_outside == pytest.approx(share(False))
    assert found.above_inside == pytest.approx(share(True))
    assert found.rank == pytest.approx((share(False) + share(True)) / 2)
    assert 0 <= found.rank <= 1
    assert found.says_inside == (score >= threshold)
    assert found.score == score


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    dense = draw_dense(np.random.default_rng(11), 40, 6, 24)
    return write_cube(str(tmp_path_factory.mktemp("crowd") / "cube"), dense).traces()


def game(traces, **options):
    prior = priors.create("known_subset", alpha=0.5, training=40, challenges=30)
    validate = any(attack.validates for attack in TRIED)
    rng = stream(3, "groups", *PATH)
    return prior.set_up(GroupRequest(traces, TARGET, group_size=SIZE, validate=validate, rng=rng))


def evaluation(traces, mechanism=EXACT, tried=TRIED):
    return AttackEvaluation(
        game(traces), mechanism, tried, seed=3, path=PATH, bounds=BOUNDS, control=False
    )  # fmt: skip


def test_a_challenge_that_is_published_scores_as_it_did(traces):
    """Of bare counts, the release of a challenge is that challenge."""
    asked, played = evaluation(traces), game(traces)
    scores = asked._table.scores
    for row in range(0, 30, 7):
        for i, found in enumerate(asked.score_release(played.challenge.counts[row].astype(float))):
            assert found.attack == TRIED[i].label
            assert found.score == pytest.approx(scores[i, row], abs=1e-9)
            labels = played.challenge.labels
            expected = place_score(found.attack, found.score, 0.0, labels, scores[i])
            assert found.rank == pytest.approx(expected.rank, abs=0.05)


@pytest.mark.parametrize("mechanism", [EXACT, NOISY])
def test_asking_changes_nothing(traces, mechanism):
    asked, other = evaluation(traces, mechanism), evaluation(traces, mechanism)
    values = game(traces).challenge.counts[0].astype(float)
    first = asked.score_release(values)
    assert asked.score_release(values) == first
    assert other.score_release(values) == first
    alone = evaluation(traces, mechanism, TRIED[1:])
    assert alone.score_release(values) == first[1:]

    def told(each):
        return [(found.auc, found.accuracy) for found in each.outcomes()]

    assert told(asked) == told(evaluation(traces, mechanism))


@pytest.mark.parametrize("mechanism", [EXACT, create("laplace", epsilon=20.0, unit="event")])
def test_who_is_inside_stands_above_who_is_not(traces, mechanism):
    """Groups that nobody trained on: with the target, and with somebody else in its place."""
    asked, rng = evaluation(traces, mechanism), np.random.default_rng(5)
    bound = mechanism.bind(BOUNDS)
    ranks = {True: [], False: []}
    for _ in range(40):
        others = rng.choice(np.setdiff1d(np.arange(40), TARGET), SIZE, replace=False)
        for inside in (True, False):
            members = np.array([TARGET, *others[1:]]) if inside else others
            counts = count_visits(traces, members[None])
            values = np.float64(publish(counts, bound, group_size=SIZE, rng=rng).values[0])
            ranks[inside].append(max(each.rank for each in asked.score_release(values)))
    assert np.mean(ranks[True]) - np.mean(ranks[False]) > 0.15


@for_each("shape", [(6, 23), (7, 24), (24, 6), (144,), (1, 6, 24)])
def test_another_shape_is_refused(traces, shape):
    with pytest.raises(InputError) as caught:
        evaluation(traces).score_release(np.zeros(shape))
    assert f"has shape {shape}, but exact publishes (6, 24) of this cube" in str(caught.value)
