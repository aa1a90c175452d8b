"""Guarantees are those of the mechanism on this cube; utility is that of groups drawn for it."""

import json
import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest
import xarray as xr
from pydantic import TypeAdapter
from running import run

from clusterscale import mechanisms, utility
from clusterscale.analyses.audit import AuditPlan, count_failed, open_results
from clusterscale.analyses.dp_audit.evaluation import (
    MechanismEvaluation,
    evaluate_mechanism_task,
    evaluations_in,
    lay_out_evaluations,
    read_evaluations,
)
from clusterscale.cube import blocks, measure_bounds, with_null_roi
from clusterscale.cube.blocks import load_settings
from clusterscale.errors import ConfigError, DamagedError, FormatError, PartialResultError
from clusterscale.groups import count_visits
from clusterscale.mechanisms import create
from clusterscale.metrics import auc_ceiling, privacy_gain
from clusterscale.runtime import SerialExecutor
from clusterscale.seeds import stream

DEFENCES = [
    {"name": "exact"},
    {"name": "laplace", "epsilon": 1.0},
    {"name": "suppress_small", "below": 3},
    {"name": "coarsen_time", "factor": 5},
    {
        "name": "chain",
        "steps": [
            {"name": "cap_contributions", "per_day": 4},
            {"name": "coarsen_space", "factor": 2},
            {"name": "laplace", "epsilon": 0.5, "unit": "user_day"},
        ],
    },
]

TRIALS = {"trials": 2000}


@pytest.fixture
def defended(plan_fields):
    return AuditPlan(
        **(plan_fields | {"mechanisms": DEFENCES, "utility": {"groups": 4}, "verdict": TRIALS})
    )


@pytest.fixture
def task(defended, cube):
    return next(task for task in defended.evaluations(cube) if task.group_size == 6)


def test_an_evaluation_task_is_small_and_pure(task):
    assert len(pickle.dumps(task)) < 5000
    assert pickle.dumps(evaluate_mechanism_task(task)) == pickle.dumps(
        evaluate_mechanism_task(pickle.loads(pickle.dumps(task)))
    )


def test_guarantees_are_of_this_cube(task, defended, cube):
    found = evaluate_mechanism_task(task)
    assert list(found.guarantees) == [mechanism.id for mechanism in defended.mechanisms]
    bounds = measure_bounds(with_null_roi(cube.traces()), cube.frame().days)
    bare, noisy, *_, chain = found.guarantees.values()
    assert (bare.unit, bare.epsilon, bare.ceiling) == ("none", np.inf, 1.0)
    assert (noisy.unit, noisy.epsilon, noisy.sensitivity) == ("user", 1.0, bounds.user)
    assert noisy.required_sensitivity == bounds.user
    assert noisy.user_epsilon == pytest.approx(1.0)
    assert noisy.composed_epsilon < 1
    assert 0.5 < noisy.ceiling <= auc_ceiling(2.0), "a user is replaced, not only removed"
    assert (chain.unit, chain.epsilon) == ("user_day", 0.5)
    anyone, person = "for users no more active than those of this cube", "; for a person who is"
    assert noisy.reason.partition(person)[0].endswith(anyone)
    assert chain.reason.partition(person)[0].endswith("L1 norm of one user's day"), "for anyone"
    assert chain.reason.endswith("for a person who is there on all 2 days, up to ε 1")
    assert chain.sensitivity == chain.required_sensitivity == 8, (
        "four events, and the hours they kept from idle"
    )


def test_bare_counts_are_ideal_and_a_guess_is_not(task, defended):
    found = evaluate_mechanism_task(task)
    measures = defended.utility.measures
    mean, spread = found.utility["exact"]
    for measure, value, sd, guess in zip(measures, mean, spread, found.guess, strict=True):
        if measure.name == "hotspot_tau":  # one hotspot has no order
            assert np.isnan([value, sd, guess]).all()
            continue
        assert value == measure.ideal, measure.label
        assert sd == 0
        assert abs(guess - measure.ideal) > abs(value - measure.ideal), measure.label


def test_the_best_guess_is_random_values_zeros_or_equal_counts(plan_fields, cube, dense):
    """By hand: of a relative error zeros are best, of shares equal counts, and of order none is."""
    names = "mean_relative_error", "jensen_shannon", "hotspot_f1"
    settings = {"groups": 4, "measures": [{"name": name} for name in names]}
    plan = AuditPlan(**plan_fields | {"null_roi": False, "utility": settings, "verdict": TRIALS})
    task = next(task for task in plan.evaluations(cube) if task.group_size == 6)
    found = evaluate_mechanism_task(task)
    rng = stream(task.source.seed, "utility groups", *task.key)
    members = [rng.choice(len(dense), 6, replace=False, shuffle=False) for _ in range(4)]
    counts = [dense[some].sum(axis=0) for some in members]
    zeros = np.mean([utility.mean_relative_error(one, 0 * one) for one in counts])
    equal = np.mean([utility.jensen_shannon(one, np.ones(one.shape)) for one in counts])
    assert found.guess_loss[:2] == pytest.approx((zeros, min(equal, 0.5, found.guess[1])))
    assert zeros <= 1 < found.guess[0]
    assert 0.5 < found.guess_loss[2] <= 1 - found.guess[2], "equal counts are in random order"


def test_what_is_kept_of_events_leaves_out_the_null_roi(task, dense):
    """By hand: small counts are suppressed, but that of who is nowhere is large."""
    key = create("suppress_small", below=3).id
    measures = (*task.utility.measures, utility.create("suppressed_share"))
    task = replace(task, utility=task.utility.model_copy(update={"measures": measures}))
    found = evaluate_mechanism_task(task)
    rng = stream(task.source.seed, "utility groups", *task.key)
    kept, least, moved, hidden = [], [], [], []
    for _ in range(task.utility.groups):
        members = rng.choice(len(dense), task.group_size, replace=False, shuffle=False)
        counts = dense[members].sum(axis=0)
        released = np.where(counts < 3, 0, counts)
        kept.append(released.sum() / counts.sum())
        least.append(min(kept[-1], (released > 0).sum() / (counts > 0).sum()))
        hidden.append(((counts > 0) & (counts < 3)).sum() / (counts > 0).sum())
        epochs = [(a / a.sum(), b) for a, b in zip(counts.T, released.T, strict=True) if a.any()]
        moved.append(
            np.mean([np.abs(a - b / b.sum()).sum() / 2 if b.any() else 1 for a, b in epochs])
        )
    assert found.released_share[key] == pytest.approx(np.mean(least))
    assert np.mean(least) < np.mean(kept)
    means = dict(zip((m.name for m in task.utility.measures), found.utility[key][0], strict=True))
    assert means["events_kept"] == pytest.approx(np.mean(kept))
    assert means["total_variation"] == pytest.approx(np.mean(moved))
    assert 0 < means["suppressed_share"] == pytest.approx(np.mean(hidden))
    assert found.released_share["exact"] == found.sum_ratio["exact"] == 1
    assert found.sum_ratio[key] == pytest.approx(np.mean(kept)), "nothing is added to empty cells"


def test_the_sum_of_all_values_has_those_of_empty_cells(task, dense):
    """By the mean of noise that is cut off at 0 and the size; events kept are of visited cells."""
    clipped = create("laplace", epsilon=0.5, unit="event", clip=True)
    found = evaluate_mechanism_task(replace(task, mechanisms=(clipped,)))
    scale, size = found.guarantees[clipped.id].sensitivity / 0.5, task.group_size
    rng = stream(task.source.seed, "utility groups", *task.key)
    every, visited = [], []
    for _ in range(task.utility.groups):
        members = rng.choice(len(dense), task.group_size, replace=False, shuffle=False)
        counts = dense[members].sum(axis=0)
        expected = counts + scale / 2 * (np.exp(-counts / scale) - np.exp((counts - size) / scale))
        every.append(expected.sum() / counts.sum())
        visited.append(expected[counts > 0].sum() / counts.sum())
    assert found.sum_ratio[clipped.id] == pytest.approx(np.mean(every), rel=0.05)
    means = dict(
        zip((m.name for m in task.utility.measures), found.utility[clipped.id][0], strict=True)
    )
    assert means["events_kept"] == pytest.approx(np.mean(visited), rel=0.1)
    assert np.mean(every) > 1.2 * np.mean(visited)


def test_an_evaluation_of_an_older_version_leaves_the_sum_of_all_values_open(task, defended):
    plain = asdict(evaluate_mechanism_task(task))
    del plain["sum_ratio"]
    found = TypeAdapter(MechanismEvaluation).validate_python(plain)
    values = {"period": ["all"], "period_id": [task.period], "group_size": [task.group_size]}
    values["mechanism"] = [mechanism.id for mechanism in defended.mechanisms]
    values["measure"] = [measure.id for measure in defended.utility.measures]
    coords = {name: (name, np.array(some)) for name, some in values.items()}
    arrays = lay_out_evaluations(coords, defended.mechanisms, {found.key: found})
    assert np.isnan(arrays["sum_ratio"]).all()
    assert (arrays["released_share"] > 0).all()


def test_noise_below_zero_does_not_take_from_what_is_released(task):
    """Laplace noise adds up to nothing on average, but a release of noise is not empty."""
    assert evaluate_mechanism_task(task).released_share[create("laplace", epsilon=1.0).id] == 1


def test_a_release_that_cannot_be_measured_is_an_error_and_not_left_out(task, monkeypatch):
    monkeypatch.setattr(
        "clusterscale.mechanisms.suppression.SuppressSmall.release",
        lambda self, counts, **_: np.full(counts.shape, np.nan),
    )
    whole = evaluate_mechanism_task(replace(task, mechanisms=task.mechanisms[:2]))
    with pytest.raises(
        PartialResultError, match=r"suppress_small\(below=3\): InputError: .* are not finite"
    ) as caught:
        evaluate_mechanism_task(replace(task, mechanisms=task.mechanisms[:3]))
    assert repr(caught.value.result) == repr(whole), (
        "values of other mechanisms are the same without it"
    )


def test_merged_cells_take_their_counts_to_every_part(task, dense):
    """By hand: for every group, the union over five hours in each of them."""
    steps = task.mechanisms[3].trace_steps
    whole, merged = load_settings(task.source, [(), steps]).values()
    group = np.arange(0, 60, 7)
    blocks = np.arange(48) // 5
    union = np.stack([dense[:, :, blocks == block].any(axis=2) for block in range(10)], axis=2)
    idle = ~union.any(axis=1, keepdims=True)
    expected = np.concatenate([union, idle], axis=1)[group].sum(axis=0)[:, blocks]
    counts = count_visits(merged.traces, group[None, :])[0]
    assert counts.shape == (9, 10)
    np.testing.assert_array_equal(merged.cells.expand(counts), expected)
    assert whole.cells.expand(counts) is counts


def test_capped_traces_are_the_same_wherever_they_are_made(task):
    steps = task.mechanisms[4].trace_steps
    first = load_settings(task.source, [steps])[steps]
    blocks._CACHE.clear()
    again = load_settings(task.source, [(), steps])[steps]
    assert again.traces is not first.traces
    np.testing.assert_array_equal(first.traces.cells, again.traces.cells)
    assert load_settings(task.source, [steps])[steps].traces is again.traces, "once a process"
    assert first.bounds.user_day == 8


def test_another_cube_at_the_address_is_refused(task):
    wrong = replace(task.source, fingerprint="0" * 32)
    with pytest.raises(FormatError, match="it was replaced after the run was planned"):
        load_settings(wrong, [()])


def test_the_dataset_has_promises_utility_and_gains(defended, cube, tmp_path):
    results = run(defended, cube, tmp_path / "run", SerialExecutor())
    assert (results.status == "done").all(), results.error.values
    evaluation = evaluate_mechanism_task(next(iter(defended.evaluations(cube))))
    key = create("suppress_small", below=3).id
    chosen = results.sel(mechanism=key, group_size=3, period="all")
    np.testing.assert_array_equal(chosen.utility, evaluation.utility[key][0])
    np.testing.assert_array_equal(chosen.utility_sd, evaluation.utility[key][1])
    assert float(chosen.released_share) == evaluation.released_share[key]
    assert float(chosen.sum_ratio) == evaluation.sum_ratio[key]
    np.testing.assert_array_equal(results.random_guess[0, 0], evaluation.guess)
    assert list(results.ideal.values) == [m.ideal for m in defended.utility.measures]
    assert results.guarantee_unit.values.tolist() == [["none", "user", "none", "none", "user_day"]]
    assert results.verdict.sel(group_size=3).values.tolist() == [
        ["nothing promised", "consistent", "nothing promised", "nothing promised", "consistent"]
    ]
    judged = [evaluation.dp_tests[each] for each in results.mechanism.values]
    chosen = results.sel(group_size=3, period="all")
    np.testing.assert_array_equal(chosen.epsilon_seen, [each.epsilon_seen for each in judged])
    np.testing.assert_array_equal(chosen.verdict_trials, [each.trials for each in judged])
    bare = results.auc.sel(mechanism="exact")
    np.testing.assert_array_equal(
        results.privacy_gain.sel(mechanism=key),
        privacy_gain(bare, results.auc.sel(mechanism=key)),
    )
    assert (results.privacy_gain.sel(mechanism="exact") == 0).all()
    assert json.loads(results.attrs["evaluation_errors"]) == []
    xr.testing.assert_identical(results, open_results(tmp_path / "run"))


def test_trace_steps_are_compared_on_the_same_people(defended, cube, tmp_path, plan_fields):
    """A step that changes nothing gives the outcomes of none: the draws are the same."""
    idle = {"name": "cap_contributions", "per_day": 24 * 8}
    plan = AuditPlan(**(plan_fields | {"mechanisms": [{"name": "exact"}, idle], "control": False}))
    results = run(plan, cube, tmp_path / "run", SerialExecutor())
    np.testing.assert_array_equal(results.auc[..., 0, :], results.auc[..., 1, :])


@pytest.mark.slow
def test_without_bare_counts_there_is_no_gain(cube, tmp_path, plan_fields):
    plan = AuditPlan(**(plan_fields | {"mechanisms": [{"name": "laplace", "epsilon": 1.0}]}))
    results = run(plan, cube, tmp_path / "run", SerialExecutor())
    assert results.privacy_gain.isnull().all()


@pytest.mark.slow
def test_a_failed_evaluation_is_reported_and_tried_again(defended, cube, tmp_path, monkeypatch):
    def fail(task):
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr("clusterscale.analyses.dp_audit.evaluation.evaluate_mechanism_task", fail)
        broken = run(defended, cube, tmp_path / "run", SerialExecutor())
    assert json.loads(broken.attrs["evaluation_errors"]) == ["MemoryError: no room"] * 2
    assert count_failed(broken) == 2, "one for each group size"
    assert broken.utility.isnull().all()
    assert broken.released_share.isnull().all()
    assert (broken.verdict == "").all()
    assert broken.epsilon_seen.isnull().all()
    assert (broken.guarantee_unit == "").all()
    assert (broken.status == "done").all()
    again = run(defended, cube, tmp_path / "run", SerialExecutor())
    # groups of this cube have one hotspot, which has no order
    assert (again.utility.isnull() == (again.measure == "hotspot_tau")).all()
    assert (again.released_share > 0).all()


def test_evaluations_come_back_as_they_were_put(task, tmp_path):
    records = evaluations_in(str(tmp_path))
    evaluation, failed = (
        evaluate_mechanism_task(task),
        MechanismEvaluation(("other", 3), error="it broke"),
    )
    records.add(evaluation)
    records.add(failed)
    assert evaluation.dp_tests[create("laplace", epsilon=1.0).id].verdict == "consistent"
    assert repr(sorted(read_evaluations(records).items())) == repr(
        sorted({evaluation.key: evaluation, failed.key: failed}.items())
    )
    next(tmp_path.glob("*.record")).write_bytes(b"half")
    with pytest.raises(DamagedError, match="this entry of the journal cannot be read"):
        read_evaluations(records)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (
            {"name": "fourier", "epsilon": 1.0, "coefficients": 26},
            "fourier: coefficients is 26, but a series of 48 epochs has 25",
        ),
        (
            {
                "name": "chain",
                "steps": [
                    {"name": "coarsen_time", "factor": 12},
                    {"name": "fourier", "epsilon": 1.0, "coefficients": 4},
                ],
            },
            "fourier: coefficients is 4, but a series of 4 epochs has 3",
        ),
        (
            {"name": "fixed_ranges", "size": 4},
            "fixed_ranges: size 4 is larger than any count of 3 members",
        ),
        (
            {"name": "sample_events", "remove": 0.5},
            "sample_events: a user who loses the only event of an hour would enter the null "
            "ROI, which counts do not show: set null_roi: false",
        ),
        (
            {"name": "coarsen_space", "groups": [[0, 8]]},
            "coarsen_space: there is no ROI 8 among 8",
        ),
    ],
)
def test_mechanisms_that_make_no_sense_here(plan_fields, cube, mechanism, message):
    plan = AuditPlan(**(plan_fields | {"mechanisms": [{"name": "exact"}, mechanism]}))
    with pytest.raises(ConfigError) as caught:
        plan.check(cube)
    assert str(caught.value) == f"mechanisms.1: {message}"


def test_utility_names_and_settings_are_the_registry_s(plan_fields):
    measures = [{"name": name} for name in utility.UTILITIES]
    plan = AuditPlan(**(plan_fields | {"utility": {"measures": measures}}))
    assert len(plan.utility.measures) == len(list(utility.UTILITIES))
    assert mechanisms.create("exact").label == "exact"
