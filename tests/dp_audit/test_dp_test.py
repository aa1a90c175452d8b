"""Promises that are kept are called consistent, broken ones broken, and what cannot be told so.

A promise that is kept is called broken in at most one of a thousand audits; seeds are fixed.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from cube import crowd
from loops import for_each, mostly_slow
from oracles.entries import build
from running import run

from clusterscale.analyses.dp_audit import dp_test as verdict
from clusterscale.analyses.dp_audit.dp_test import VerdictPlan, try_guarantee
from clusterscale.analyses.dp_audit.neighbours import Design, Neighbours, RawTraces, count_nearby
from clusterscale.analyses.dp_audit.privacy_units import kind_of
from clusterscale.config import load
from clusterscale.contracts import CellCoordinates, stability_of
from clusterscale.cube import with_null_roi
from clusterscale.cube.blocks import load_settings
from clusterscale.cube.bounds import bounds_before
from clusterscale.mechanisms import MECHANISMS, create
from clusterscale.mechanisms.chain import Chain
from clusterscale.metrics import largest_bound
from clusterscale.runtime import SerialExecutor
from clusterscale.schema import with_labels

N_ROIS, DAYS = 6, np.arange(24) // 8
DENSE = crowd.draw(30, N_ROIS, 24, share=0.15, seed=1)
PATH = ("first week", 10)
CONFIG = Path(__file__).parents[2] / "configs" / "broken-noise.yaml"

EVENT = {"name": "laplace", "epsilon": 1.0, "unit": "event"}
DAY = {"name": "laplace", "epsilon": 1.0, "unit": "user_day"}
SOUND = [
    build(MECHANISMS, name)
    for name in MECHANISMS
    if build(MECHANISMS, name).guarantee.unit != "none" and name != "truncated_laplace"
]
SOUND += [
    create(**EVENT, discrete=True),
    create(**EVENT, integers="floor"),
    create(**EVENT, clip=True, integers="round"),
    create(**DAY),
    create("laplace", epsilon=2.0),
    create("randomized_response", p=0.7),
    create("chain", steps=[{"name": "coarsen_time", "factor": 5}, DAY]),
    create("chain", steps=[{"name": "coarsen_space", "factor": 2}, EVENT]),
    create("chain", steps=[EVENT, {"name": "suppress_unpopular", "fraction": 0.5}]),
    create("chain", steps=[EVENT, {"name": "adaptive_ranges", "ranges": 3}]),
]
SAMPLED = create("chain", steps=[{"name": "sample_events", "remove": 0.5}, EVENT])


def follow(mechanism, *, null_roi=False, dense=DENSE):
    """Return the bound mechanism, and its traces and frame after its trace steps."""
    traces, frame = (
        crowd.traces(dense),
        CellCoordinates(DAYS, np.arange(N_ROIS) / 9, np.zeros(N_ROIS)),
    )
    frames = [frame]
    for step in mechanism.trace_steps:
        traces, frame = step.apply(traces, frame, rng=np.random.default_rng(0))
        frames.append(frame)
    traces = with_null_roi(traces) if null_roi else traces
    bounds = bounds_before(mechanism.trace_steps, frames, traces)
    return mechanism.bind(bounds), traces, frame


def near(traces, frame, n_units, seed, *kinds):
    """Groups of ten, some of whose members differ in a unit of these kinds."""
    design = Design(traces.n_users, 8, PATH[1], n_units, seed, PATH)
    nearby = count_nearby(design, [kind for kind in kinds if kind], traces, frame)
    return Neighbours(design, nearby, lambda user: traces, frame)


def counted(neighbours, kind):
    """Counts with and without each unit."""
    return [[side.counts(1, rng=None)[0] for side in pair] for pair in neighbours.pairs(kind)]


class Claims(Chain):
    """A chain that states the ε of its noise for an event before a cap, as if it changed one."""

    name: Literal["claims"] = "claims"

    @property
    def guarantee(self):
        return self.steps[-1].guarantee


@mostly_slow(
    ("sensitivity", "verdict", "null_roi"),
    [
        (1.0, "broken", False),
        (None, "consistent", False),
        (1.0, "broken", True),
        (None, "consistent", True),
    ],
    n_quick=1,
)
def test_units_are_removed_before_a_cap(sensitivity, verdict, null_roi):
    """What is left of a user after the steps is drawn anew for each release."""
    noise = EVENT | {"epsilon": 2.0}
    noise |= {} if sensitivity is None else {"sensitivity": sensitivity * (1 + null_roi)}
    steps = [{"name": "cap_contributions", "per_day": 1}, noise]
    dense = np.zeros_like(DENSE)
    dense[:, 0, [2, 5]] = True
    mechanism = Claims(steps=steps)
    bound, traces, frame = follow(mechanism, null_roi=null_roi, dense=dense)
    _, raw, before = follow(create("exact"), null_roi=null_roi, dense=dense)
    survey = near(raw, before, 2, 0).nearby.survey
    stability = stability_of(mechanism.trace_steps, [before])
    units = RawTraces(mechanism.trace_steps, stability, lambda user: raw, before, survey)
    neighbours = replace(near(traces, frame, 2, 0, "event"), raw=units)
    found = try_guarantee(bound, neighbours, VerdictPlan(trials=20_000), key="capped")
    assert found.verdict == verdict


def tried(mechanism, seed=0, *, null_roi=False, dense=DENSE, **plan):
    """Try one promise on a small crowd in groups of ten."""
    plan = VerdictPlan(**({"trials": 2000} | plan))
    bound, traces, frame = follow(mechanism, null_roi=null_roi, dense=dense)
    neighbours = near(traces, frame, plan.units, seed, kind_of(bound))
    return try_guarantee(bound, neighbours, plan, key=mechanism.label)


CASES = [(each, False) for each in (*SOUND, SAMPLED)]
CASES += [(each, True) for each in SOUND if each.n_tables == 1]


@mostly_slow(
    ("mechanism", "null_roi"), CASES, n_quick=6, ids=lambda each: str(getattr(each, "label", each))
)
def test_kept_promises_are_consistent(mechanism, null_roi):
    promised = follow(mechanism, null_roi=null_roi)[0].guarantee.epsilon
    for seed in range(5):
        found = tried(mechanism, seed, null_roi=null_roi)
        assert found.verdict == "consistent", found
        assert 0 <= found.epsilon_seen <= promised


TOO_LITTLE = [
    create("laplace", epsilon=1.0, sensitivity=2.0),
    create("gaussian", epsilon=1.0, delta=0.1, l2_sensitivity=0.5),
    create("fourier", epsilon=1.0, coefficients=3, l2_sensitivity=0.2),
    create("enhanced_fourier", epsilon=2.0, delta=0.01, l2_sensitivity=0.1),
    create("chain", steps=[DAY | {"sensitivity": 1.0}, {"name": "suppress_small", "below": 2}]),
    create("chain", steps=[DAY | {"sensitivity": 1.0}, {"name": "adaptive_ranges", "ranges": 8}]),
    create(
        "chain",
        steps=[DAY | {"sensitivity": 1.0}, {"name": "suppress_unpopular", "fraction": 0.2}],
    ),
    create("chain", steps=[{"name": "coarsen_time", "factor": 5}, {**DAY, "sensitivity": 0.5}]),
]


@mostly_slow("mechanism", TOO_LITTLE, n_quick=3, ids=lambda each: each.label)
def test_noise_scaled_to_too_little_is_broken(mechanism):
    """Whatever the noise is on, whatever comes after it, wherever the change can reach."""
    for seed in range(5):
        found = tried(mechanism, seed)
        assert found.verdict == "broken", found


@mostly_slow(("epsilon", "null_roi"), product((1.0, 2.0), (False, True)))
def test_noise_that_is_cut_before_it_is_added_is_broken(epsilon, null_roi):
    """In every one of 100 seeds, at the trials of a plan that does not say otherwise: if it were
    missed in more than 5 % of them, so many in a row would be a chance of less than 1 in 150."""
    mechanism = create("truncated_laplace", epsilon=epsilon)
    trials = VerdictPlan().trials
    found = [tried(mechanism, seed, null_roi=null_roi, trials=trials) for seed in range(100)]
    assert {each.verdict for each in found} == {"broken"}
    most = (1 + null_roi) * (epsilon + np.log(2))
    assert epsilon < min(each.epsilon_seen for each in found)
    assert max(each.epsilon_seen for each in found) < most


@pytest.mark.parametrize("null_roi", [False, True])
def test_noise_for_one_event_does_not_hide_a_day(null_roi):
    too_little = create(**DAY, sensitivity=1.0)
    for seed in range(20):
        found = tried(too_little, seed, null_roi=null_roi)
        assert (found.verdict, found.epsilon_seen > 2) == ("broken", True)


def test_an_hour_that_falls_idle_counts_twice():
    """Noise for one count is enough without a null ROI, and too little with one."""
    once = create(**EVENT, sensitivity=1.0)
    for seed in range(20):
        assert tried(once, seed).verdict == "consistent"
        assert tried(once, seed, null_roi=True, trials=20_000).verdict == "broken"
        assert tried(create(**EVENT), seed, null_roi=True, trials=20_000).verdict == "consistent"


def test_one_answer_is_one_cell_with_and_without_a_null_roi():
    """δ of one answer is not that of two: an hour that falls idle is another answer."""
    mechanism = create("randomized_response", p=0.3)
    for null_roi in (False, True):
        bound, traces, frame = follow(mechanism, null_roi=null_roi)
        for inside, outside in counted(near(traces, frame, 4, 0, "answer"), "answer"):
            assert np.abs(inside - outside).sum() == 1
        assert tried(bound, null_roi=null_roi, trials=20_000).verdict == "consistent"


@for_each("trials", [4, 20, 100, 140, 150, 160, 170, 200, 400])
@for_each("epsilon", [1.0, 2.0])
def test_too_few_samples_exactly_where_nothing_could_be_seen(trials, epsilon):
    """Bare counts under a promise are told apart without an error, if that can be enough."""
    bare = create(**EVENT | {"epsilon": epsilon}, sensitivity=1e-6)
    most = largest_bound(trials, trials, confidence=0.999, tries=4)
    found = tried(bare, trials=trials)
    assert found.verdict == ("broken" if most > epsilon else "too few samples")
    assert found.trials == trials
    assert found.epsilon_seen == pytest.approx(most)


def test_nothing_promised_and_nobody_there():
    for name in MECHANISMS:
        if build(MECHANISMS, name).guarantee.unit == "none":
            found = tried(build(MECHANISMS, name))
            assert (found.verdict, found.trials) == ("nothing promised", 0)
            assert np.isnan(found.epsilon_seen)
    nobody = tried(create(**EVENT), dense=np.zeros_like(DENSE))
    assert nobody == verdict.DPTestResult("too few samples", 0.0, 0)


@pytest.mark.slow
def test_a_kept_promise_is_seldom_called_broken():
    """Geometric noise spends all of ε on every event: at a confidence of .9 no more than one audit
    in ten may say broken; of 300, three standard deviations more are allowed for."""
    mechanism = create(**EVENT, discrete=True)
    found = [tried(mechanism, seed, trials=400, confidence=0.9) for seed in range(300)]
    n_broken = sum(each.verdict == "broken" for each in found)
    assert n_broken <= 30 + 3 * np.sqrt(300 * 0.1 * 0.9)


def test_the_same_whatever_was_tried_before():
    mechanisms = [create(**EVENT), create(**DAY), create("gaussian", epsilon=1.0, delta=0.1)]
    plan, (_, traces, frame) = VerdictPlan(trials=400), follow(mechanisms[0])
    bound = [follow(mechanism)[0] for mechanism in mechanisms]

    def judged(order):
        neighbours = near(traces, frame, 2, 3, "event", "user_day", "user")
        found = {i: try_guarantee(bound[i], neighbours, plan, key=str(i)) for i in order}
        return [found[i] for i in range(3)]

    assert judged([0, 1, 2]) == judged([2, 0, 1])


@pytest.mark.parametrize("reach", ["cell", "series", "release"])
def test_only_what_can_change_is_published(reach, monkeypatch):
    """Trials are as many as the room for values allows, and blocks of them change nothing."""
    steps = {
        "cell": [],
        "series": [{"name": "adaptive_ranges", "ranges": 3}],
        "release": [{"name": "suppress_unpopular", "fraction": 0.5}],
    }
    mechanism = create("chain", steps=[DAY, *steps[reach]])
    _, traces, frame = follow(mechanism)
    pairs = counted(near(traces, frame, 2, 0, "user_day"), "user_day")
    changed = [inside != outside for inside, outside in pairs]
    sizes = {
        "cell": max(each.sum() for each in changed),
        "series": max(24 * each.any(axis=1).sum() for each in changed),
        "release": 24 * N_ROIS,
    }
    monkeypatch.setattr(verdict, "_MOST_VALUES", 20_000)
    found = tried(mechanism, trials=20_000)
    assert found.trials == 20_000 // sizes[reach]
    monkeypatch.setattr(verdict, "_BLOCK", 1000)
    if reach == "cell":  # one step draws for all, in order
        assert tried(mechanism, trials=20_000) == found


def test_groups_are_of_the_size_that_is_audited():
    """All but the user are others, each counted once."""
    _, traces, frame = follow(create(**DAY), null_roi=True)
    for kind in ("event", "user_day"):
        for pair in counted(near(traces, frame, 5, 1, kind), kind):
            for side in pair:
                n_there = side[:-1].sum(axis=0) + side[-1]
                assert (n_there >= 10).all()
                assert side.max() <= 10
    for _, outside in counted(near(traces, frame, 5, 1, "user"), "user"):
        assert (outside.sum(axis=0) >= 9).all()
        assert outside.max() <= 9


def test_days_of_merged_hours(cube, plan_fields):
    """The audit's own settings: blocks of five hours, some of which lie on two days."""
    from clusterscale.analyses.audit import AuditPlan

    mechanism = {"name": "chain", "steps": [{"name": "coarsen_time", "factor": 5}, DAY]}
    plan = AuditPlan(**(plan_fields | {"mechanisms": [mechanism]}))
    (setting,) = load_settings(
        next(plan.evaluations(cube)).source, [plan.mechanisms[0].trace_steps]
    ).values()
    frame = setting.cells.frame
    assert len(frame.days) == 10
    assert (frame.days != frame.last_days).any()
    inside, outside = counted(near(setting.traces, frame, 2, 3, "user_day"), "user_day")[0]
    assert np.abs(inside - outside).sum() == setting.bounds.user_day


@pytest.mark.slow
def test_the_config_that_shows_it(tmp_path):
    """One command: the broken ones are called broken, the others are not."""
    config = load(CONFIG)
    source = config.cube.model_copy(update={"path": str(tmp_path / "cube")})
    results = run(config.audit, source.open(), tmp_path / "run", SerialExecutor())
    results = with_labels(results)
    names = [str(name) for name in results.mechanism.values]
    found = dict(zip(names, results.verdict.values[0, 0], strict=True))
    assert found == {
        "exact": "nothing promised",
        "truncated_laplace(epsilon=1.0)": "broken",
        "laplace(epsilon=1.0, unit='event', integers='floor')": "consistent",
        "laplace(epsilon=1.0, unit='event', discrete=True)": "consistent",
        "laplace(epsilon=1.0, sensitivity=1.0, unit='user_day')": "broken",
        "gaussian(epsilon=1.0, delta=0.1)": "consistent",
        "randomized_response(p=0.3)": "consistent",
    }
    assert (results.status == "done").all()
    assert results.epsilon_seen.sel(mechanism=names[1]).item() > 1.2
