"""Who has nothing but a release: what it holds, and what it learns from that."""

import gc
import pickle
from dataclasses import replace
from types import FunctionType, ModuleType

import numpy as np
import pytest
from loops import mostly_slow
from priors.zero_knowledge.choices import (
    DAYS,
    DEFENCES,
    FRAME,
    N_ROIS,
    N_USERS,
    OPTIONS,
    TARGET,
    people,
    released,
    set_up,
)

from clusterscale import mechanisms
from clusterscale.contracts import Game, GroupSample, Traces
from clusterscale.cube import TraceCube
from clusterscale.groups import Pool
from clusterscale.priors.zero_knowledge.prior import ZeroKnowledgeAdversary

NAMED = pytest.mark.parametrize("option", OPTIONS)


def learn(adversary, release, by="raw", seed=1):
    return adversary.study(release, DEFENCES[by], rng=np.random.default_rng(seed))


def arrays_of(knowledge):
    """All that was learnt."""
    found = [knowledge.whereabouts.trace, knowledge.whereabouts.mean_trace]
    for examples in (knowledge.training, knowledge.validation):
        found += [examples.release.values, examples.labels, examples.blocks]
    return found


def same(one, other):
    return all(map(np.array_equal, arrays_of(one), arrays_of(other)))


def reach(thing):
    """All that can be come by from a thing, behind views and within closures too."""
    found, queue = {}, [thing]
    while queue:
        each = queue.pop()
        if id(each) in found or isinstance(each, (type, ModuleType)):
            continue
        found[id(each)] = each
        if isinstance(each, FunctionType):
            queue += [each.__closure__, each.__defaults__]
        elif isinstance(each, np.ndarray):
            queue.append(each.base)
        else:
            queue += gc.get_referents(each)
    return list(found.values())


@NAMED
def test_there_is_no_way_to_anyone_but_the_target(option):
    """It holds the graph, the days, and of the target no more than its own trace."""
    game = set_up(option)
    adversary = game.adversary
    assert isinstance(adversary, ZeroKnowledgeAdversary)
    found = reach(adversary)
    assert not [
        each for each in found if isinstance(each, (Traces, TraceCube, Pool, GroupSample, Game))
    ]
    known = adversary.known.where
    held = [adversary.days, known]
    if OPTIONS[option].get("positions") != "unknown":
        held += [adversary.graph.offsets, adversary.graph.neighbours]
    arrays = [each for each in found if isinstance(each, np.ndarray)]
    assert {id(each) for each in arrays} == {id(each) for each in held}
    trace = people().trace(TARGET)
    n_known = np.ceil(0.4 * len(trace)) if "partial" in option else len(trace)
    n_seen = N_ROIS * len(DAYS)
    if OPTIONS[option].get("knows") == "rois":
        assert np.isin(known, trace // len(DAYS)).all()
    else:
        assert np.isin(known[known < n_seen], trace).all()
        assert (known < n_seen).sum() == n_known
    assert adversary.shape == game.challenge.counts.shape[1:]


def test_reach_sees_through_views_and_closures():
    """What the test above relies on: these would all have been found."""
    traces = people()

    def closure():
        return traces

    for holder in ([traces.trace(TARGET)], closure, {"a": (traces,)}, iter([traces])):
        found = reach(holder)
        cells = any(each is traces.cells for each in found)
        assert cells or any(each is traces for each in found)


@mostly_slow("by", DEFENCES)
@mostly_slow("option", ["of the paper", "counts, mixed", "two ROIs"])
def test_what_it_learns_hangs_on_the_release_the_mechanism_and_the_draws_alone(option, by):
    """Of other people who published the same, and of one who was sent elsewhere, it is the same."""
    game, elsewhere = set_up(option), set_up(option, traces=people(seed=1), seed=2)
    assert (game.challenge.counts != elsewhere.challenge.counts).any()
    release = released(game, by)
    first = learn(game.adversary, release, by)
    learn(game.adversary, released(game, by, row=1), by)  # leaves nothing behind
    sent = pickle.loads(pickle.dumps(game.adversary))
    for adversary in (game.adversary, elsewhere.adversary, sent):
        assert same(learn(adversary, release, by), first)
    assert not same(learn(game.adversary, release, by, seed=2), first)
    assert not same(learn(game.adversary, released(game, by, row=1), by), first)


def test_where_positions_are_unknown_neighbours_are_found_in_the_release():
    """Positions in the frame change nothing; a release whose series correlate does."""
    game = set_up("positions unknown")
    moved = replace(FRAME, lat=FRAME.lat[::-1].copy())
    release = released(game)
    first = learn(game.adversary, release)
    assert same(learn(set_up("positions unknown", frame=moved).adversary, release), first)
    assert not same(
        learn(set_up(frame=moved).adversary, release), learn(set_up().adversary, release)
    )
    assert game.adversary.find_neighbours(release) is None
    values = np.random.default_rng(1).poisson(40.0, (1, N_ROIS, 60)).astype(float)
    values[0, 1] = values[0, 0]
    adversary = replace(game.adversary, days=np.arange(60))
    graph = adversary.find_neighbours(replace(release, values=values))
    np.testing.assert_array_equal(graph.neighbours[: graph.offsets[2]], [1, 0])


def test_groups_to_check_on_change_nothing_of_those_to_learn_from():
    game = set_up()
    adversary = game.adversary
    without = replace(adversary, validate=False)
    whole, part = (learn(each, released(game)) for each in (adversary, without))
    assert part.validation is None
    assert len(whole.validation.labels) == 8
    np.testing.assert_array_equal(whole.training.release.values, part.training.release.values)


@pytest.mark.parametrize("noise", [None, {"name": "laplace", "epsilon": 0.01, "sensitivity": 5.0}])
@pytest.mark.parametrize("sampling", ["paired", "independent"])
def test_pairs_share_their_noise_and_all_members_but_one(sampling, noise):
    by = mechanisms.create(**noise) if noise else DEFENCES["raw"]
    game = set_up(sampling=sampling)
    learnt = game.adversary.study(released(game), by, rng=np.random.default_rng(0))
    values = learnt.training.release.flat
    apart = np.abs(values[0::2] - values[1::2])
    assert (apart.max() <= 1 + 1e-9) == (sampling == "paired")


@NAMED
def test_halves_of_the_users_know_together_what_one_who_holds_all_does(option):
    traces = people()
    at = traces.offsets[20]
    halves = [
        replace(traces, offsets=traces.offsets[:21], cells=traces.cells[:at], population=N_USERS),
        replace(traces, offsets=traces.offsets[20:] - at, cells=traces.cells[at:], first=20,
                population=N_USERS),
    ]  # fmt: skip
    whole, (one, other) = set_up(option), (set_up(option, traces=each) for each in halves)
    both = one.plus(other)
    np.testing.assert_array_equal(both.challenge.counts, whole.challenge.counts)
    np.testing.assert_array_equal(both.absent.counts, whole.absent.counts)
    release = released(whole)
    assert same(learn(both.adversary, release), learn(whole.adversary, release))
