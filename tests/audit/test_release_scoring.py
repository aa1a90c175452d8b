"""What was really published is asked about as a challenge is, at once or by parts of the users."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import zarr
from conftest import write_cube
from cube import crowd

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.release_scoring import VALUES, list_published
from clusterscale.analyses.audit.task import fold_play, play_whole
from clusterscale.contracts import GroupRequest
from clusterscale.cube import blocks
from clusterscale.errors import InputError
from clusterscale.game import AttackEvaluation
from clusterscale.groups import count_visits
from clusterscale.mechanisms import create
from clusterscale.runtime import SerialExecutor
from clusterscale.seeds import stream

N_USERS, SIZE, BLOCK = 60, 6, 4
EXACT = {"name": "exact"}
LAPLACE = {"name": "laplace", "epsilon": 4.0, "unit": "event"}
CAPPED = {"name": "chain", "steps": [{"name": "cap_contributions", "per_day": 6}, LAPLACE]}
MERGED = {"name": "chain", "steps": [{"name": "coarsen_time", "factor": 4}, LAPLACE]}
PRIOR = {"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 20}
REFIT = {"name": "zero_knowledge", "training": 16, "challenges": 8, "reference": 40}


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A cube of its own: what blocks it is read in is not what they are elsewhere."""
    dense = crowd.draw(N_USERS, 5, 24, share=0.15, seed=4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_MOST_USERS", BLOCK)
        yield write_cube(str(tmp_path_factory.mktemp("published") / "cube.zarr"), dense)


def plan(*mechanisms, prior=PRIOR):
    return AuditPlan(
        seed=3,
        null_roi=False,
        targets={"random": 2},
        group_sizes=[SIZE],
        periods=[{"name": "release", "first": 0, "epochs": 24}],
        priors=[prior],
        mechanisms=list(mechanisms),
        attacks=[{"name": "projection"}, {"name": "logistic"}],
    )


def lay(folder, values, name="tables"):
    """Write a release where workers find it."""
    uri = str(folder / f"{name}.zarr")
    group = zarr.create_group(uri)
    group.create_array(VALUES, data=np.asarray(values, np.float64))
    return uri


def released(people, members, mechanism, seed=0):
    counts = count_visits(people.traces(), np.asarray(members)[None])
    if mechanism == create("exact"):
        return counts[0]
    bound = mechanism.bind(plan_bounds(people))
    return bound.release(counts, group_size=SIZE, rng=np.random.default_rng(seed))[0]


def plan_bounds(people):
    from clusterscale.cube.blocks import load_settings

    (price,) = plan(EXACT).evaluations(people)
    return load_settings(price.source, [()])[()].bounds


def tasks(people, folder, values, *mechanisms, users=(3, 17), name="tables", **options):
    made = plan(*mechanisms, **options)
    uri = lay(folder, values, name)
    return list(list_published(made, people, np.array(users), made.mechanisms[-1], uri))


@pytest.mark.parametrize("mechanism", [EXACT, LAPLACE])
def test_scores_are_those_of_a_contest(people, tmp_path, mechanism):
    """Set up by hand from the traces, with the streams of the audit."""
    made, values = plan(mechanism), released(people, np.arange(SIZE), create(**mechanism))
    (prior,), (tried,) = made.priors, made.mechanisms
    for task in tasks(people, tmp_path, values, mechanism):
        path = (made.periods[0].id, prior.id, SIZE, task.audit.target)
        game = prior.set_up(
            GroupRequest(
                people.traces(),
                task.audit.target,
                group_size=SIZE,
                validate=any(attack.validates for attack in made.attacks),
                rng=stream(3, "groups", *path),
            )
        )
        contest = AttackEvaluation(
            game, tried, made.attacks, seed=3, path=path, bounds=plan_bounds(people), control=False
        )
        assert play_whole(task) == contest.score_release(np.asarray(values, np.float64))


@pytest.mark.slow
@pytest.mark.parametrize("prior", [PRIOR, REFIT], ids=lambda each: each["name"])
@pytest.mark.parametrize("mechanism", [EXACT, LAPLACE, CAPPED, MERGED], ids=str)
def test_parts_of_users_give_the_same_bits(people, tmp_path, mechanism, prior):
    n_epochs = 6 if mechanism is MERGED else 24
    values = np.random.default_rng(2).poisson(1.0, (5, n_epochs))
    some = tasks(people, tmp_path, values, mechanism, prior=prior)
    expected = [play_whole(task) for task in some]
    for cuts in ([0, 60], [0, 4, 60], [0, 20, 24, 44, 60]):
        users = list(pairwise(cuts))
        folds = (fold_play(task, users) for task in some)
        found = list(SerialExecutor().map_reductions(folds))
        assert [each.item for each in found] == some
        assert [each.value for each in found] == expected


def test_tasks_are_an_address_and_a_few_numbers(people, tmp_path):
    for task in tasks(people, tmp_path, np.zeros((5, 24)), EXACT, LAPLACE):
        assert task.audit.mechanisms == (create(**LAPLACE),)
        assert not task.audit.control
        assert task.key[1:] == ("0-24", plan(EXACT).priors[0].id, SIZE)
        assert len(pickle.dumps(task)) < 4000
        assert pickle.loads(pickle.dumps(task)) == task


def test_results_of_a_case_do_not_depend_on_other_cases(people, tmp_path):
    values = released(people, np.arange(SIZE), create(**LAPLACE))
    alone = tasks(people, tmp_path, values, LAPLACE, name="one")
    beside = tasks(people, tmp_path, values, EXACT, LAPLACE, users=(3, 9, 17), name="two")
    scored = {task.key: play_whole(task) for task in beside}
    for task in alone:
        assert play_whole(task) == scored[task.key]


def test_members_rank_higher_than_others(people, tmp_path):
    """Over groups that nobody trained on, by an obvious attack on bare counts."""
    rng, ranks = np.random.default_rng(8), {True: [], False: []}
    for target in range(0, 24, 2):
        others = rng.choice(np.setdiff1d(np.arange(N_USERS), target), SIZE, replace=False)
        for inside in (True, False):
            members = [target, *others[1:]] if inside else others
            values = released(people, members, create("exact"))
            name = f"{target}-{inside}"
            (task,) = tasks(people, tmp_path, values, EXACT, users=(target,), name=name)
            ranks[inside].append(max(each.rank for each in play_whole(task)))
    assert np.mean(ranks[True]) - np.mean(ranks[False]) > 0.2


def test_what_is_redacted_counts_as_nothing(people, tmp_path):
    values = np.random.default_rng(1).binomial(6, 0.3, (5, 24)).astype(float)
    values[2, 3:9] = 0.0
    redacted = np.where(values == 0, np.nan, values)
    (plain,) = tasks(people, tmp_path, values, EXACT, users=(3,), name="plain")
    (other,) = tasks(people, tmp_path, redacted, EXACT, users=(3,), name="redacted")
    assert play_whole(plain) == play_whole(other)


@pytest.mark.parametrize("shape", [(5, 23), (6, 24), (24, 5)])
def test_another_shape_is_told_with_both(people, tmp_path, shape):
    (task,) = tasks(people, tmp_path, np.zeros(shape), LAPLACE, users=(3,))
    fold = fold_play(task, [(0, 32), (32, 60)])
    told = f"has shape {shape}, but {create(**LAPLACE).label} publishes (5, 24) of this cube"
    with pytest.raises(InputError) as caught:
        play_whole(task)
    assert told in str(caught.value)
    (finished,) = SerialExecutor().map_reductions([fold])
    assert finished.value is None
    assert told in str(finished)
    assert replace(task, uri="elsewhere").key == task.key
