"""What trace steps state of their stability, against laws that are found by enumeration."""

from dataclasses import replace
from math import log

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from loops import mostly_slow
from oracles.stability import capped as choices_of
from oracles.stability import (
    coordinates,
    exact_epsilon,
    follow,
    neighbours,
    random_case,
    unmatched,
)
from scipy import stats

from clusterscale.analyses.publish.plan import bind_without_data
from clusterscale.contracts import Stability, Traces, stability_of
from clusterscale.mechanisms import create
from clusterscale.mechanisms.coarsening import CoarsenTime
from clusterscale.mechanisms.sampling import CapContributions
from clusterscale.testing import check_mechanism
from clusterscale.testing.mechanisms import _find_unstable

CAP, MERGE = {"name": "cap_contributions", "per_day": 1}, {"name": "coarsen_time", "factor": 5}
WEEK = {"name": "coarsen_time", "groups": [[8 + 24 * day for day in range(7)]]}


def frames_of(steps, epochs, n_rois):
    """The coordinates of the cells before each step, as enumeration finds them."""
    found = [coordinates(epochs, n_rois)]
    for n in range(1, len(steps) + 1):
        _, after, rois = follow(frozenset(), epochs, steps[:n], n_rois)
        found.append(coordinates(after, rois))
    return found


@given(seed=st.integers(0, 10**6))
def test_no_unit_changes_more_than_stated(seed):
    """Chains of one to three steps; epochs may be on two days, and groups on any."""
    trace, epochs, n_rois, steps = random_case(seed)
    stated = stability_of(
        create("chain", steps=list(steps)).trace_steps, frames_of(steps, epochs, n_rois)
    )
    try:
        inside, after, _ = follow(trace, epochs, steps, n_rois)
        for unit, most in (("event", stated.event), ("user_day", stated.user_day)):
            for left, _ in neighbours(trace, epochs, unit):
                outside, *_ = follow(left, epochs, steps, n_rois)
                assert unmatched(inside, outside, min(most, 99)) < 1e-9
        if stated.confined:
            for day in {day for _, t in trace for day in epochs[t]}:
                left = frozenset(event for event in trace if day not in epochs[event[1]])
                kept = {x: {e for e in x if day not in after[e[1]]} for x in inside}
                outside, *_ = follow(left, epochs, steps, n_rois)
                assert all(any(kept[x] <= y <= x for x in inside) for y in outside)
    except OverflowError:
        assume(False)


@pytest.mark.parametrize(
    ("steps", "unit", "n_epochs", "events", "n_days"),
    [
        ((MERGE, CAP), "user_day", 72, [3, 24, 30, 47, 50], 4),
        ((WEEK, CAP), "user_day", 168, [10, 80, 85], 3),
        ((CAP,), "event", 48, [3, 7], 2),
        ((CAP, MERGE), "user_day", 72, [3, 24, 30, 47, 50], 1),
    ],
)
def test_noise_after_a_cap_keeps_its_guarantee(steps, unit, n_epochs, events, n_days):
    """Noise that is scaled to one event is not enough, where the order is not the safe one."""
    epochs = [frozenset({t // 24}) for t in range(n_epochs)]
    trace = frozenset((0, t) for t in events)
    noise = {"name": "laplace", "epsilon": 1.0, "unit": unit, "discrete": True}
    mechanism = create("chain", steps=[*steps, noise])
    bound = bind_without_data(mechanism, frames_of(steps, epochs, 1), null_roi=False)
    assert bound.noise.scale == n_days
    inside, *_ = follow(trace, epochs, steps, 1)
    worst = {1.0: 0.0, bound.noise.scale: 0.0}
    for left, _ in neighbours(trace, epochs, unit):
        outside, *_ = follow(left, epochs, steps, 1)
        worst = {scale: max(most, exact_epsilon(inside, outside, scale))
                 for scale, most in worst.items()}  # fmt: skip
    assert worst[bound.noise.scale] <= 1.0 + 1e-12
    assert (worst[1.0] > 1.2) == (n_days > 1)


def test_a_removed_visit_lets_another_one_in():
    """Two visits of a day, of which one is kept, with noise for one event and for two."""
    law = {frozenset({1}): 0.5, frozenset({2}): 0.5}
    ratio = log((np.exp(2) + 1) / 2)  # where the first is seen and the second is not
    assert exact_epsilon(law, {frozenset({2}): 1.0}, 1.0) == pytest.approx(ratio)
    assert exact_epsilon(law, {frozenset({2}): 1.0}, 2.0) < 1


@pytest.mark.parametrize("per_day", [1, 2])
def test_the_oracle_draws_as_the_cap_does(per_day):
    """6000 draws of five events in epochs of which some end on the next day."""
    epochs = [frozenset({0}), frozenset({0, 1}), frozenset({1}), frozenset({1, 2}), frozenset({2})]
    users = Traces(5 * np.arange(6001), np.tile(np.arange(5), 6000), 1, 5)
    kept, _ = create(**CAP | {"per_day": per_day}).apply(
        users, coordinates(epochs, 1), rng=np.random.default_rng(1)
    )
    law = {x: 0.0 for x, _ in choices_of([(0, t) for t in range(5)], epochs, per_day)}
    for user in range(6000):
        law[frozenset((0, int(t)) for t in kept.trace(user))] += 1
    assert len(law) == (4 if per_day == 1 else 1)
    assert len(law) == 1 or stats.chisquare([*law.values()]).pvalue > 0.001


class LessThanTrue(CapContributions):
    """A cap that says that one event changes one."""

    def stability(self, before, frame):
        return replace(super().stability(before, frame), event=before.event)


class LessPerDay(CapContributions):
    """A cap that says that a day changes one event."""

    def stability(self, before, frame):
        return Stability(2 * before.event, 1)


class FewestVisited(CoarsenTime):
    """A step that drops what fewer than three users have in common."""

    def apply(self, traces, frame, *, rng):
        self._refuse_null_roi(traces)
        kept = np.bincount(traces.cells, minlength=traces.n_cells)[traces.cells] > 2
        offsets = np.concatenate([[0], np.cumsum(kept)])[traces.offsets]
        return replace(traces, offsets=offsets, cells=traces.cells[kept]), frame


@pytest.mark.parametrize(
    ("step", "fault"),
    [
        (LessThanTrue(per_day=1), "one event changes more than 1"),
        (LessPerDay(per_day=2), "one day changes more events than"),
        (FewestVisited(factor=2), "depends on other users"),
    ],
)
def test_a_step_that_states_too_little_is_noticed(step, fault):
    with pytest.raises(AssertionError, match=f"trace_steps_keep_their_stability: .*{fault}"):
        check_mechanism(step)


class Keeps(CapContributions):
    """A cap that states a stability of its own."""

    states: Stability

    def stability(self, before, frame):
        return self.states


@mostly_slow(
    ("cap", "event", "user_day", "why"),
    [
        (9, 2, 3.0, "one day changes more"),
        (9, 2, 8.0, "one day changes more"),
        (190, 2, 50.0, "one day changes more"),
        (5, 1, 5.0, "one event changes more than 1"),
        (20, 1, 20.0, "one event changes more than 1"),
        (9, 2, 9.0, ""),
        (190, 2, 190.0, ""),
    ],
)
def test_a_false_cap_is_found_however_large(cap, event, user_day, why):
    step = Keeps(per_day=cap, states=Stability(event, user_day, True))
    assert next(_find_unstable(step), "").startswith(why)
    assert bool(next(_find_unstable(step), "")) == bool(why)


def test_a_cap_above_all_that_the_example_has_is_not_tested():
    with pytest.warns(UserWarning, match="at most 300 events is not tested"):
        assert not list(_find_unstable(CapContributions(per_day=300)))
