"""The dataset holds every outcome, and what targets show together."""

from dataclasses import fields

import numpy as np
import pytest
import xarray as xr
from running import run

from clusterscale.analyses.audit import AuditPlan, open_results
from clusterscale.analyses.audit.finished_tasks import entries_in
from clusterscale.analyses.audit.results import pool
from clusterscale.game import Outcome
from clusterscale.metrics import (
    N_PVALUE_BINS,
    calibrated_counts,
    pooled_epsilon_lower_bound,
    pooled_tpr_at_fpr,
)
from clusterscale.runtime import SerialExecutor
from clusterscale.schema import RESULTS
from clusterscale.study.identity import run_in


@pytest.fixture(scope="module")
def finished(cube, tmp_path_factory):
    """A run with a prior whose challenges bound no ε, and its folder."""
    plan = AuditPlan(
        seed=3,
        targets={"random": 4},
        group_sizes=[6],
        periods=[{"name": "all", "first": 0, "epochs": 48}],
        priors=[
            {"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 60},
            {"name": "perfect", "groups": 60},
        ],
        mechanisms=[{"name": "exact"}, {"name": "laplace", "epsilon": 1.0, "unit": "event"}],
        attacks=[{"name": "logistic"}, {"name": "projection"}],
        false_positive_rate=0.2,
    )
    folder = tmp_path_factory.mktemp("finished") / "run"
    return run(plan, cube, folder, SerialExecutor()), folder


def test_every_field_of_an_outcome_is_a_variable_of_the_schema():
    named = {field.name for field in fields(Outcome)} - {"mechanism", "attack"}
    assert named <= set(RESULTS)


@pytest.mark.slow
def test_the_dataset_holds_what_the_journal_does(finished):
    results, folder = finished
    entries = [
        entry
        for batch in entries_in(f"{folder}/journal", run_in(str(folder), "audit"))
        for entry in batch
    ]
    assert len(entries) == results.sizes["target"] * results.sizes["prior"]
    for entry in entries:
        target, _, prior, size = entry.key
        for outcome in entry.outcomes:
            case = results.sel(
                target=target, period="all", prior=prior, group_size=size,
                mechanism=outcome.mechanism, attack=outcome.attack,
            )  # fmt: skip
            for field in fields(Outcome):
                if field.name not in ("mechanism", "attack"):
                    np.testing.assert_array_equal(case[field.name], getattr(outcome, field.name))
    xr.testing.assert_identical(results, open_results(folder))


def test_pooled_numbers_are_those_of_the_summed_levels(finished):
    results, _ = finished
    cell = {"mechanism": "exact", "attack": "projection"}
    chosen = results.sel(cell).isel(prior=0).squeeze(drop=True)
    pair = chosen.level_inside.values, chosen.level_outside.values
    assert pair[0].shape == (4, N_PVALUE_BINS)
    assert (pair[0].sum(axis=1) == 30).all()
    assert (pair[1].sum(axis=1) == 15).all()
    assert float(chosen.pooled_tpr) == pooled_tpr_at_fpr(*pair, 0.2)
    assert float(chosen.pooled_epsilon_lower) == pooled_epsilon_lower_bound(*pair, tries=2)
    assert float(chosen.pooled_tpr) > 0.5
    assert float(chosen.resolvable_fpr) == pytest.approx(0.08)  # 1 in 16 lies on the second level


def test_groups_learnt_by_heart_bound_no_epsilon_together_either(finished):
    results, _ = finished
    learnt = results.isel(prior=1)
    assert learnt.epsilon_lower.isnull().all()
    assert learnt.pooled_epsilon_lower.isnull().all()
    assert learnt.pooled_tpr.notnull().all()


def cells(n_targets, seed=0, n_attacks=3):
    rng = np.random.default_rng(seed)
    counts = np.zeros((2, n_targets, n_attacks, N_PVALUE_BINS), int)
    for at in np.ndindex(n_targets, n_attacks):
        labels = np.arange(100) % 2 == 0
        counts[(slice(None), *at)] = calibrated_counts(labels, rng.normal(size=100) + labels)
    return *counts, np.zeros((n_targets, n_attacks))


def test_targets_that_failed_are_left_out():
    inside, outside, epsilon = cells(9)
    whole = pool(inside[:6], outside[:6], epsilon[:6], 0.1)
    inside[6:], outside[6:], epsilon[6:] = 0, 0, np.nan
    order = [0, 6, 1, 7, 2, 3, 8, 4, 5]
    found = pool(inside[order], outside[order], epsilon[order], 0.1)
    for name, values in whole.items():
        np.testing.assert_array_equal(found[name], values)


def test_one_target_tells_a_rate_and_bounds_nothing():
    found = pool(*cells(1), 0.1)
    assert np.isfinite(found["pooled_tpr"]).all()
    assert np.isnan(found["pooled_epsilon_lower"]).all()
    assert np.isnan(list(pool(*(each[:0] for each in cells(1)), 0.1).values())).all()


@pytest.mark.slow
def test_the_largest_bound_of_several_attacks_is_seldom_too_high():
    """Attacks at chance, ε = 0: one audit in twenty may say more, of 300 and by three errors."""
    rng = np.random.default_rng(8)
    n_wrong = 0
    for _ in range(300):
        counts = np.zeros((2, 6, 4, N_PVALUE_BINS), int)
        for at in np.ndindex(6, 4):
            labels = np.arange(60) % 2 == 0
            counts[(slice(None), *at)] = calibrated_counts(labels, rng.normal(size=60))
        n_wrong += pool(*counts, np.zeros((6, 4)), 0.1)["pooled_epsilon_lower"].max() > 0
    assert n_wrong <= 15 + 3 * (300 * 0.05 * 0.95) ** 0.5
