"""Attacks that train once, or for each release: when they train, on what, and whose time it is."""

import weakref

import numpy as np
import pytest

from clusterscale.contracts import NO_NOISE, Examples, Knowledge, Release
from clusterscale.game import attack_evaluation
from clusterscale.game.attack_evaluation import (
    RetrainPerRelease,
    ScoreTable,
    TrainingInput,
    TrainOnce,
    join,
)


class Clock:
    """Seconds that pass only when somebody says so."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    """Time as the ensembles see it."""
    found = Clock()
    monkeypatch.setattr(attack_evaluation, "perf_counter", found)
    return found


class Weigher:
    """An attack whose scores tell what it was trained on, and with which generator."""

    needs_whereabouts = validates = False

    def __init__(self, clock, seconds):
        self.name = self.label = f"weigher{seconds}"
        self.clock, self.seconds, self.n_fits = clock, seconds, 0

    def fit(self, knowledge, *, rng):
        self.clock.now += self.seconds
        self.n_fits += 1
        return Weight(self.clock, float(knowledge.training.release.values.sum()), rng.random())


class Weight:
    """Scores are sums of what is published, times a weight, and a draw."""

    def __init__(self, clock, weight, threshold):
        self.clock, self.weight, self.threshold = clock, weight, threshold

    def score(self, release):
        self.clock.now += 0.5 * len(release.values)
        return self.weight * release.flat.sum(axis=1) + self.threshold


def release_of(*values):
    """Groups of one, counted in one cell."""
    return Release(np.array(values, np.int32)[:, None, None], 1, "exact", NO_NOISE)


def know(*values):
    release = release_of(*values)
    n_groups = len(release.values)
    return Knowledge(Examples(release, np.arange(n_groups) % 2 == 0, np.arange(n_groups)))


def generators(*seeds):
    return [np.random.default_rng(seed) for seed in seeds]


def draws(*seeds):
    """What comes first of generators with these seeds, shape (seed, 1)."""
    return np.array([[np.random.default_rng(seed).random()] for seed in seeds])


def learned(weight, *, lost=None, seeds=(1, 2)):
    if lost is None:
        return TrainingInput(know(weight), generators(*seeds))
    label_shuffled = [10 + seed for seed in seeds]
    return TrainingInput(know(weight), generators(*seeds), know(lost), generators(*label_shuffled))


def test_join_puts_groups_side_by_side_and_adds_seconds():
    one = ScoreTable(np.array([[1.0, 2.0], [3.0, 4.0]]), np.zeros((2, 2)), np.array([1.0, 2.0]),
                  np.array([[7.0, 8.0], [9.0, 0.0]]))  # fmt: skip
    other = ScoreTable(np.array([[5.0], [6.0]]), np.ones((2, 1)), np.array([10.0, 20.0]))
    both = join([one, other])
    np.testing.assert_array_equal(both.scores, [[1, 2, 5], [3, 4, 6]])
    np.testing.assert_array_equal(both.thresholds, [[0, 0, 1], [0, 0, 1]])
    np.testing.assert_array_equal(both.seconds, [11, 22])
    np.testing.assert_array_equal(both.label_shuffled, one.label_shuffled)
    np.testing.assert_array_equal(join([one, one]).label_shuffled, [[7, 8, 7, 8], [9, 0, 9, 0]])
    assert join([other, other]).label_shuffled is None


def test_attacks_train_once_and_are_shuffled_once(clock):
    attacks = [Weigher(clock, 3.0), Weigher(clock, 4.0)]
    ensemble = TrainOnce(attacks, learned(2, lost=5))
    assert [attack.n_fits for attack in attacks] == [0, 0], "not before they are asked"
    first = ensemble.score(release_of(10, 20, 30), label_shuffled=True)
    again = ensemble.score(release_of(40), label_shuffled=True)
    assert [attack.n_fits for attack in attacks] == [2, 2]
    np.testing.assert_array_equal(first.scores, [[20, 40, 60]] * 2 + draws(1, 2))
    np.testing.assert_array_equal(first.thresholds, np.repeat(draws(1, 2), 3, axis=1))
    np.testing.assert_array_equal(first.label_shuffled, [[50, 100, 150]] * 2 + draws(11, 12))
    np.testing.assert_array_equal(again.scores, [[80]] * 2 + draws(1, 2))
    np.testing.assert_array_equal(again.thresholds, draws(1, 2))
    assert again.label_shuffled is None, "the shuffled input is gone"


def test_the_time_of_an_attack_is_that_of_training_and_scoring(clock):
    """Not that of its control."""
    ensemble = TrainOnce([Weigher(clock, 3.0), Weigher(clock, 4.0)], learned(2, lost=5))
    assert ensemble.score(release_of(1, 1), label_shuffled=True).seconds.tolist() == [4.0, 5.0]
    assert ensemble.score(release_of(1, 1, 1)).seconds.tolist() == [1.5, 1.5]


@pytest.mark.parametrize("lost", [None, 5])
def test_no_labels_are_shuffled_unasked(clock, lost):
    attack = Weigher(clock, 1.0)
    ensemble = TrainOnce([attack], learned(2, lost=lost, seeds=(1,)))
    assert ensemble.score(release_of(1, 2)).label_shuffled is None
    assert attack.n_fits == 1


def test_what_attacks_learnt_from_makes_room(clock):
    given = learned(2, lost=5)
    held = [weakref.ref(each.training) for each in (given.knowledge, given.shuffled)]
    ensemble = TrainOnce([Weigher(clock, 1.0), Weigher(clock, 2.0)], given)
    del given
    assert all(ref() is not None for ref in held)
    ensemble.score(release_of(1), label_shuffled=True)
    assert all(ref() is None for ref in held)


def retrained(clock, seen, attacks, *, lost=None):
    """Attacks that learn of each release its own value, in a second."""

    def learn(release, path):
        clock.now += 1.0
        seen.append((release, path))
        return learned(int(release.values.sum()), lost=lost, seeds=range(len(attacks)))

    return RetrainPerRelease(attacks, learn)


def test_retrained_each_group_is_learnt_from_alone(clock):
    seen, attacks = [], [Weigher(clock, 3.0), Weigher(clock, 4.0)]
    found = retrained(clock, seen, attacks).score(release_of(2, 3, 5))
    assert [attack.n_fits for attack in attacks] == [3, 3]
    assert [release.values.shape for release, _ in seen] == [(1, 1, 1)] * 3
    assert [int(release.values.sum()) for release, _ in seen] == [2, 3, 5]
    np.testing.assert_array_equal(found.scores, [[4, 9, 25]] * 2 + draws(0, 1))
    np.testing.assert_array_equal(found.thresholds, np.repeat(draws(0, 1), 3, axis=1))
    assert found.label_shuffled is None
    # a study of one second each is in the time of the first, beside training and half a second
    assert found.seconds.tolist() == [3 * 4.5, 3 * 4.5]


def test_retrained_all_are_shuffled_where_asked(clock):
    seen, attacks = [], [Weigher(clock, 3.0), Weigher(clock, 4.0)]
    ensemble = retrained(clock, seen, attacks, lost=7)
    first = ensemble.score(release_of(2, 3), label_shuffled=True)
    np.testing.assert_array_equal(first.label_shuffled, [[14, 21]] * 2 + draws(10, 11))
    assert [attack.n_fits for attack in attacks] == [4, 4]
    assert ensemble.score(release_of(2)).label_shuffled is None


def test_retrained_numbers_go_on_and_each_path_has_its_own(clock):
    seen = []
    ensemble = retrained(clock, seen, [Weigher(clock, 1.0)])
    ensemble.score(release_of(1, 1))
    ensemble.score(release_of(1, 1), path=("absent",))
    ensemble.score(release_of(1))
    ensemble.score(release_of(1), path=("absent",))
    paths = [path for _, path in seen]
    assert paths == [(0,), (1,), ("absent", 0), ("absent", 1), (2,), ("absent", 2)]
