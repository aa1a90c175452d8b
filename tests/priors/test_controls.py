"""With somebody else in the target's place nothing can be told, unless there is a fault."""

import pickle
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from loops import for_each
from oracles.dense import frame_of, traces_of
from oracles.entries import build

from clusterscale import mechanisms
from clusterscale.attacks import ATTACKS
from clusterscale.contracts import GroupRequest
from clusterscale.game import play
from clusterscale.groups import Pool
from clusterscale.groups.draw import CandidatePool
from clusterscale.priors import PRIORS
from clusterscale.seeds import stream

N_USERS, TARGET, SIZE = 60, 5, 8
EXACT = mechanisms.create("exact")
QUICK = {"cross_validated": {"candidates": [{"name": "logistic"}, {"name": "spectral"}]}}
SMALL = {
    "known_subset": {"alpha": 0.5, "training": 40, "challenges": 40},
    "perfect": {"groups": 40},
    "same_groups": {"beta": 40},
    "different_groups": {"beta": 64},
    "zero_knowledge": {
        "reference": 60,
        "training": 40,
        "challenges": 40,
        "validation": 40,
        "refit": "shared",
    },
}


def set_up(prior, traces, past=(), *, seed=0, control=True, size=SIZE, target=TARGET):
    streams = {"control": stream(seed, "stand-ins")} if control else {}
    return prior.set_up(
        GroupRequest(
            traces,
            target,
            frame=frame_of(traces),
            past=past if prior.needs_past else (),
            group_size=size,
            validate=True,
            rng=stream(seed, "groups"),
            **streams,
        )
    )


@pytest.fixture(scope="module")
def roll_call():
    """A crowd in which user u alone visits ROI u: counts are the list of members."""
    return traces_of(np.eye(N_USERS, dtype=bool)[:, :, None])


@for_each("name", list(PRIORS))
def test_stand_ins_are_others_of_the_pool_and_nothing_else_changes(name, roll_call):
    prior = PRIORS.create(name, **SMALL[name])
    game = set_up(prior, roll_call, [roll_call])
    bare = set_up(prior, roll_call, [roll_call], control=False)
    np.testing.assert_array_equal(game.challenge.counts, bare.challenge.counts)
    assert pickle.dumps(game.adversary) == pickle.dumps(bare.adversary)
    assert bare.absent is None
    absent = game.absent.counts[:, :, 0]
    assert np.isin(absent, [0, 1]).all()
    assert (absent.sum(axis=1) == SIZE).all()
    assert not absent[:, TARGET].any()
    n_extra = prior.n_rows(1, validate=True, control=True) - prior.n_rows(
        1, validate=True, control=False
    )
    assert len(absent) == n_extra
    if game.reuses_training_groups:
        assert game.absent.labels.mean() == 0.5
        return
    assert game.absent.labels.all()
    asked = game.challenge.counts[game.challenge.labels][:, :, 0]
    changed = absent - asked
    assert (changed[:, TARGET] == -1).all()
    assert (np.abs(changed).sum(axis=1) == 2).all(), "one leaves, one enters"
    if name == "known_subset":
        fresh_control_groups = np.flatnonzero(game.adversary.whereabouts.mean_trace[:, 0] == 0)
        assert set(np.nonzero(changed == 1)[1]) <= set(fresh_control_groups)


def test_stand_ins_are_drawn_alike_from_all_who_are_outside(roll_call):
    pool = Pool(roll_call, np.arange(20), TARGET, 5, "test")
    ranks = pool.rank_substitutes(4000, rng=stream(0, "x"))
    sample, stand_ins = pool.draw(4000, rng=stream(0, "groups"), ranks=ranks)
    changed = pool.substitute_target(sample, stand_ins).counts - sample.counts
    entered = (changed[:, :, 0] == 1).sum(axis=0)
    assert entered[TARGET] == 0
    assert not entered[20:].any()
    chance = 1 / 19
    others = np.delete(entered[:20], TARGET)
    # Binomial counts: at five standard deviations 19 users fail together once in 90,000 seeds.
    assert abs(others - 2000 * chance).max() < 5 * np.sqrt(2000 * chance * (1 - chance))


@pytest.mark.slow
def test_even_the_last_user_left_can_stand_in(roll_call):
    pool = Pool(roll_call, np.arange(6), 0, 5, "test")
    ranks = pool.rank_substitutes(2, rng=stream(0, "x"))
    changed = pool.substitute_target(*pool.draw(2, rng=stream(0, "y"), ranks=ranks))
    assert np.flatnonzero(changed.counts[0, :, 0]).tolist() == [1, 2, 3, 4, 5]


def controls(name, attack, traces, past, targets=range(0, N_USERS, 3)):
    """Absent AUC of each target, and its AUC."""
    prior = PRIORS.create(name, **SMALL[name])
    games = (set_up(prior, traces, past, seed=t, target=t) for t in targets)
    outcomes = (
        next(play(game, [EXACT], [attack], seed=1, path=(i,))) for i, game in enumerate(games)
    )
    return np.array([(found.absent_auc, found.auc) for found in outcomes]).T


@pytest.fixture(scope="module")
def crowd(dense):
    """Two days of the same people, the first one past."""
    return traces_of(dense[:, :, 24:]), [traces_of(dense[:, :, :24])]


LEARN_LONG = ("cross_validated", "forest", "perceptron")
LEARN_SOON = [attack for attack in ATTACKS if attack not in LEARN_LONG]
ASK_WHERE = [attack for attack in LEARN_SOON if ATTACKS.create(attack).needs_whereabouts]
OTHERS = [attack for attack in LEARN_SOON if attack not in ASK_WHERE]
# Quick: every attack that learns soon against one prior, and every prior with one attack.
PAIRED = {*zip(PRIORS, cycle(OTHERS)), *(("known_subset", attack) for attack in ASK_WHERE)}


@pytest.mark.parametrize(
    ("name", "attack"),
    [
        pytest.param(name, attack, marks=() if (name, attack) in PAIRED else pytest.mark.slow)
        for name in PRIORS
        for attack in ATTACKS
    ],
)
def test_without_the_target_every_attack_is_at_chance(name, attack, crowd):
    attack, prior = (
        ATTACKS.create(attack, **QUICK.get(attack, {})),
        PRIORS.create(name, **SMALL[name]),
    )
    if attack.needs_whereabouts and not prior.gives_whereabouts:
        pytest.skip("asks where the target was, which this prior does not tell")
    absent, _ = controls(name, attack, *crowd)
    # Four standard errors of the mean: a sound control fails one seed in 16,000.
    assert abs(absent.mean() - 0.5) <= 4 * absent.std(ddof=1) / np.sqrt(len(absent)) + 1e-9


@pytest.fixture
def friends(monkeypatch):
    """A fault in the drawing: the target never comes without the same four friends."""

    def draw_two(self, others, rng):
        friends, strangers = others.users[:4], CandidatePool(others.users[4:], TARGET)
        some = self._draw_new(strangers, self.size - 5, rng)
        inside = replace(some, users=np.append(some.users, friends), sizes=some.sizes + 4)
        return inside, self._draw_new(others, self.size, rng)

    return lambda: monkeypatch.setattr(Pool, "_draw_independent", draw_two)


@pytest.mark.parametrize("name", [name for name in PRIORS if name != "zero_knowledge"])
def test_groups_that_differ_by_more_than_the_target_are_found_out(name, crowd, friends):
    friends()
    absent, _ = controls(name, build(ATTACKS, "logistic"), *crowd)
    # On either side: the friends that the adversary knows are not those of the challenges.
    assert abs(absent.mean() - 0.5) > 4 * absent.std(ddof=1) / np.sqrt(len(absent))


def test_made_up_friends_are_found_out_each_on_a_side_of_its_own(crowd, friends):
    """They are others in every play, so it is the spread that tells, and not the mean."""
    sound, _ = controls("zero_knowledge", build(ATTACKS, "logistic"), *crowd)
    friends()
    broken, _ = controls("zero_knowledge", build(ATTACKS, "logistic"), *crowd)
    chance = (20 + 20 + 1) / (12 * 20 * 20)  # variance of an AUC of 20 against 20 alike
    most = chance * (1 + 4 * np.sqrt(2 / len(sound)))  # four standard errors above it
    assert np.mean((sound - 0.5) ** 2) < most < np.mean((broken - 0.5) ** 2)


def test_one_member_more_wherever_the_target_is_is_found_out(crowd):
    """The fault is in a prior: attacks look fine, and only the control says why."""
    traces, _ = crowd

    class Broken(type(PRIORS.create("known_subset", **SMALL["known_subset"]))):
        def set_up(self, *args, **kwargs):
            game = super().set_up(*args, **kwargs)
            for sample in (game.adversary.training, game.challenge):
                sample.counts[sample.labels] += traces_counts
            game.absent.counts[:] += traces_counts
            return game

    traces_counts = np.bincount(traces.trace(1), minlength=traces.n_cells).astype(np.int32)
    traces_counts = traces_counts.reshape(traces.n_rois, traces.n_epochs)
    prior = Broken.model_validate(
        PRIORS.create("known_subset", **SMALL["known_subset"]).model_dump()
    )
    found = []
    for target in range(2, 60, 6):
        game = set_up(prior, traces, seed=target, target=target)
        found += play(game, [EXACT], [build(ATTACKS, "spectral")], seed=1, path=(target,))
    assert np.mean([outcome.control_auc for outcome in found]) == pytest.approx(0.5, abs=0.1)
    assert np.mean([outcome.absent_auc for outcome in found]) > 0.7
