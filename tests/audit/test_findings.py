"""Verdicts of an audit: what each word takes, and that no noise makes raw counts look better."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from loops import for_each, mostly_slow
from oracles.entries import build
from running import run

from clusterscale.analyses.audit import AuditPlan
from clusterscale.mechanisms import MECHANISMS
from clusterscale.metrics import auc_interval, auc_p_values, mean_interval
from clusterscale.reporting.findings import (
    EXPOSURES,
    find_emptiness,
    find_exposures,
    worst_finding,
    worst_findings,
)
from clusterscale.runtime import SerialExecutor

DIMS = ("period", "prior", "group_size", "mechanism", "attack", "target")
NAMES = ("auc_low", "auc_high", "auc_degrees", "control_auc", "absent_auc", "naive_auc")


def dataset(auc, *, status="done", error=0.04, control=0.5, naive=0.5, mechanisms=None):
    """Results with AUCs of shape (mechanism, attack, target), of intervals that wide by odds."""
    auc = np.asarray(auc, float)[None, None, None]
    odds = np.log(np.clip(auc, 1e-9, 1 - 1e-9) / np.clip(1 - auc, 1e-9, 1))
    reach = 1.96 * 2 * error / np.sqrt(np.clip(auc * (1 - auc), 1e-3, 1))
    low, high = (1 / (1 + np.exp(-(odds + side * reach))) for side in (-1, 1))
    plain = (np.inf, control, control, naive)
    values = low, high, *(np.full(auc.shape, each) for each in plain)
    labels = mechanisms or ["exact", "laplace(epsilon=1)", "gaussian"][: auc.shape[3]]
    return xr.Dataset(
        {
            "auc": (DIMS, auc),
            **{name: (DIMS, value) for name, value in zip(NAMES, values, strict=True)},
            "status": (DIMS, np.broadcast_to(status, auc.shape).astype(object)),
        },
        {
            "period": ["a week"],
            "prior": ["known_subset"],
            "group_size": [100],
            "mechanism": labels,
            "attack": [f"attack-{i}" for i in range(auc.shape[4])],
            "target": np.arange(auc.shape[5]),
        },
    )


def verdict(auc, **options):
    known = {"mechanisms": ["laplace(epsilon=1)"]} | options
    (found,) = find_exposures(dataset(np.asarray(auc, float)[None, None], **known))
    return found


NEAR_CHANCE = np.linspace(0.45, 0.55, 18)


@for_each(
    ("auc", "options", "exposure", "reason"),
    [
        (np.full(18, 0.95), {}, "exposed", "the mean AUC is 0.950, above 0.75"),
        ([0.99] * 15 + [0.6] * 3, {}, "exposed", "the mean AUC is 0.925, above 0.75"),
        ([0.95] * 10 + [0.2] * 8, {}, "exposed", "10 of 18 targets are certainly above 0.75"),
        (np.full(60, 0.62), {}, "partly exposed", "the interval of the mean AUC is above 0.5"),
        (
            [*NEAR_CHANCE, 0.95],
            {},
            "partly exposed",
            "1 of 19 targets is certainly above 0.75",
        ),
        ([*NEAR_CHANCE, 0.8], {}, "inconclusive", "1 of 19 targets is above 0.75, none certainly"),
        ([0.8, 0.2], {}, "inconclusive", "the interval of the mean reaches 0.94"),
        (NEAR_CHANCE[:3], {}, "inconclusive", "the interval of the mean reaches 0.84"),
        (
            NEAR_CHANCE,
            {"error": 0.2},
            "inconclusive",
            "18 of 18 targets may be above 0.75: too few challenges",
        ),
        (NEAR_CHANCE, {"control": 0.6}, "inconclusive", "a control is not at chance"),
        (
            NEAR_CHANCE,
            {"naive": 0.65},
            "inconclusive",
            "attack-0 does no better than the sum of all published values",
        ),
        (NEAR_CHANCE, {"status": ["failed"] + ["done"] * 17}, "inconclusive", "1 case failed"),
        (NEAR_CHANCE, {"status": "failed"}, "inconclusive", "no target has a result"),
        (
            NEAR_CHANCE,
            {},
            "not seen to be exposed",
            "the mean AUC is below 0.75 with 95 % confidence, no target above it",
        ),
    ],
)
def test_what_each_verdict_takes(auc, options, exposure, reason):
    found = verdict(auc, **options)
    assert (found.exposure, found.reason) == (exposure, reason)


def test_of_exact_counts_it_is_told_who_exceeds_any_limit():
    """That somebody who knows all others recognises anybody says nothing of who knows less."""
    found = verdict([0.8, 0.2], mechanisms=["exact"])
    assert found.exposure == "inconclusive"
    assert found.reason.startswith("the interval of the mean reaches 0.94; ")
    assert "an adversary who knows all others exceeds any limit" in found.reason
    for auc, mechanism in ((NEAR_CHANCE, "exact"), ([0.8, 0.2], "laplace(epsilon=1)")):
        assert "exceeds" not in verdict(auc, mechanisms=[mechanism]).reason


def test_targets_that_were_not_attacked_do_not_count():
    status = np.array(["missing"] * 3 + ["done"] * 15)
    found = verdict(np.where(status == "done", 0.5, np.nan), status=status)
    assert (found.n_targets, found.n_done, found.exposure) == (15, 15, "not seen to be exposed")
    assert not find_exposures(dataset(np.full((1, 1, 3), np.nan), status="missing"))


def test_a_finding_has_the_numbers_of_the_strongest_attack():
    weak, strong = np.linspace(0.5, 0.6, 9), np.linspace(0.55, 0.8, 9)
    (found,) = find_exposures(dataset([[weak, strong]]))
    assert found.attacks == ("attack-1",)
    assert found.mean == pytest.approx(strong.mean())
    assert (found.low, found.high) == mean_interval(strong)
    assert (found.n_above, found.n_certain) == (2, 0)


def test_attacks_that_do_alike_are_told_together():
    auc = np.full((1, 3, 9), 0.9)
    auc[0, 1] -= 1e-4
    auc[0, 2] -= 1e-2
    (found,) = find_exposures(dataset(auc))
    assert found.attacks == ("attack-0", "attack-1")


def test_raw_counts_are_judged_by_attacks_on_what_can_be_made_of_them():
    raw, noisy = find_exposures(dataset([[NEAR_CHANCE], [NEAR_CHANCE + 0.4]]))
    assert raw.exposure == noisy.exposure == "exposed"
    assert raw.attacks == ("attack-0 after applying laplace(epsilon=1)",)
    assert noisy.attacks == ("attack-0",)
    assert raw.mean == noisy.mean


def test_a_higher_mean_of_a_wider_interval_does_not_make_raw_counts_look_better():
    apart, alike = np.resize([0.2, 0.999], 60), np.full(60, 0.58)
    wide, narrow = (find_exposures(dataset([[each]]))[0] for each in (apart, alike))
    assert wide.mean > narrow.mean
    assert wide.low < 0.5 < narrow.low
    raw, noisy = find_exposures(dataset([[apart], [alike]], error=0.3))
    assert (noisy.exposure, noisy.reason) == (raw.exposure, raw.reason.partition(", after")[0])
    assert raw.reason.endswith("after applying laplace(epsilon=1)")
    assert raw.mean == wide.mean


AUCS = arrays(
    np.float64,
    st.tuples(st.just(3), st.integers(1, 2), st.integers(1, 12)),
    elements=st.floats(0, 1),
)


@given(AUCS, st.sampled_from([0.02, 0.06, 0.2]), st.floats(0.4, 0.6))
def test_no_mechanism_is_judged_worse_than_raw_counts(auc, error, control):
    found = find_exposures(dataset(auc, error=error, control=control))
    rank = {each.mechanism: EXPOSURES.index(each.exposure) for each in found}
    assert rank["exact"] == min(rank.values())
    assert found[0].mean >= max(each.mean for each in found)
    assert worst_finding(found).exposure == found[0].exposure
    assert worst_findings(found) == {each.mechanism: each for each in found}


@given(AUCS, st.integers(0, 11), st.floats(0, 1))
def test_a_higher_auc_never_makes_a_verdict_kinder(auc, target, raised):
    """But for `inconclusive`, which is no kind word."""
    higher = auc[:1, :1].copy()
    place = (0, 0, target % auc.shape[2])
    higher[place] = max(higher[place], raised)
    (before,), (after,) = (find_exposures(dataset(each)) for each in (auc[:1, :1], higher))
    if before.exposure != "inconclusive":
        assert EXPOSURES.index(after.exposure) <= EXPOSURES.index(before.exposure)


@mostly_slow(("n", "limit"), [(50, 0.75), (25, 0.6), (100, 0.9)])
def test_p_values_are_seldom_small_at_the_limit(n, limit):
    """Binormal scores whose AUC is the limit; four standard errors of 1,500 samples."""
    from scipy.stats import norm

    rng, shift = np.random.default_rng(n), 2**0.5 * norm.ppf(limit)
    labels, p_values = np.repeat([True, False], n), []
    for _ in range(1500):
        scores = rng.normal(np.where(labels, shift, 0.0))
        found = np.mean(scores[:n, None] > scores[n:])
        low, high = auc_interval(labels, scores, scale="odds")
        p_values.append(auc_p_values(found, low, high, limit=limit))
    for level in (0.01, 0.05):
        assert np.mean(np.array(p_values) <= level) <= level + 4 * (level / 1500) ** 0.5


@pytest.mark.parametrize("n", [1, 5, 50])
def test_a_perfect_auc_has_the_chance_of_n_pairs_in_order(n):
    labels = np.repeat([True, False], n)
    low, high = auc_interval(labels, labels.astype(float), scale="odds")
    expected = 0.75**n
    assert auc_p_values(1.0, low, high) == pytest.approx(expected, rel=1e-6)


PRIOR = {
    "name": "known_subset", "alpha": 0.5, "training": 16, "challenges": 20, "known_fraction": 0.1,
}  # fmt: skip


@pytest.mark.slow
def test_raw_counts_are_never_judged_more_kindly_than_any_mechanism(cube, plan_fields, tmp_path):
    """Audits of every registered mechanism on the same targets, for 20 seeds."""
    few = {
        "targets": {"random": 6},
        "group_sizes": [24],
        "priors": [PRIOR],
        "null_roi": False,
        "mechanisms": [
            build(MECHANISMS, name).model_dump(mode="json", exclude_none=True)
            for name in MECHANISMS
            if name != "tables"  # of which the prior cannot guess cells
        ],
        "attacks": [{"name": "projection"}],
        "utility": {"groups": 1, "measures": [{"name": "pearson"}]},
        "verdict": {"trials": 4, "units": 1},
    }
    kinder = 0
    for seed in range(20):
        plan = AuditPlan(**(plan_fields | few | {"seed": seed}))
        results = run(plan, cube, tmp_path / str(seed), SerialExecutor())
        found = {each.mechanism: each for each in find_exposures(results)}
        assert len(found) == len(few["mechanisms"])
        raw = EXPOSURES.index(found["exact"].exposure)
        worst = min(EXPOSURES.index(each.exposure) for each in found.values())
        assert raw == worst, seed
        alone = find_exposures(results.sel(mechanism=["exact"]))[0]
        kinder += EXPOSURES.index(alone.exposure) > worst
    assert kinder, "else this shows nothing: raw counts alone were never judged more kindly"


def test_emptiness_is_that_of_the_emptiest_release_and_unknown_shares_are_not_full():
    shares = [[0.0, 1.0], [0.04, np.nan], [np.nan, 1.0], [0.05, 1.0]]
    dims = ("mechanism", "period", "group_size")
    results = xr.Dataset(
        {"released_share": (dims, np.array(shares)[:, None])}, coords={"mechanism": list("abcd")}
    )
    found = [find_emptiness(results, name) for name in "abcd"]
    assert found == ["empty", "nearly empty", "unknown", ""]
