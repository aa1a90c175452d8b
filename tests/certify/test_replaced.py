"""A guarantee about replaced events or days, for two people: against the law of what is published.

The mechanisms publish exactly what replacing one unit by another leaves as it is, and the rest with
noise, so that their guarantees hold; the best test of two people is a sum over all outcomes.
"""

from typing import Literal

import numpy as np
import pytest
from certify.oracles import area
from certify.test_analysis import made, run
from doubles.stated_noise import StatedNoise
from loops import for_each

from clusterscale.analyses import certify
from clusterscale.analyses.certify import Visits
from clusterscale.analyses.certify.ceilings import against
from clusterscale.analyses.dp_audit.privacy_units import kind_of
from clusterscale.contracts import Guarantee
from clusterscale.contracts.mechanism import ONLY_REPLACED
from clusterscale.mechanisms import create, user_level
from clusterscale.mechanisms.accounting import ApproximateLoss, describe_person
from clusterscale.mechanisms.chain import Chain
from clusterscale.testing import check_mechanism
from clusterscale.testing.population import bounds

SIZE = 6
"""Members of each group."""


class KnownTotal(StatedNoise):
    """Publishes the total, and how many visits are to the first places with geometric noise.

    If each day has one visit of a user, a replaced day is a replaced visit, too.
    """

    name: Literal["known_total"] = "known_total"
    epsilon: float = 0.1
    scope: str = "release"

    @property
    def guarantee(self):
        covers = np.nan if self.unit == "user" else 1.0
        why = "visits are replaced"
        return Guarantee(self.unit, self.epsilon, self.delta, "replace", why, covers)

    def release(self, counts, *, group_size, rng):
        values, first = np.zeros(counts.shape), counts[..., : counts.shape[-2] // 2, :]
        values[..., 0, 0] = counts.sum(axis=(-2, -1))
        noise = rng.geometric(-np.expm1(-self.epsilon), (2, *values.shape[:-2]))
        values[..., 0, 1] = first.sum(axis=(-2, -1)) + noise[0] - noise[1]
        return values

    def best(self, own, other):
        """Return the highest AUC against two people, by all outcomes."""
        if own.sum() != other.sum():
            return 1.0
        first = slice(None, len(own) // 2)
        shift = abs(int(own[first].sum()) - int(other[first].sum()))
        values = np.arange(-400, 401 + shift)
        weight = np.tanh(self.epsilon / 2) * (1 - self.delta)
        inside, outside = (weight * np.exp(-self.epsilon * abs(values - s)) for s in (shift, 0))
        known = self.delta * (shift > 0)  # the chance that the exact number is told
        return best_area([*inside, known, 0.0], [*outside, 0.0, known])


class LeakyTotal(KnownTotal):
    """The same, and with probability δ everything as it is."""

    name: Literal["leaky_total"] = "leaky_total"
    delta: float = 0.02


class KnownPlaces(KnownTotal):
    """Noise on each place, and their numbers of visits as they are, which are of one series."""

    name: Literal["known_places"] = "known_places"
    unit: str = "roi_series"
    scope: str = "series"

    def user_privacy_loss(self, bounds):
        return ApproximateLoss(bounds.rois, self.epsilon)


def best_area(inside, outside):
    """Return the area under the curve of the likelihood ratio of two laws of one value."""
    inside, outside = np.array(inside), np.array(outside)
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(inside + outside > 0, inside / outside, 0.0))
    curves = (np.append(0.0, np.cumsum(side[order])) for side in (outside, inside))
    return area(*curves)


def answers(own, other, base, p):
    """Return the highest AUC against two people under randomised response, by all outcomes."""
    laws = np.ones(1), np.ones(1)
    for cell in np.flatnonzero(own != other):
        sides = []
        for one in (own, other):
            n_yes = int(base.flat[cell] + one.flat[cell])
            law = np.zeros(SIZE + 1)
            law[n_yes:] = binomial(SIZE - n_yes, p)
            sides.append(law)
        laws = tuple(np.outer(*pair).ravel() for pair in zip(laws, sides, strict=True))
    return best_area(*laws)


def binomial(n, p):
    found = np.ones(1)
    for _ in range(n):
        found = np.convolve(found, [1 - p, p])
    return found


def draw_pairs(n, rng):
    """Yield the traces of two people with different numbers of visits, at most one a day."""
    for _ in range(n):
        numbers = rng.choice(np.arange(4), 2, replace=False)
        pair = np.zeros((2, 4, 3 * 24), np.uint8)
        for trace, number in zip(pair, numbers, strict=True):
            for day in rng.choice(3, number, replace=False):
                trace[rng.integers(4), 24 * day + rng.integers(24)] = 1
        yield pair


def visits_of(trace):
    by_place, by_day = trace.sum(axis=1), trace.reshape(4, 3, 24).sum(axis=(0, 2))
    n_rois, n_days = int((by_place > 0).sum()), int((by_day > 0).sum())
    return Visits(int(trace.sum()), n_rois, int(by_place.max()), n_days, int(by_day.max()))


def test_no_certificate_of_two_people_with_different_numbers_is_too_low():
    """200 pairs, five mechanisms each, by the law of what is published."""
    rng, n_compared, n_tight = np.random.default_rng(7), 0, 0
    for own, other in draw_pairs(200, rng):
        epsilon, p = float(rng.choice([0.1, 0.3, 1.0])), float(rng.choice([0.2, 0.5]))
        base = rng.integers(0, SIZE, own.shape)
        spread = create("randomized_response", p=p)
        totals = [
            KnownTotal(epsilon=epsilon),
            KnownTotal(epsilon=epsilon, unit="user_day"),
            LeakyTotal(epsilon=epsilon),
            KnownPlaces(epsilon=epsilon),
        ]
        cases = [(spread, answers(own, other, base, p))]
        cases += [(mechanism, mechanism.best(own, other)) for mechanism in totals]
        mine, theirs = visits_of(own), ((visits_of(other), 1.0),)
        changed = visits_of(own != other)
        for mechanism, truth in cases:
            game = against(mechanism, mine, theirs, group_size=SIZE).auc
            stated = certify.ceiling(
                mechanism, n_changed=changed, group_size=SIZE, neighbours="replace"
            ).auc
            assert min(game, stated) >= truth - 1e-9, (mechanism.label, own.sum(), other.sum())
            n_compared += 1
            n_tight += stated < 1
    assert n_compared == 1000
    assert n_tight > 150, "randomised response has a law of each count, which bounds any numbers"


@for_each("unit", ["event", "user_day"])
@for_each("delta", [0.0, 0.02])
@for_each("k", [1, 3])
def test_equal_numbers_of_replaced_units_are_a_group(unit, delta, k):
    """The AUC of a total that moves by k, and group privacy, are the ends."""
    mechanism = LeakyTotal(epsilon=0.3, unit=unit, delta=delta)
    epsilon, leaks = mechanism.guarantee.imply(k, k)
    same = Visits(2 * k, days=k, day=1, n_units=k)
    found = [
        certify.ceiling(mechanism, n_changed=same, group_size=SIZE, neighbours="replace").auc,
        against(mechanism, same, ((same, 1.0),), group_size=SIZE).auc,
    ]
    most = 1 - (1 - leaks) ** 2 / (1 + np.exp(epsilon))
    assert found == pytest.approx([most, most], abs=1e-9)
    own, other = np.zeros((2, 4, 72), np.uint8)
    own[0, : 24 * k : 24], other[3, : 24 * k : 24] = 1, 1
    assert mechanism.best(own, other) <= most + 1e-9
    more = Visits(2 * k + 1, day=1, n_units=k + 1)
    assert against(mechanism, same, ((more, 1.0),), group_size=SIZE).auc == 1.0
    half = against(mechanism, same, ((more, 0.5), (same, 0.5)), group_size=SIZE).auc
    assert half == pytest.approx(1 - (1 - most) / 4, abs=1e-9), "the adversary knows who it is"


def test_what_is_not_known_to_be_equal_says_why():
    for n in (1, 2):
        best = certify.ceiling(KnownTotal(), n_changed=n, group_size=SIZE, neighbours="replace")
        assert (best.auc, best.reason) == (1.0, f"nothing bounds it: {ONLY_REPLACED}")
    added = certify.ceiling(KnownTotal(), n_changed=1, group_size=SIZE)
    assert added.auc == 1.0


def test_two_releases_in_each_of_which_one_person_replaces_another():
    """Own visits in one week, those of the other in the next: both releases change."""
    user = KnownTotal(epsilon=1.0, unit="user")
    week = Visits(1, releases=2)
    found = against(user, week, ((week, 1.0),), group_size=SIZE).auc
    assert found == pytest.approx(1 / (1 + np.exp(-2.0)), abs=1e-9)
    one = certify.ceiling(user, n_changed=Visits(9), group_size=SIZE, neighbours="replace").auc
    assert one == pytest.approx(1 / (1 + np.exp(-1.0)), abs=1e-9)


def test_nothing_of_it_is_certified_for_the_people_of_a_cube(plan_fields, cube, tmp_path):
    plan = made(plan_fields, null_roi=False, mechanisms=[KnownTotal(), KnownPlaces()])
    found = run(plan, cube, tmp_path).load()
    seen = found.n_changed.values[:, 0, 0] > 0
    assert (found.auc.values[seen] == 1).all()


class Promises(KnownTotal):
    """It states a loss of a user, which does not follow."""

    name: Literal["promises"] = "promises"

    def user_privacy_loss(self, bounds):
        return ApproximateLoss(bounds.user, self.epsilon)


def test_a_loss_of_users_that_does_not_follow_is_not_used():
    assert user_level(Promises(), bounds()).epsilon == np.inf
    with pytest.raises(AssertionError, match="of them, but user_privacy_loss"):
        check_mechanism(Promises())
    check_mechanism(KnownTotal())


def test_a_guarantee_for_replaced_users_is_tested_on_a_user():
    kinds = {unit: kind_of(KnownTotal(unit=unit)) for unit in ("event", "user")}
    assert kinds == {"event": "replaced_event", "user": "replaced_user"}


def test_what_a_person_is_promised():
    nothing = "nothing for people with different numbers of user days"
    mechanism = KnownTotal(unit="user_day")
    assert describe_person(mechanism.guarantee, 7, mechanism) == nothing
    spread = create("randomized_response", p=0.5)
    assert describe_person(spread.guarantee, 7, spread).endswith(
        "with n events, up to n times that"
    )


def test_steps_that_can_change_how_many_events_there_are_leave_no_guarantee():
    for step in (create("coarsen_time", factor=2), create("cap_contributions", per_day=2)):
        stated = Chain(steps=(step, KnownTotal())).guarantee
        assert (stated.unit, stated.reason) == ("none", ONLY_REPLACED)
        kept = Chain(steps=(step, KnownTotal(unit="user"))).guarantee
        assert (kept.unit, kept.neighbours) == ("user", "replace")
        spread = Chain(steps=(step, create("randomized_response", p=0.5))).guarantee
        assert (spread.unit, spread.delta) == ("event", 0.5 if step.name == "coarsen_time" else 1.0)
    every = create("tables", tables=[KnownTotal(), KnownTotal()])
    assert every.guarantee.reason == ONLY_REPLACED
