"""The numbers behind the page."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clusterscale.metrics import off_cells, weak_cells
from clusterscale.reporting.audit.cases import cases, rows
from clusterscale.reporting.audit.model import AuditReport
from clusterscale.reporting.section import number, percent


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


@pytest.mark.slow
def test_sound_controls_are_seldom_reported_off(make_results):
    verdicts = [AuditReport(make_results(seed=seed)).controls.verdict for seed in range(100)]
    assert verdicts.count("off") <= 4
    assert verdicts.count("unknown") == 0


def test_the_risk_is_shared_by_all_cells_of_both_controls():
    """In 2,000 audits of 40 cells one in a hundred is off: 20, at five standard deviations 42."""
    rng = np.random.default_rng(5)
    audits = (rng.normal(0.5, 0.06, (2, 20, 12)) for _ in range(2000))
    n_off = sum(any(off.any() for off in off_cells(*audit)) for audit in audits)
    assert 1 <= n_off <= 42


@pytest.mark.parametrize(("name", "field"), [("control_auc", "shuffled"), ("absent_auc", "absent")])
def test_one_leaking_attack_is_found_among_sound_ones(make_results, name, field):
    results = make_results()
    results[name].loc[{"attack": "nearest", "group_size": 50}] += 0.1
    controls = AuditReport(results).controls
    found = {"shuffled": controls.shuffled, "absent": controls.absent}
    assert controls.verdict == found[field].verdict == "off"
    assert [(row.group_size, row.attack) for row in found.pop(field).off] == [(50, "nearest")]
    assert next(iter(found.values())).verdict == "chance"


def test_an_attack_is_weak_where_adding_up_finds_what_it_does_not(make_results):
    results = make_results()
    at = {"attack": "nearest", "group_size": 50}
    results["naive_auc"].loc[at] = results["auc"].loc[at] + 0.01
    assert [(row.group_size, row.attack) for row in AuditReport(results).controls.weak] == [
        (50, "nearest")
    ]


def test_nobody_is_weak_where_there_is_nothing_to_find():
    """Both at chance, and adding up ahead of the attack by luck alone."""
    rng = np.random.default_rng(6)
    naive = rng.normal(0.5, 0.05, (300, 12))
    assert not weak_cells(naive - 0.01, naive).any()
    assert weak_cells(naive + 0.1, naive + 0.2).all()
    assert not weak_cells(np.full((3, 12), np.nan), np.full((3, 12), np.nan)).any()


@pytest.mark.parametrize(("value", "verdict"), [(0.5, "chance"), (0.6, "off"), (np.nan, "unknown")])
def test_controls_without_spread(make_results, value, verdict):
    results = make_results()
    results["control_auc"][:] = results["absent_auc"][:] = value
    controls = AuditReport(results).controls
    assert controls.shuffled.verdict == controls.absent.verdict == controls.verdict == verdict
