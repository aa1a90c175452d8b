"""Exposure is read on the side of caution; certificates are those of the users who matter."""

import numpy as np
import pytest
import xarray as xr
from certify.test_replaced import KnownTotal

import clusterscale as cs
from clusterscale.analyses.advise import Advice, AdvicePlan
from clusterscale.analyses.advise.certificates import (
    certified_findings,
    certify,
    certify_tasks,
    worst_of,
)
from clusterscale.analyses.advise.exposure import (
    attacked_findings,
    read_attacked,
    read_screened,
    screened_findings,
)
from clusterscale.analyses.advise.goal import (
    AttackedLimit,
    CertifiedLimit,
    GuaranteeLimit,
    Limits,
    ScreenedLimit,
)
from clusterscale.analyses.audit import AuditPlan
from clusterscale.analyses.certify import ceiling
from clusterscale.mechanisms import create
from clusterscale.metrics import mean_interval

LIMIT = ScreenedLimit(loss=0.5, share=0.1)


def screened(losses, n_events=None):
    """Return a screen of one mechanism with the losses of two attacks, (attack, user)."""
    losses = np.array(losses, np.float32)
    dims = "mechanism", "period", "group_size", "attack", "user"
    n_events = np.ones(losses.shape[1], int) if n_events is None else np.array(n_events)
    return xr.Dataset(
        {
            "privacy_loss": (dims, losses[None, None, None]),
            "n_events": (("user", "period"), n_events[:, None]),
        },
        {"mechanism": ["m"], "period": ["p"], "group_size": [5]},
        {"plan": "{}"},
    )


def test_the_strongest_attack_counts_on_the_users_that_are_asked_for():
    found = read_screened(screened([[0.9, 0.0, 0.0, 0.2], [0.0, 0.0, 0.6, 0.6]]),
                          np.array([3, 1, 2]), LIMIT)["m"]  # fmt: skip
    assert found.mean == pytest.approx(0.4)
    assert found.share == pytest.approx(2 / 3)
    assert (found.low, found.high) == pytest.approx(mean_interval([0.0, 1.0, 1.0]), abs=1e-6)


def test_who_could_not_be_compared_counts_as_exposed_and_who_was_absent_does_not():
    users = np.arange(4)
    found = read_screened(screened([[np.nan, 0, 0, 0.9]], [1, 1, 1, 0]), users, LIMIT)["m"]
    assert found.share == pytest.approx(1 / 3)
    nobody = read_screened(screened([[0.0] * 4], [0] * 4), users, LIMIT)["m"]
    assert (nobody.share, nobody.high) == (1, 1)


def test_a_mechanism_without_a_screen_is_not_shown_to_keep_its_limit():
    assert [one.verdict for one in screened_findings(None, LIMIT)] == ["unclear"]
    assert not list(screened_findings(None, None))


def attacked(auc):
    """Return an audit of one mechanism, with AUCs (attack, target) and intervals of ± 0.05."""
    auc = np.array(auc, float)[None, None, None, None]
    dims = "mechanism", "period", "prior", "group_size", "attack", "target"
    found = {"auc": auc, "auc_low": auc - 0.05, "auc_high": auc + 0.05, "epsilon_lower": 0 * auc}
    found["auc_degrees"] = np.full(auc.shape, np.inf)
    return xr.Dataset({key: (dims, value) for key, value in found.items()}, {"mechanism": ["m"]})


def test_the_mean_is_that_of_the_strongest_attack_and_the_worst_that_of_any_target():
    found = read_attacked(attacked([[0.5, 0.5, 0.95], [0.7, 0.7, np.nan]]), "m")
    assert found.mean == pytest.approx(0.7)
    assert found.high >= mean_interval([0.7, 0.7])[1]
    assert (found.worst, found.worst_high) == (0.95, pytest.approx(1.0))
    assert found.n_targets == 3


def test_nothing_attacked_is_no_pass():
    found = read_attacked(attacked([[np.nan, np.nan]]), "m")
    limit = AttackedLimit(mean_auc=0.9, worst_auc=0.9)
    assert {one.verdict for one in attacked_findings(found, limit)} == {"unclear"}


@pytest.mark.parametrize(
    ("limit", "ceiling", "verdicts", "says"),
    [
        (0.75, 0.6, ("holds", "holds"), "the certificate, 0.600, decides"),
        (0.75, 0.8, ("unclear", "unclear"), "the interval decides, the certificate is 0.800"),
        (0.75, 1.0, ("unclear", "unclear"), "the interval decides, no certificate is below 1"),
        (0.5, 0.5, ("holds", "fails"), "the interval decides, the certificate is 0.500"),
        (1.0, 0.99, ("holds", "holds"), "the interval decides, the certificate is 0.990"),
    ],
)
def test_a_limit_that_a_certificate_keeps_is_kept_however_wide_the_interval(
    limit, ceiling, verdicts, says
):
    """Twelve users are too few for an interval below the limit; a whole one above it fails."""
    found = read_attacked(attacked([[0.45, 0.6, 0.74]]), "m", ceiling)
    one, other = attacked_findings(found, AttackedLimit(mean_auc=limit, worst_auc=limit))
    assert (one.verdict, other.verdict) == verdicts
    assert says in other.text
    assert "decides" in one.text


def test_adversaries_who_train_on_the_challenges_are_not_bounded_by_a_certificate():
    results = attacked([[0.5, 0.6], [0.5, 0.7]])
    results["epsilon_lower"][..., 1, :] = np.nan
    found = read_attacked(results, "m", 0.6)
    (one,) = attacked_findings(found, AttackedLimit(worst_auc=0.72))
    assert one.verdict == "unclear"
    assert "no certificate is below 1" in one.text


def test_a_certificate_shows_the_limit_of_a_screen_as_well():
    wide = read_screened(screened([[0.0, 0.6, 0.0]]), np.arange(3), LIMIT)["m"]
    for seen in (wide, None):
        for auc, verdict in ((0.75, "holds"), (0.76, "unclear")):
            (found,) = screened_findings(seen, LIMIT, auc)
            assert found.verdict == verdict
            assert ("the certificate decides" in found.text) == (verdict == "holds")


@pytest.fixture
def audit(plan_fields):
    return AuditPlan(**plan_fields | {"null_roi": False})


def certificates(audit, cube, mechanism, limit):
    advice = Advice(AdvicePlan(families=(), limits=Limits(certified=limit)), audit)
    tasks = certify_tasks(advice, cube, [mechanism])
    return worst_of([one for task in tasks for one in certify(task)])


@pytest.mark.slow
def test_certificates_are_the_ceilings_of_the_users_who_change_most(audit, cube, dense):
    n_cells = np.sort(dense.reshape(len(dense), -1).sum(axis=1))
    noisy = create("laplace", epsilon=0.2, unit="event")
    found = certificates(audit, cube, noisy, CertifiedLimit(auc=0.9, share=0.25))
    n_above = int(0.25 * (n_cells > 0).sum())
    size = audit.group_sizes[0]
    assert found.worst == ceiling(noisy, n_changed=int(n_cells[-1]), group_size=size).auc
    chosen = int(n_cells[-1 - n_above])
    assert found.auc == ceiling(noisy, n_changed=chosen, group_size=size).auc < found.worst


def test_the_certificate_of_replaced_users_is_none_below_that_of_any_user(audit, cube, tmp_path):
    """Those of the analysis, of which each user has an own one, are for the same game."""
    noisy = create("laplace", epsilon=0.05, unit="event")
    found = certificates(audit, cube, noisy, None)
    plan = audit.model_copy(update={"mechanisms": (noisy,)})
    known = cs.certify(plan, cube, tmp_path, progress=False)
    highest = float(known.auc.sel(neighbours="replace").max())
    assert highest <= found.replaced + 1e-6 < 1
    assert found.replaced == pytest.approx(highest, abs=0.01)
    assert found.replaced > found.worst, "two people change more counts than one"
    assert found.ceiling == found.replaced


def test_nothing_is_certified_of_replaced_users_by_several_periods_alone(plan_fields, cube):
    halves = [{"name": str(first), "first": first, "epochs": 12} for first in (0, 12)]
    audit = AuditPlan(**plan_fields | {"null_roi": False, "periods": halves})
    advice = Advice(AdvicePlan(families=(), limits=Limits()), audit)
    tasks = certify_tasks(advice, cube, [create("laplace", epsilon=0.05, unit="event")])
    found = [one for task in tasks for one in certify(task)]
    together = [one.replaced is None for one in found]
    assert together.count(True) == 1
    assert worst_of([found[together.index(True)]]).ceiling == 1
    assert worst_of(found).ceiling == max(one.ceiling for one in found if one.replaced) < 1


def test_each_day_of_overlapping_periods_counts_once_for_a_person(plan_fields, cube):
    """The first day, and both: two days of (.5, 1e-5) are (1, 2e-5), and not a group of three."""
    periods = [{"name": name, "first": 0, "epochs": n} for name, n in (("one", 24), ("both", 48))]
    audit = AuditPlan(**plan_fields | {"null_roi": False, "periods": periods})
    noise = {"name": "gaussian", "epsilon": 0.5, "delta": 1e-5, "unit": "user_day"}
    steps = [{"name": "cap_contributions", "per_day": 2}, {**noise, "discrete": True}]
    found = certificates(audit, cube, create("chain", steps=steps), None)
    on_all = "for a person who is there on all 2 days, up to ε 1, δ 2e-05"
    assert found.person == f"{on_all}, if each day is published once"


def test_a_guarantee_about_replaced_events_does_not_keep_a_limit(audit, cube):
    limit = GuaranteeLimit(unit="event", epsilon=1.0)
    for mechanism, verdict in (
        (KnownTotal(), "fails"),
        (KnownTotal(unit="user"), "holds"),  # of which one event less is a replacement
    ):
        found = certificates(audit, cube, mechanism, None)
        (finding,) = certified_findings(found, Limits(guarantee=limit))
        assert finding.verdict == verdict
        assert finding.text.startswith("no guarantee") == (verdict == "fails")


@pytest.mark.slow
def test_several_periods_are_certified_together(plan_fields, cube):
    """Who sees two half periods learns as much as who sees the whole one."""
    halves = [{"name": str(first), "first": first, "epochs": 24} for first in (0, 24)]
    noisy, limit = create("laplace", epsilon=0.2, unit="event"), CertifiedLimit(auc=0.9)
    fields = plan_fields | {"null_roi": False}
    whole, parts, half = (
        certificates(AuditPlan(**fields | {"periods": periods}), cube, noisy, limit).worst
        for periods in (fields["periods"], halves, halves[:1])
    )
    assert parts == whole > half


@pytest.mark.slow
def test_what_nothing_bounds_has_a_certificate_of_one(audit, cube):
    found = certificates(audit, cube, create("exact"), CertifiedLimit(auc=0.9))
    assert (found.auc, found.worst, found.unit) == (1, 1, "none")
    limits = Limits(
        certified=CertifiedLimit(auc=0.9), guarantee=GuaranteeLimit(unit="event", epsilon=1.0)
    )
    assert [one.verdict for one in certified_findings(found, limits)] == ["fails", "fails"]


@pytest.mark.parametrize(
    ("settings", "wanted", "verdict"),
    [
        ({"epsilon": 1.0, "unit": "user_day"}, ("event", 1.0), "holds"),
        ({"epsilon": 1.0, "unit": "event"}, ("user_day", 1.0), "fails"),
        ({"epsilon": 1.1, "unit": "event"}, ("event", 1.0), "fails"),
        ({"epsilon": 1.0, "unit": "user", "sensitivity": 1.0}, ("user", 1.0), "fails"),
    ],
)
def test_a_guarantee_must_cover_the_unit_with_enough_noise(audit, cube, settings, wanted, verdict):
    found = certificates(audit, cube, create("laplace", **settings), None)
    unit, epsilon = wanted
    limits = Limits(guarantee=GuaranteeLimit(unit=unit, epsilon=epsilon))
    assert [one.verdict for one in certified_findings(found, limits)] == [verdict]
