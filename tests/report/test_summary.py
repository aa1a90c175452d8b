"""The numbers behind the page."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusterscale.report.intervals import mean_interval
from clusterscale.report.section import number, percent
from clusterscale.report.summary import cases, check_control, rows


def test_the_interval_is_about_the_normal_one_and_always_the_same():
    values = np.random.default_rng(0).normal(0.7, 0.1, 150)
    low, high = mean_interval(values)
    reach = 1.96 * values.std(ddof=1) / 150**0.5
    assert low == pytest.approx(values.mean() - reach, abs=0.002)
    assert high == pytest.approx(values.mean() + reach, abs=0.002)
    assert mean_interval(values) == (low, high)


def test_the_interval_covers_the_mean_as_often_as_it_says():
    rng = np.random.default_rng(1)
    ends = np.array([mean_interval(rng.uniform(0.5, 1, 40)) for _ in range(200)])
    covered = np.mean((ends[:, 0] < 0.75) & (ends[:, 1] > 0.75))
    assert 0.89 < covered < 0.99


def test_an_interval_takes_two_values():
    assert np.isnan(mean_interval(np.array([0.7]))).all()
    assert np.isnan(mean_interval(np.array([]))).all()


def test_batches_hold_for_many_targets():
    values = np.random.default_rng(2).normal(0.6, 0.1, 30_000)
    low, high = mean_interval(values)
    assert low < values.mean() < high
    assert high - low < 0.004


@given(st.floats(0, 1))
@example(0.995)
@example(0.005)
def test_a_share_is_never_rounded_to_all_or_none(share):
    assert (percent(share) == "0 %") == (share == 0)
    assert (percent(share) == "100 %") == (share == 1)


def test_unknown_numbers_are_a_dash():
    assert number(float("nan")) == percent(float("nan")) == "–"


def test_axes_are_found_by_name(make_results):
    results = make_results(mechanisms=("exact", "b"), priors=("p", "q"), sizes=(50, 5))
    table = cases(results.transpose("attack", "mechanism", "target", ...))
    n_attacks = results.sizes["attack"]
    for row in rows(table):
        chosen = results["auc"].sel(
            mechanism=row.setting.mechanism,
            prior=row.setting.prior,
            group_size=row.group_size,
        )
        if row.attack == "best for each target":
            chosen = chosen.max("attack")
        else:
            chosen = chosen.sel(attack=row.attack)
        assert row.mean == pytest.approx(float(chosen.mean()))
    sizes = [row.group_size for row in rows(table)]
    assert sizes[: n_attacks + 2] == [5] * (n_attacks + 1) + [50]


def test_a_sound_control_is_seldom_reported_off(make_results):
    verdicts = [check_control(cases(make_results(seed=seed))).verdict for seed in range(100)]
    assert verdicts.count("off") <= 4
    assert verdicts.count("unknown") == 0


def test_one_leaking_attack_is_found_among_sound_ones(make_results):
    results = make_results()
    results["control_auc"].loc[{"attack": "nearest", "group_size": 50}] += 0.1
    control = check_control(cases(results))
    assert control.verdict == "off"
    assert [(row.group_size, row.attack) for row in control.off] == [(50, "nearest")]


@pytest.mark.parametrize(("value", "verdict"), [(0.5, "chance"), (0.6, "off"), (np.nan, "unknown")])
def test_controls_without_spread(make_results, value, verdict):
    results = make_results()
    results["control_auc"][:] = value
    assert check_control(cases(results)).verdict == verdict
