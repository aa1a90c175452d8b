"""A play is fair: same groups for all, fresh noise, answers out of reach."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from clusterscale import attacks, mechanisms, priors
from clusterscale.contracts import GroupRequest, publish
from clusterscale.game import AttackEvaluation, play
from clusterscale.metrics import (
    accuracy,
    auc_interval,
    calibrated_counts,
    epsilon_lower_bound,
    tpr_at_fpr,
)
from clusterscale.seeds import stream

PRIOR = priors.create("known_subset", alpha=0.5, training=40, challenges=20)
EXACT = mechanisms.create("exact")
NOISY = mechanisms.create("laplace", epsilon=1.0, unit="event")


@pytest.fixture
def game(cube):
    return PRIOR.set_up(GroupRequest(cube.traces(), 5, group_size=6, rng=stream(0, "groups")))


class Spy:
    """Keeps what it was given."""

    name = id = label = "spy"
    trains = False

    def __init__(self):
        self.seen = []

    def fit(self, knowledge, *, rng):
        self.seen.append(knowledge)
        return attacks.create("projection").fit(knowledge, rng=rng)


def test_challenges_hold_only_strangers_and_the_target(cube, dense):
    game = PRIOR.set_up(GroupRequest(cube.traces(), 5, group_size=6, rng=stream(0, "groups")))
    assert game.adversary.training.counts.any()
    places = game.adversary.whereabouts
    assert places.n_users == round(0.5 * cube.n_users)
    n_seen = places.mean_trace * places.n_users
    np.testing.assert_allclose(n_seen, np.round(n_seen), atol=1e-9)
    np.testing.assert_array_equal(places.trace, np.flatnonzero(dense[5]))


def test_noise_is_fresh_for_training_and_challenge_and_each_mechanism(game):
    spy = Spy()
    list(play(game, [EXACT, NOISY], [spy], seed=1, path=(), control=False))
    raw, noisy = (knowledge.training.release.values for knowledge in spy.seen)
    assert raw is game.adversary.training.counts, "counts that nothing is done to are not copied"
    assert (noisy != raw).mean() > 0.99
    assert spy.seen[1].training.release.mechanism == "laplace(epsilon=1.0, unit='event')"


def test_control_knowledge_says_nothing(game):
    spy = Spy()
    list(play(game, [EXACT], [spy], seed=1, path=()))
    knowledge, worthless = spy.seen
    for side in (True, False):
        assert worthless.training.labels[knowledge.training.labels == side].mean() == 0.5
    assert worthless.training.release is knowledge.training.release


def test_outcomes_do_not_depend_on_company(game):
    """One attack alone, or among others and in another order: the same bits."""
    logistic, projection = attacks.create("logistic"), attacks.create("projection")
    together = {
        (outcome.mechanism, outcome.attack): (outcome.auc, outcome.accuracy, outcome.control_auc)
        for outcome in play(game, [NOISY, EXACT], [projection, logistic], seed=4, path=("x", 1))
    }
    for mechanism in (EXACT, NOISY):
        for attack in (logistic, projection):
            (alone,) = play(game, [mechanism], [attack], seed=4, path=("x", 1))
            assert together[mechanism.id, attack.id] == (
                alone.auc,
                alone.accuracy,
                alone.control_auc,
            )


def test_without_control_there_is_none(game):
    (outcome,) = play(game, [EXACT], [attacks.create("projection")], seed=4, path=(), control=False)
    assert np.isnan(outcome.control_auc)
    assert outcome.auc > 0.9
    assert 0.5 < outcome.accuracy <= 1


PROJECTION = attacks.create("projection")


def test_every_statistic_is_that_of_the_scores(game):
    """Worked out anew from what the attack says of the challenges."""
    (outcome,) = AttackEvaluation(game, EXACT, [PROJECTION], seed=4, path=()).outcomes()
    challenge = publish(game.challenge.counts, EXACT, group_size=6, rng=stream(0, "x"))
    knowledge = game.adversary.study(challenge, EXACT, rng=stream(0, "x"))
    distinguisher = PROJECTION.fit(knowledge, rng=stream(0, "x"))
    labels = game.challenge.labels
    scores = distinguisher.score(challenge)
    low, high = auc_interval(labels, scores, scale="odds")
    assert (outcome.auc_low, outcome.auc_high) == (low, high)
    assert outcome.auc_low <= outcome.auc <= outcome.auc_high
    assert outcome.accuracy == accuracy(labels, scores, distinguisher.threshold)
    assert outcome.tpr == tpr_at_fpr(labels, scores, 0.1)
    assert outcome.epsilon_lower == epsilon_lower_bound(labels, scores)
    inside, outside = calibrated_counts(labels, scores)
    assert outcome.level_inside == tuple(inside)
    assert outcome.level_outside == tuple(outside)
    assert outcome.n_challenges == 20


def test_the_naive_adversary_adds_up_what_is_published(game):
    outcomes = list(play(game, [EXACT, NOISY], [PROJECTION, attacks.create("logistic")],
                         seed=4, path=()))  # fmt: skip
    for mechanism in (EXACT, NOISY):
        noise = stream(4, "noise", mechanism.id, "challenge")
        values = publish(game.challenge.counts, mechanism, group_size=6, rng=noise).values
        naive = roc_auc_score(game.challenge.labels, values.sum(axis=(1, 2)))
        told = [o.naive_auc for o in outcomes if o.mechanism == mechanism.id]
        assert told == pytest.approx([naive] * 2, abs=1e-12), "the same for every attack"


def test_the_rate_is_the_one_that_was_asked_for(game):
    contest = AttackEvaluation(game, EXACT, [PROJECTION], seed=4, path=())
    tprs = [next(contest.outcomes(false_positive_rate=rate)).tpr for rate in (0.05, 0.1, 0.5, 1.0)]
    assert np.isnan(tprs[0]), "ten challenges without the target cannot show one in twenty"
    assert tprs[1] <= tprs[2] <= tprs[3] == 1


def test_what_four_challenges_do_not_tell_is_not_a_number(cube):
    prior = PRIOR.model_copy(update={"challenges": 4})
    game = prior.set_up(GroupRequest(cube.traces(), 5, group_size=6, rng=stream(0, "groups")))
    (outcome,) = play(game, [EXACT], [PROJECTION], seed=4, path=())
    assert np.isnan(outcome.tpr)
    assert np.isnan(outcome.absent_auc), "the game has no groups with a stand-in"
    assert outcome.epsilon_lower == 0
    assert outcome.auc_high - outcome.auc_low > 0.5
    assert sum(outcome.level_inside) == 2
    assert sum(outcome.level_outside) == 1


@pytest.mark.parametrize(("name", "bounds_epsilon"), [("perfect", False), ("known_subset", True)])
def test_groups_that_were_learnt_by_heart_bound_no_epsilon(cube, name, bounds_epsilon):
    """Noise that hides a user tenfold still shows which of two learnt groups it is."""
    hides = mechanisms.create("laplace", epsilon=0.1, sensitivity=48.0)
    fields = {"perfect": {"groups": 60}, "known_subset": {"alpha": 0.5, "challenges": 60}}
    prior = priors.create(name, **fields[name])
    game = prior.set_up(GroupRequest(cube.traces(), 5, group_size=6, rng=stream(0, "groups")))
    (outcome,) = play(game, [hides], [PROJECTION], seed=4, path=())
    assert np.isfinite(outcome.epsilon_lower) == bounds_epsilon
    if bounds_epsilon:
        assert outcome.epsilon_lower <= 0.2


def test_without_control_nothing_extra_is_trained_or_scored(cube):
    spies = []
    for control in (True, False):
        spy = Spy()
        streams = {"control": stream(0, "stand-ins")}
        game = PRIOR.set_up(
            GroupRequest(
                cube.traces(),
                5,
                group_size=6,
                rng=stream(0, "groups"),
                **(streams if control else {}),
            )
        )
        (outcome,) = play(game, [EXACT], [spy], seed=1, path=(), control=control)
        spies.append((len(spy.seen), outcome))
    assert [n for n, _ in spies] == [2, 1]
    with_control, without = (outcome for _, outcome in spies)
    assert with_control.auc == without.auc
    for name in ("control_auc", "absent_auc", "naive_auc"):
        assert np.isfinite(getattr(with_control, name))
        assert np.isnan(getattr(without, name))
