"""Numbers of a release, beside a plain recomputation over made results."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from loops import for_each, mostly_slow

from clusterscale.errors import DamagedError, InputError
from clusterscale.metrics import mean_interval
from clusterscale.reauditing import release_metrics
from clusterscale.reauditing.release_metrics import IntervalEstimate, exposures_of
from clusterscale.reporting.findings import find_exposures, worst_findings

PERIODS, SIZES, PRIORS, ATTACKS = ["all", "noon"], [10, 50], ["known", "past"], ["forest", "near"]
MECHANISMS = ["exact", "laplace(epsilon=1.0)"]
LAPLACE = MECHANISMS[1]
MEASURES, IDEALS = ["pearson", "mean_relative_error(floor=1.0)"], [1.0, 0.0]
VERDICTS = ["broken", "too few samples", "consistent", "nothing promised"]


def measure(audit, screen, mechanism, *, exposed_above):
    exposures = exposures_of(audit, screen, mechanism)
    return release_metrics.measure(audit, exposures, mechanism, exposed_above=exposed_above)


def results(seed=0, n_targets=7, lost=0.2):
    """Make the results of an audit; some targets were absent from a period."""
    rng = np.random.default_rng(seed)
    over = ("period", "group_size", "prior", "mechanism", "attack", "target")
    shape = (2, 2, 2, 2, 2, n_targets)
    auc = rng.uniform(0.3, 1.0, shape)
    auc[rng.random(shape) < lost] = np.nan
    auc[..., 0, :, :, 0] = 0.5  # something was finished
    auc[..., 0] = np.where(np.isnan(auc[..., 0]), 0.5, auc[..., 0])
    price = ("period", "group_size", "mechanism")
    verdicts = rng.choice(VERDICTS, (2, 2, 2))
    return xr.Dataset(
        {
            "auc": (over, auc),
            "auc_low": (over, auc - 0.1),
            "auc_high": (over, np.minimum(auc + 0.1, 1)),
            "auc_degrees": (over, np.full(shape, np.inf)),
            "privacy_loss": (over, np.maximum(2 * auc - 1, 0)),
            **{name: (over, auc * 0 + 0.5) for name in ("control_auc", "absent_auc", "naive_auc")},
            "status": (over, np.where(np.isnan(auc), "unseen", "done").astype(object)),
            "verdict": (price, verdicts),
            "epsilon_seen": (price, rng.uniform(0, 3, (2, 2, 2))),
            "guarantee_epsilon": (("period", "mechanism"), rng.uniform(1, 2, (2, 2))),
            "guarantee_unit": (("period", "mechanism"), np.full((2, 2), "event")),
            "sensitivity": (("period", "mechanism"), np.full((2, 2), 1.0)),
            "sensitivity_needed": (("period", "mechanism"), np.full((2, 2), 1.0)),
            "guarantee_reason": (("period", "mechanism"), np.full((2, 2), "Laplace noise")),
            "utility": ((*price, "measure"), rng.normal(0.5, 1, (2, 2, 2, 2))),
            "ideal": ("measure", IDEALS),
        },
        {
            "period": PERIODS, "group_size": SIZES, "prior": PRIORS, "mechanism": MECHANISMS,
            "attack": ATTACKS, "measure": MEASURES, "target": 3 * np.arange(n_targets),
        },
        {"evaluation_errors": "[]"},
    )  # fmt: skip


def screened(seed=1, n_users=40, mechanisms=MECHANISMS):
    rng = np.random.default_rng(seed)
    over = ("period", "group_size", "mechanism", "attack", "user")
    auc = rng.uniform(0.3, 1.0, (2, 2, len(mechanisms), 2, n_users))
    auc[..., 1, 5] = np.nan
    return xr.Dataset(
        {
            "auc": (over, auc),
            "auc_low": (over, auc - 0.1),
            "auc_high": (over, np.minimum(auc + 0.1, 1)),
            "privacy_loss": (over, np.maximum(2 * auc - 1, 0)),
            "n_events": (("user", "period"), np.ones((n_users, 2), int)),
        },
        {
            "period": PERIODS, "group_size": SIZES, "mechanism": mechanisms, "attack": ATTACKS,
            "user": np.arange(n_users),
        },
        {"plan": "{}"},
    )  # fmt: skip


def strongest(told, mechanism, dims):
    """Return the losses and AUCs of who is known, by the attack that takes most on average.

    Raw counts are attacked as they are, and after any mechanism has been applied.
    """
    best = None
    if mechanism != "exact":
        told = told.sel(mechanism=[mechanism])
    for place in product(*(told[dim].values for dim in (*dims, "mechanism"))):
        at = told.sel(dict(zip((*dims, "mechanism"), place, strict=True)))
        known = [i for i, loss in enumerate(at.privacy_loss.values) if not np.isnan(loss)]
        losses = [float(at.privacy_loss.values[i]) for i in known]
        if losses and (best is None or sum(losses) / len(losses) > best[0]):
            best = (sum(losses) / len(losses), place, known, losses, at)
    return best


@mostly_slow("seed", range(6))
@mostly_slow("mechanism", MECHANISMS, n_quick=2)
def test_the_strongest_attack_at_its_worst_setting(seed, mechanism):
    audit = results(seed)
    found = measure(audit, None, mechanism, exposed_above=0.5)
    dims = ("period", "group_size", "prior", "attack")
    mean, place, known, losses, _ = strongest(audit, mechanism, dims)
    period, size, prior, attack, applied = place
    assert found.mean_loss.value == pytest.approx(mean)
    assert (found.mean_loss.low, found.mean_loss.high) == pytest.approx(mean_interval(losses))
    assert found.mean_loss.low <= mean <= found.mean_loss.high
    parts = [attack, prior, str(size), period]
    if mechanism == "exact":
        parts.append(applied)
    assert sorted(found.attack.split(" · ")) == sorted(parts)
    assert found.finding == worst_findings(find_exposures(audit))[mechanism]
    assert found.n_targets == len(known)
    every = audit if mechanism == "exact" else audit.sel(mechanism=mechanism)
    assert found.worst_loss.value == pytest.approx(float(every.privacy_loss.max()))
    assert found.worst_loss.value >= max(losses) - 1e-12
    assert found.worst_loss.high == pytest.approx(2 * float(every.auc_high.max()) - 1)
    assert found.worst_loss.low < found.worst_loss.value
    assert found.n_screened == len(known)
    assert found.share_exposed.value == pytest.approx(
        sum(each > 0.5 for each in losses) / len(losses)
    )
    assert found.exposed_above == 0.5


@for_each("seed", range(6))
def test_the_promise_and_utility_at_their_worst(seed):
    audit = results(seed)
    found = measure(audit, None, LAPLACE, exposed_above=0.5)
    judged = [
        (VERDICTS.index(str(at.verdict.values)), -float(at.epsilon_seen), float(
            audit.guarantee_epsilon.sel(period=period, mechanism=LAPLACE)))
        for period, size in product(PERIODS, SIZES)
        for at in [audit.sel(period=period, group_size=size, mechanism=LAPLACE)]
    ]  # fmt: skip
    rank, seen, declared = min(judged)
    assert found.verdict == VERDICTS[rank]
    assert (found.epsilon_seen, found.epsilon_declared) == (-seen, declared)
    assert found.unit == "event"
    for name, ideal in zip(MEASURES, IDEALS, strict=True):
        values = audit.utility.sel(mechanism=LAPLACE, measure=name).values.ravel()
        assert found.utility[name][:2] == (max(values, key=lambda each: abs(each - ideal)), ideal)


@mostly_slow("seed", range(4))
def test_users_without_an_event_in_the_period_are_nobody(seed):
    """As if the screen had never scored them: in the share, and in who is strongest."""
    audit, screen = results(), screened(seed)
    gone = np.random.default_rng(seed).random((40, 2)) < 0.4
    screen["n_events"] = screen.n_events.where(~gone, 0)
    masked = screen.where(xr.DataArray(~gone, dims=("user", "period")))
    _, (period, *_), known, losses, _ = strongest(
        masked, LAPLACE, ("period", "group_size", "attack")
    )
    told = exposures_of(audit, screen, LAPLACE)
    np.testing.assert_array_equal(told.users, known)
    assert not gone[told.users, PERIODS.index(period)].any()
    found = measure(audit, screen, LAPLACE, exposed_above=0.4)
    assert found.n_screened == len(known) < 40
    assert found.share_exposed.value == pytest.approx(
        sum(each > 0.4 for each in losses) / len(losses)
    )
    screen.attrs["plan"] = '{"unseen": "include"}'
    included = measure(audit, screen, LAPLACE, exposed_above=0.4)
    assert included.share_exposed == found.share_exposed, "they are no evidence, though scored"


def test_targets_without_an_event_are_no_evidence_though_attacked():
    """As if they had never been attacked; alone they are an error, never a pass."""
    audit = results(lost=0.0)
    status = audit.status.copy(deep=True)
    status[{"target": slice(0, 3)}] = "unseen"
    found = measure(audit.assign(status=status), None, LAPLACE, exposed_above=0.4)
    left = measure(audit.isel(target=slice(3, None)), None, LAPLACE, exposed_above=0.4)
    assert (found.mean_loss, found.worst_loss) == (left.mean_loss, left.worst_loss)
    assert (found.n_targets, found.finding) == (4, left.finding)
    status[:] = "unseen"
    with pytest.raises(InputError, match="no case of a person with an event has finished"):
        measure(audit.assign(status=status), None, LAPLACE, exposed_above=0.4)


def test_everyone_counts_where_a_screen_knows_the_mechanism():
    audit, screen = results(), screened()
    found = measure(audit, screen, LAPLACE, exposed_above=0.4)
    dims = ("period", "group_size", "attack")
    _, place, known, losses, at = strongest(screen, LAPLACE, dims)
    assert found.n_screened == len(known)
    assert found.share_exposed.value == pytest.approx(
        sum(each > 0.4 for each in losses) / len(losses)
    )
    assert found.mean_loss == measure(audit, None, LAPLACE, exposed_above=0.4).mean_loss
    told = exposures_of(audit, screen, LAPLACE)
    assert told.everyone
    assert told.attack == f"{place[2]} · {place[1]} · {place[0]}"
    np.testing.assert_array_equal(told.users, known)
    np.testing.assert_allclose(told.loss, losses)
    np.testing.assert_allclose(told.low, np.maximum(2 * at.auc_low.values[known] - 1, 0))
    np.testing.assert_allclose(told.high, np.maximum(2 * at.auc_high.values[known] - 1, 0))


def test_targets_count_where_it_does_not():
    audit = results()
    for screen in (None, screened(mechanisms=["exact"])):
        told = exposures_of(audit, screen, LAPLACE)
        assert not told.everyone
        assert set(told.users) <= set(audit.target.values)
        assert measure(audit, screen, LAPLACE, exposed_above=0.5).n_screened == len(told.users)


@pytest.mark.slow
@given(st.integers(0, 50))
def test_the_order_of_dimensions_does_not_matter(seed):
    audit, screen = results(seed), screened(seed)
    turned = audit.transpose("target", "attack", "mechanism", "prior", "group_size", "period", ...)
    one = measure(audit, screen, LAPLACE, exposed_above=0.5)
    other = measure(turned, screen.transpose(), LAPLACE, exposed_above=0.5)
    assert one.mean_loss.value == pytest.approx(other.mean_loss.value)
    assert (one.worst_loss, one.share_exposed) == (other.worst_loss, other.share_exposed)
    assert (one.verdict, one.epsilon_seen) == (other.verdict, other.epsilon_seen)


def test_one_target_has_a_wide_interval():
    """Its loss is known, but hardly the mean loss of people like it."""
    found = measure(results(n_targets=1, lost=0), None, LAPLACE, exposed_above=0.5)
    assert found.n_targets == 1
    assert found.mean_loss.known
    assert found.mean_loss.high - found.mean_loss.low > 0.9


@for_each(
    ("name", "value", "error", "message"),
    [
        ("status", "failed", InputError, "tasks of this audit failed"),
        ("status", "missing", InputError, "the audit has not finished"),
        ("status", "", DamagedError, "a part of the results is missing"),
        ("auc", np.nan, DamagedError, "a part of the results is missing"),
        ("verdict", "", DamagedError, "a part of the results is missing"),
    ],
)
def test_what_is_missing_is_no_pass(name, value, error, message):
    """A chunk of a store that is gone is read as empty values."""
    audit = results(lost=0)
    audit[name][dict(period=1, mechanism=1)] = value
    with pytest.raises(error, match=message):
        measure(audit, None, LAPLACE, exposed_above=0.5)
    assert measure(audit, None, "exact", exposed_above=0.5) if name == "verdict" else True


def test_attacks_that_take_as_much_are_told_together():
    audit = results(lost=0)
    audit["privacy_loss"][:] = 0.25
    found = measure(audit, None, LAPLACE, exposed_above=0.5)
    assert found.attack.count(" or ") == 3
    assert found.attack.endswith(" or 13 more")


def test_nothing_to_judge():
    audit = results()
    with pytest.raises(InputError, match=r"gauss; there are results of: exact, laplace"):
        measure(audit, None, "gauss", exposed_above=0.5)
    for name in ("auc", "privacy_loss"):
        audit[name][:] = np.nan
    with pytest.raises(InputError, match="no case of a person with an event has finished"):
        measure(audit, None, LAPLACE, exposed_above=0.5)


def test_utility_that_is_not_known_is_left_out():
    audit = results()
    audit.utility[0, 0, :, 1] = np.nan
    found = measure(audit, None, LAPLACE, exposed_above=0.5)
    assert list(found.utility) == MEASURES[:1]


def test_estimates():
    assert not IntervalEstimate().known
    assert IntervalEstimate.exact(0.5) == IntervalEstimate(0.5, 0.5, 0.5)
    assert IntervalEstimate(0.5).known
    assert not IntervalEstimate(np.inf).known


def test_noise_for_less_than_one_unit_in_any_period_is_found_where_something_is_promised():
    audit, screen = results(0), screened(0)
    assert not measure(audit, screen, LAPLACE, exposed_above=0.5).lacks_noise
    audit["sensitivity"].loc[{"period": PERIODS[1], "mechanism": LAPLACE}] = 0.5
    assert measure(audit, screen, LAPLACE, exposed_above=0.5).lacks_noise
    audit["guarantee_unit"] = audit["guarantee_unit"].astype(object)
    audit["guarantee_unit"][:] = "none"
    assert not measure(audit, screen, LAPLACE, exposed_above=0.5).lacks_noise
