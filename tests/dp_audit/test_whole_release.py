"""A guarantee of somebody else is tested on all that is published, not on the changed count alone.

True ones are called broken in at most one of a thousand tests; seeds are fixed.
"""

from typing import Literal

import numpy as np
import pytest
from doubles.says import FALSE, HONEST, Says
from dp_audit.test_dp_test import CASES, follow, near, tried
from loops import for_each, mostly_slow

from clusterscale.analyses.certify import ceiling
from clusterscale.analyses.dp_audit.dp_test import VerdictPlan, try_guarantee
from clusterscale.analyses.dp_audit.neighbours import RawTraces
from clusterscale.analyses.dp_audit.privacy_units import kind_of
from clusterscale.contracts import Stability, Traces
from clusterscale.mechanisms import create
from clusterscale.mechanisms.chain import Chain
from clusterscale.mechanisms.coarsening import OnTraces

NOISELESS = "values in which the noise cancels"
SEEN = {
    "even": "whether",
    "fixed": "releases that are the same for another rng",
    "raw": "without noise",
    "in a batch": "",
}


@mostly_slow("how", ["in pairs", "even", "fixed", *FALSE], n_quick=3)
def test_noise_that_cancels_is_broken(how):
    """Each is consistent on the changed count alone."""
    trials = 20_000 if how == "raw" else 2000
    found = tried(Says(how=how), trials=trials)
    assert found.verdict == "broken", found
    assert SEEN.get(how, NOISELESS) in found.seen_in


@mostly_slow("how", list(HONEST), n_quick=0)
def test_honest_mechanisms_are_consistent(how):
    """For one event and, with the noise that this needs, for one user; each for several seeds."""
    for seed in range(5):
        assert tried(Says(how=how), seed).verdict == "consistent"
        users = Says(how=how, unit="user", scale=60.0)
        assert tried(users, seed).verdict == "consistent"


@pytest.mark.slow
@for_each(("mechanism", "null_roi"), CASES)
def test_mechanisms_of_the_package_are_consistent(mechanism, null_roi):
    bound, traces, frame = follow(mechanism, null_roi=null_roi)
    for seed in range(5):
        neighbours = near(traces, frame, 2, seed, kind_of(bound))
        how = {"key": mechanism.label, "thorough": True}
        found = try_guarantee(bound, neighbours, VerdictPlan(trials=2000), **how)
        assert found.verdict == "consistent", found


@mostly_slow(
    ("unit", "how", "verdict"),
    [
        ("user", "total beside", "broken"),
        ("user_day", "total beside", "broken"),
        ("event", "total beside", "consistent"),
        ("event", "laplace", "consistent"),
    ],
    n_quick=1,
)
def test_people_who_replace_each_other_have_other_numbers_of_events(unit, how, verdict):
    """Only an event that replaces one leaves the total as it is; it changes two counts."""
    scale = 1.0 if unit == "event" else 100.0
    mechanism = Says(how=how, unit=unit, neighbours="replace", epsilon=2.0, scale=scale)
    for null_roi in (False, True):
        assert tried(mechanism, null_roi=null_roi).verdict == verdict


class First(OnTraces):
    """Keep the first events of each day, and state that one event changes one."""

    name: Literal["first"] = "first"
    n: int = 5
    honest: bool = False

    def apply(self, traces, frame, *, rng):
        self._refuse_null_roi(traces)
        days = frame.days[traces.cells % traces.n_epochs]
        user = np.repeat(np.arange(traces.n_held), np.diff(traces.offsets))
        key = user * (days.max(initial=0) + 1) + days
        order = np.argsort(key, kind="stable")
        _, starts, n = np.unique(key[order], return_index=True, return_counts=True)
        keep = np.empty(len(key), bool)
        keep[order] = np.arange(len(key)) - np.repeat(starts, n) < self.n
        offsets = np.append(0, np.cumsum(keep))[traces.offsets]
        return Traces(offsets, traces.cells[keep], traces.n_rois, traces.n_epochs), frame

    def stability(self, before, frame):
        return Stability((1 + self.honest) * before.event, float(self.n), True)


@for_each(("honest", "verdict"), [(False, "broken"), (True, "consistent")])
def test_events_are_removed_before_steps_of_others(honest, verdict):
    noise = create("laplace", epsilon=3.0, unit="event", discrete=True)
    dense = np.zeros((30, 6, 24), bool)
    dense[:, 0] = True
    mechanism = Chain(steps=(First(honest=honest), noise))
    bound, traces, frame = follow(mechanism, dense=dense)
    _, raw, before = follow(create("exact"), dense=dense)
    stability = First(honest=honest).stability(Stability(), before)
    neighbours = near(traces, frame, 2, 0, "event")
    survey = near(raw, before, 2, 0).nearby.survey
    steps = mechanism.trace_steps
    neighbours.raw = RawTraces(steps, stability, lambda user: raw, before, survey)
    found = try_guarantee(bound, neighbours, VerdictPlan(trials=10_000), key="first")
    assert found.verdict == verdict


def test_no_certificate_follows_from_noise_that_is_not_drawn():
    """A guarantee that is false in one place is relied on in none."""
    for stated in ({"scope": "cell"}, {"scope": "cell", "stated": "whole"}):
        for how, most in (("in all cells", 1.0), ("geometric", 0.99)):
            mechanism = Says(how=how, scale=4.0, epsilon=0.25, **stated)
            found = ceiling(mechanism, n_changed=8, group_size=30)
            assert (found.auc == 1.0) == (most == 1.0)
            assert ("what it declares is not relied on: noise" in found.reason) == (most == 1.0)
