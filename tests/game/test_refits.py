"""Intervals of AUCs of attacks that are trained again without a part of their groups."""

import numpy as np
import pytest
from oracles.redraws import crowd, play_again
from scipy import special, stats

from clusterscale import attacks, mechanisms, priors
from clusterscale.contracts import GroupRequest, Release
from clusterscale.game import AttackEvaluation, study
from clusterscale.game.retraining import N_PARTS, refit_aucs
from clusterscale.metrics import auc, auc_degrees, auc_interval, auc_p_values, worst_interval
from clusterscale.metrics.intervals import delong
from clusterscale.seeds import stream

EXACT = mechanisms.create("exact")
LOGISTIC, PROJECTION = attacks.create("logistic"), attacks.create("projection")
KNOWN = priors.create("known_subset", alpha=0.5, training=40, challenges=20)


class Recorder:
    """Notes the groups that it is given, and scores by the sum of all counts."""

    id, trains, threshold = "recorder", True, 0.0

    def __init__(self):
        self.seen = []

    def fit(self, knowledge, *, rng):
        self.seen.append(knowledge.training)
        return self

    def score(self, release):
        return release.flat.sum(axis=1).astype(float)


def make_game(cube, prior=KNOWN, **options):
    request = GroupRequest(cube.traces(), 5, group_size=6, rng=stream(0, "groups"), **options)
    return prior.set_up(request)


@pytest.mark.parametrize("paired", [False, True])
def test_each_part_is_left_out_once_and_has_as_many_groups_of_both_kinds(cube, paired):
    prior = KNOWN.model_copy(update={"sampling": "paired" if paired else "independent"})
    game, recorder = make_game(cube, prior), Recorder()
    AttackEvaluation(game, EXACT, [recorder], seed=1, path=(), control=False)
    every, *parts = recorder.seen
    assert len(parts) == N_PARTS
    left_out = [set(every.blocks) - set(part.blocks) for part in parts]
    assert sorted(block for one in left_out for block in one) == sorted(set(every.blocks))
    for part in parts:
        assert (part.labels.sum(), len(part.labels)) == (16, 32)


def test_a_group_is_left_out_with_all_its_weeks(cube):
    weeks = [cube.traces(epochs=(0, 24)), cube.traces(epochs=(24, 48))]
    prior = priors.create("same_groups", beta=20)
    request = GroupRequest(weeks[1], 5, group_size=6, rng=stream(0, "groups"), past=weeks * 2)
    recorder = Recorder()
    evaluation = AttackEvaluation(
        prior.set_up(request), EXACT, [recorder], seed=1, path=(), control=False
    )
    assert next(evaluation.outcomes()).auc_degrees == np.inf, "each refit has the same scores"
    every, *parts = recorder.seen
    for part in parts:
        _, n_weeks = np.unique(part.blocks, return_counts=True)
        assert (n_weeks == 4).all()
        assert len(part.labels) == 0.8 * len(every.labels)


def test_the_interval_is_that_of_attacks_trained_by_hand(cube):
    game = make_game(cube)
    both = AttackEvaluation(game, EXACT, [PROJECTION, LOGISTIC], seed=1, path=("x",), control=False)
    closed, learned = both.outcomes()
    knowledge = study(game, EXACT, seed=1, path=("x",))
    release = Release(game.challenge.counts, 6, "exact", EXACT.noise)
    labels, path = game.challenge.labels, ("x", EXACT.id)

    def make_rng(use, *rest):
        return stream(1, use, *path, *rest)

    (refits,) = refit_aucs([LOGISTIC], knowledge, release, labels, make_rng=make_rng)
    trained = LOGISTIC.fit(knowledge, rng=stream(0, "x"))
    scores = trained.score(release)
    assert learned.auc == auc(labels, scores)
    area, variance, _ = delong(labels, scores)
    extra = (N_PARTS - 1) / N_PARTS * sum((refits - refits.mean()) ** 2)
    assert extra > 0
    degrees = (variance + extra) ** 2 / (extra**2 / (N_PARTS - 1))
    assert learned.auc_degrees == pytest.approx(degrees)
    reach = stats.t.isf(0.025, degrees) * (variance + extra) ** 0.5 / (area * (1 - area))
    ends = special.expit(special.logit(area) + np.array([-reach, reach]))
    assert (learned.auc_low, learned.auc_high) == pytest.approx(tuple(ends))
    assert closed.auc_degrees == np.inf
    (alone,) = AttackEvaluation(
        game, EXACT, [LOGISTIC], seed=1, path=("x",), control=False
    ).outcomes()
    assert (alone.auc_low, alone.auc_high) == (learned.auc_low, learned.auc_high)
    (plain,) = AttackEvaluation(
        game, EXACT, [LOGISTIC], seed=1, path=("x",), control=False, retrain=False
    ).outcomes()
    assert (plain.auc_low, plain.auc_high) == auc_interval(labels, scores, scale="odds")
    assert (plain.auc, plain.auc_degrees) == (learned.auc, np.inf)


def test_refits_that_differ_widen_the_interval_of_a_perfect_attack():
    labels = np.arange(200) % 2 == 0
    alone = auc_interval(labels, labels * 1.0, scale="odds")
    assert auc_interval(labels, labels * 1.0, scale="odds", refits=[1.0] * 5) == alone
    refits = [0.9, 1.0, 1.0, 1.0, 1.0]
    low, high = auc_interval(labels, labels * 1.0, scale="odds", refits=refits)
    error = 0.8 * sum((np.array(refits) - 0.98) ** 2)
    squared = (1 - alone[0]) ** 2 + stats.t.isf(0.025, 4) ** 2 * error
    assert (low, high) == (pytest.approx(1 - squared**0.5), 1.0)
    degrees = auc_degrees(labels, labels * 1.0, refits)
    assert degrees == 4
    p_value = float(auc_p_values(1.0, low, high, degrees=degrees))
    away = 0.25 / (1 - low) * stats.t.isf(0.025, 4)
    assert p_value == pytest.approx(stats.t.sf(away, 4))
    assert p_value > 0.75**100


def test_p_values_have_the_tails_of_few_degrees():
    odds = special.logit(0.9) - special.logit(0.75)
    error = odds / 3
    for degrees, expected in ((4.0, stats.t.sf(3, 4)), (np.inf, stats.norm.sf(3))):
        reach = stats.t.isf(0.025, degrees) * error
        low, high = special.expit(special.logit(0.9) + np.array([-reach, reach]))
        assert auc_p_values(0.9, low, high, degrees=degrees) == pytest.approx(expected)
    assert auc_p_values(0.9, 0.8, 0.95, degrees=np.nan) == 1, "an older version did not say"


@pytest.mark.parametrize("degrees", [6.0, np.inf])
def test_the_interval_of_the_worst_of_many_holds_the_largest_true_auc(degrees):
    """2,000 samples of 40 people; ends of 97.5 % each miss 80 or more once in 10,000 seeds."""
    rng = np.random.default_rng(3)
    for spread in (0.0, 0.05):
        true = np.clip(0.7 + spread * rng.normal(size=40), 0.5, 0.9)
        noise = rng.normal(size=(2000, 40)) if np.isinf(degrees) else rng.standard_t(6, (2000, 40))
        seen = true + 0.03 * noise
        reach = stats.t.isf(0.025, degrees) * 0.03
        ends = np.array([worst_interval(one, one - reach, one + reach, degrees) for one in seen])
        assert (ends[:, 1] < true.max()).sum() < 80
        assert (ends[:, 0] > true.max()).sum() < 80


@pytest.mark.slow
def test_the_interval_holds_the_mean_auc_of_all_draws():
    """60 draws: if 95 % hold it, fewer than 51 do once in 1,300 seeds."""
    case = ("same_groups", {"beta": 150}, 40, ("exact", {}), ["spectral", "nearest"])
    ends = [
        [(one.auc, one.auc_low, one.auc_high) for one in outcomes]
        for outcomes in play_again(crowd(), case, 60)
    ]
    area, low, high = np.moveaxis(np.array(ends), -1, 0)
    held = (low <= area.mean(axis=0)) & (area.mean(axis=0) <= high)
    assert (held.sum(axis=0) >= 51).all()
