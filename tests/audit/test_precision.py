"""Challenges are added until an AUC is known, and looking more than once is paid for."""

from itertools import pairwise

import numpy as np
import pytest
from running import run

from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.audit.settings import Precision, interim_looks
from clusterscale.analyses.audit.task import play_whole
from clusterscale.contracts import GroupRequest
from clusterscale.errors import ConfigError
from clusterscale.metrics import auc_interval
from clusterscale.runtime import SerialExecutor

NUMBERS = ("auc", "auc_low", "auc_high", "accuracy", "control_auc", "absent_auc")


@pytest.fixture
def fields(plan_fields):
    return plan_fields | {"group_sizes": [6], "attacks": [{"name": "projection"}]}


def tasks(cube, fields):
    plan = AuditPlan(**fields)
    return list(plan.tasks(cube, plan.targets.choose(cube, plan.seed)))


@pytest.mark.parametrize(
    ("first", "most", "expected"),
    [(100, 800, (100, 200, 400, 800)), (100, 798, (100, 200, 400)), (10, 10, (10,))],
)
def test_interim_looks_double_up_to_the_maximum(first, most, expected):
    assert interim_looks(first, Precision(width=0.1, most=most)) == expected
    assert interim_looks(first, None) == (first,)


def test_the_first_challenges_are_the_same_however_many_are_asked_for(cube, fields):
    """Groups and noise: each look of a longer game is the end of a shorter one."""
    at = {}
    for most in (40, 80, 160):
        precision = {"precision": {"width": 0.001, "most": most}}
        found = play_whole(tasks(cube, fields | precision)[0])
        at[most] = {(o.mechanism, o.attack): o for o in found}
        assert {o.n_challenges for o in found} == {most}
    single = {(o.mechanism, o.attack): o for o in play_whole(tasks(cube, fields)[0])}
    for case, outcome in single.items():
        for found in at.values():
            # told of the first challenges alone, whatever is added
            for name in ("control_auc", "absent_auc", "level_inside", "level_outside"):
                assert getattr(found[case], name) == getattr(outcome, name)


def test_added_groups_are_distinct_and_go_on_from_the_same_first_ones(cube, fields):
    from clusterscale.seeds import stream

    prior = AuditPlan(**fields).priors[0]
    setting = {"group_size": 6, "rng": stream(0, "groups"), "more": stream(0, "more")}
    game = prior.set_up(GroupRequest(cube.traces(), 5, **setting))
    batches = [game.challenge, *(game.more(n) for n in (20, 40, 80))]
    again = prior.set_up(
        GroupRequest(
            cube.traces(), 5, group_size=6, rng=stream(0, "groups"), more=stream(0, "more")
        )
    )
    np.testing.assert_array_equal(again.challenge.counts, game.challenge.counts)
    np.testing.assert_array_equal(again.more(140).counts[:20], batches[1].counts)
    rows = np.concatenate([batch.counts for batch in batches]).reshape(160, -1)
    assert len(np.unique(rows, axis=0)) == 160
    labels = np.concatenate([batch.labels for batch in batches])
    assert labels.mean() == 0.5


def test_an_easy_target_is_done_early_and_a_hopeless_one_takes_all(cube, fields):
    precision = {"precision": {"width": 0.3, "most": 320}}
    easy = fields | precision | {"mechanisms": [{"name": "exact"}]}
    drowned = {"name": "laplace", "epsilon": 0.001, "unit": "event"}
    hard = fields | {"precision": {"width": 0.1, "most": 320}, "mechanisms": [drowned]}
    for task in tasks(cube, easy):
        (outcome,) = play_whole(task)
        assert outcome.n_challenges < 320
        assert outcome.auc_high - outcome.auc_low < 0.3
    for task in tasks(cube, hard):
        (outcome,) = play_whole(task)
        assert outcome.n_challenges == 320
        assert outcome.auc_high - outcome.auc_low >= 0.1


def test_every_mechanism_and_attack_must_be_known(cube, fields):
    """One that is done waits for the others: they are compared on the same groups."""
    fields["mechanisms"] = [
        {"name": "exact"},
        {"name": "cap_contributions", "per_day": 5},
        {"name": "laplace", "epsilon": 0.001, "unit": "event"},
    ]
    outcomes = play_whole(tasks(cube, fields | {"precision": {"width": 0.15, "most": 160}})[0])
    assert {outcome.n_challenges for outcome in outcomes} == {160}
    assert len(outcomes) == 3


@pytest.mark.slow
def test_any_order_of_tasks_gives_the_same_bits(cube, fields, tmp_path):
    fields |= {"group_sizes": [3, 6, 12], "precision": {"width": 0.15, "most": 160}}
    plan = AuditPlan(**fields)
    first = run(plan, cube, tmp_path / "run", SerialExecutor())
    assert len(np.unique(first.n_challenges)) > 1, "cases differ in what they need"
    for task in reversed(list(plan.tasks(cube, plan.targets.choose(cube, plan.seed)))):
        for outcome in play_whole(task):
            case = first.sel(
                target=task.target,
                group_size=task.group_size,
                mechanism=outcome.mechanism,
                attack=outcome.attack,
            ).squeeze()
            assert case.n_challenges == outcome.n_challenges
            assert [float(case[name]) for name in NUMBERS] == [
                getattr(outcome, name) for name in NUMBERS
            ]


def stop(rng, shift, stops, width, confidence):
    """Play with normal scores of two classes until the interval is narrow; return it."""
    n = stops[-1]
    labels = np.arange(n) % 2 == 0
    scores = rng.normal(size=n) + shift * labels
    for now, more in pairwise((*stops, None)):
        low, high = auc_interval(labels[:now], scores[:now], confidence=confidence, scale="odds")
        if high - low < width or more is None:
            return low, high, now


@pytest.mark.slow
@pytest.mark.parametrize(("auc", "width"), [(0.5, 0.144), (0.7, 0.15), (0.9, 0.1), (0.98, 0.05)])
def test_stopping_when_it_looks_sure_keeps_the_confidence(auc, width):
    """Of 1,000 targets at most 5 % may be missed; three standard errors of that are 2.1 %."""
    from scipy.stats import norm

    rng, stops = np.random.default_rng(int(100 * auc)), interim_looks(100, Precision(width=width))
    shift = norm.ppf(auc) * 2**0.5
    found = [stop(rng, shift, stops, width, 1 - 0.05 / len(stops)) for _ in range(1000)]
    missed = np.mean([not low <= auc <= high for low, high, _ in found])
    assert missed < 0.05 + 3 * (0.05 * 0.95 / 1000) ** 0.5
    assert len({n for *_, n in found}) > 1, "some stop before others"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"priors": [{"name": "perfect", "groups": 20}]},
            "precision: challenges of perfect (priors.0) are its own training groups, "
            "and none can be added; remove one of them",
        ),
        (
            {"precision": {"width": 0.1, "most": 38}},
            "precision.most: 38 is too small to double the 20 challenges of priors.0; "
            "set at least 40",
        ),
        (
            {
                "group_sizes": [2],
                "precision": {"width": 0.1, "most": 80},
                "priors": [
                    {
                        "name": "known_subset",
                        "alpha": 0.5,
                        "training": 40,
                        "validation": 20,
                        "challenges": 20,
                    },
                ],
            },
            "group_sizes.0: groups of 2 are too small: the known_subset challenge pool has 31 "
            "users including the target, and 80 distinct groups are needed; the largest that fits "
            "is 28",
        ),
    ],
)
def test_what_cannot_be_made_more_precise_is_refused(cube, fields, change, message):
    plan = AuditPlan(**(fields | {"precision": {"width": 0.1, "most": 40}} | change))
    with pytest.raises(ConfigError) as caught:
        plan.check(cube)
    assert str(caught.value) == message
