"""The choice among attacks is cross-validation's, by scikit-learn and by dask-ml."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loops import mostly_slow
from oracles.plays import EXACT, deal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold

from clusterscale.attacks.cells import Cells
from clusterscale.attacks.closed_form import Contradiction, Projection
from clusterscale.attacks.learned import CrossValidated, Forest, Logistic, Nearest, Perceptron
from clusterscale.attacks.likelihood import Likelihood
from clusterscale.contracts import Examples, Release
from clusterscale.errors import InputError
from clusterscale.mechanisms.noise import LaplaceNoise

QUICK = (Logistic(), Nearest(), Forest(trees=5), Perceptron(hidden=20))
WORTHLESS = Nearest(neighbours=10_000)  # asks all groups and so always says one half


class Always:
    """Draws the same number for everyone, so that scores do not depend on who draws first."""

    def integers(self, high):
        return 12345 % high


def rng():
    return np.random.default_rng(5)


def examples(labels, blocks):
    release = Release(np.zeros((len(labels), 1, 1)), 5, "any")
    return Examples(release, np.asarray(labels, bool), np.asarray(blocks))


def mean_scores(candidates, knowledge, folds, draws):
    """Work out each candidate's mean AUC on held-out blocks; return it with the folds."""
    training = knowledge.training
    seed = int(draws.integers(2**31))
    parts = StratifiedGroupKFold(folds, shuffle=True, random_state=seed)
    pairs = list(parts.split(training.labels, training.labels, training.blocks))
    areas = np.zeros((folds, len(candidates)))
    for fold, (learn, check) in enumerate(pairs):
        known = replace(knowledge, training=training.take(learn))
        asked = training.take(check)
        for i, candidate in enumerate(candidates):
            scores = candidate.fit(known, rng=draws).score(asked.release)
            areas[fold, i] = roc_auc_score(asked.labels, scores)
    return areas.mean(axis=0), pairs


@st.composite
def divided(draw):
    """Draw labelled rows in blocks, enough of each label and enough blocks for the folds."""
    folds = draw(st.integers(2, 5))
    rows = draw(st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=40))
    rows += [(label, block) for block in range(folds) for label in (True, False)]
    return folds, *zip(*draw(st.permutations(rows)), strict=True)


@given(divided(), st.integers(0, 99))
def test_no_block_is_on_both_sides(case, seed):
    folds, labels, blocks = case
    training = examples(labels, blocks)
    parts = CrossValidated(folds=folds).split(training, rng=np.random.default_rng(seed))
    assert len(parts) == folds
    for learn, check in parts:
        assert not set(training.blocks[learn]) & set(training.blocks[check])
        assert len(learn) + len(check) == len(labels)
    checked = np.concatenate([check for _, check in parts])
    np.testing.assert_array_equal(np.sort(checked), np.arange(len(labels)))


@given(st.data(), st.integers(2, 10), st.booleans())
def test_both_labels_are_in_every_fold_of_balanced_blocks(data, folds, paired):
    """Blocks are pairs of either label, or the weeks of one group; half of all are inside."""
    more, n_weeks, seed = (data.draw(st.integers(*ends)) for ends in ((0, 30), (1, 4), (0, 99)))
    n_groups = 2 * (folds + more)
    labels = np.tile(np.arange(n_groups) % 2 == 0, n_weeks)
    blocks = np.tile(np.arange(n_groups) // (2 if paired else 1), n_weeks)
    draws = np.random.default_rng(seed)
    for part in CrossValidated(folds=folds).split(examples(labels, blocks), rng=draws):
        assert all(0 < labels[rows].sum() < len(rows) for rows in part)


@pytest.mark.parametrize(("folds", "sampling"), [(2, "independent"), (3, "paired")])
def test_the_highest_mean_on_held_out_groups_is_chosen(folds, sampling):
    attack = CrossValidated(candidates=QUICK[:3], folds=folds)
    chosen = set()
    for seed in range(3):
        knowledge = deal(seed, noise=LaplaceNoise(1.0), sampling=sampling).knowledge
        means, _ = mean_scores(QUICK[:3], knowledge, folds, rng())
        best = attack.choose(knowledge, rng=rng())
        assert best is attack.candidates[np.argmax(means)]
        chosen.add(best)
    assert len(chosen) > 1


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("good", [Projection(), Likelihood()], ids=lambda good: good.name)
def test_a_good_attack_is_chosen_over_a_worthless_one(good, order):
    """Even one that scores minus infinity where the target is ruled out."""
    attack = CrossValidated(candidates=(WORTHLESS, good)[::order])
    for seed in range(2):
        play = deal(seed)
        assert attack.choose(play.knowledge, rng=rng()) == good
    chosen, alone = (found.fit(play.knowledge, rng=rng()) for found in (attack, good))
    np.testing.assert_array_equal(chosen.score(play.challenge), alone.score(play.challenge))


def test_the_first_of_equals_is_chosen():
    attack = CrossValidated(candidates=(WORTHLESS, Nearest(neighbours=9_999)))
    assert attack.choose(deal(0).knowledge, rng=rng()) is attack.candidates[0]


def test_the_choice_is_made_on_training_groups_alone(monkeypatch):
    seen = []
    fit = Projection.fit

    def spied(self, knowledge, *, rng):
        seen.append(knowledge)
        return fit(self, knowledge, rng=rng)

    monkeypatch.setattr(Projection, "fit", spied)
    knowledge = deal(1, validate=True).knowledge
    CrossValidated(candidates=(Projection(), WORTHLESS)).fit(knowledge, rng=rng())
    *parts, whole = seen
    assert whole is knowledge, "what is chosen is trained on everything"
    halves = [part.training.blocks for part in parts]
    np.testing.assert_array_equal(np.sort(np.concatenate(halves)), knowledge.training.blocks)
    for part in parts:
        assert part.whereabouts is knowledge.whereabouts
        assert part.validation is None


@pytest.mark.parametrize(
    ("fields", "label", "needs_whereabouts", "validates"),
    [
        ({}, "cross_validated", False, False),
        ({"folds": 4}, "cross_validated(folds=4)", False, False),
        ({"candidates": (Cells(), Nearest())}, "cross_validated(cells | nearest)", False, True),
        (
            {"candidates": (QUICK[2], Contradiction()), "folds": 3},
            "cross_validated(forest(trees=5) | contradiction, folds=3)",
            True,
            False,
        ),
    ],
)
def test_what_candidates_need_the_choice_needs(fields, label, needs_whereabouts, validates):
    attack = CrossValidated(**fields)
    assert attack.label == label
    assert attack.needs_whereabouts == needs_whereabouts
    assert attack.validates == validates
    assert CrossValidated.model_validate(attack.model_dump(mode="json")) == attack


def test_the_candidates_are_the_classifiers_of_the_paper_unless_others_are_given():
    assert CrossValidated().candidates == (Logistic(), Nearest(), Forest(), Perceptron())


class Wrapped(ClassifierMixin, BaseEstimator):
    """One of our attacks as a classifier of rows, named by their numbers."""

    knowledge = None  # set by the test; not a parameter, lest it be copied for every fit

    def __init__(self, attack=None):
        self.attack = attack

    def fit(self, rows, labels):
        self.classes_ = np.array([False, True])
        training = self.knowledge.training.take(rows[:, 0])
        np.testing.assert_array_equal(training.labels, labels)
        self.fitted_ = self.attack.fit(replace(self.knowledge, training=training), rng=Always())
        return self

    def decision_function(self, rows):
        return self.fitted_.score(self.knowledge.training.release.take(rows[:, 0]))


@pytest.mark.dask
@mostly_slow("noise", [EXACT, LaplaceNoise(1.0)], ids=["exact", "laplace"])
def test_dask_ml_chooses_the_same(noise, monkeypatch):
    search = pytest.importorskip("dask_ml.model_selection").GridSearchCV
    knowledge = deal(0, noise=noise, size=5).knowledge
    monkeypatch.setattr(Wrapped, "knowledge", knowledge)
    means, folds = mean_scores(QUICK, knowledge, 2, Always())
    settings = {"cv": folds, "scoring": "roc_auc", "refit": False, "iid": False}
    grid = search(Wrapped(), {"attack": list(QUICK)}, scheduler="synchronous", **settings)
    rows = np.arange(len(knowledge.training.labels))[:, None]
    found = grid.fit(rows, knowledge.training.labels).cv_results_
    np.testing.assert_allclose(found["mean_test_score"], means)
    best = found["params"][np.argmin(found["rank_test_score"])]["attack"]
    assert CrossValidated(candidates=QUICK).choose(knowledge, rng=Always()) == best


def test_too_few_groups_for_the_folds_are_refused_with_the_number():
    training = deal().knowledge.training.take(np.arange(4))
    with pytest.raises(InputError, match=r"3 folds need as many groups .* there are only 2"):
        CrossValidated(folds=3).split(training, rng=np.random.default_rng(0))
