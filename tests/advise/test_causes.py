"""Causes are those of what is left open; coarser candidates can be published."""

import numpy as np
import pytest

from clusterscale.analyses.advise.analysis import find_causes
from clusterscale.analyses.advise.candidate import Candidate
from clusterscale.analyses.advise.families import merged
from clusterscale.analyses.advise.goal import Finding
from clusterscale.analyses.advise.plan import HeldOut
from clusterscale.analyses.publish.plan import find_faults
from clusterscale.mechanisms import create

USERS = HeldOut(np.arange(30), np.arange(20))
NOISE = create("laplace", epsilon=0.5, unit="event", discrete=True)


@pytest.mark.parametrize(
    ("seen", "n", "times", "cause", "number"),
    [
        ("targets", 20, 2.0, "too few users", "about 40 targets would tell; there are 30 users"),
        ("targets", 10, 9.0, "too slow to confirm", "about 90 targets would tell"),
        ("targets", 20, 1.2, "too slow to confirm", "about 24 targets would tell"),
        ("groups", 4, 2.5, "too slow to confirm", "about 10 groups would tell"),
        ("challenges", 0, 2.5, "too slow to confirm", "about 2.5 times as many challenges"),
        ("users", 0, 1.5, "too few users", "about 1.5 times as many users would tell; there are"),
        ("tries", 0, np.inf, "too slow to confirm", "what was seen: relax a limit"),
        ("", 0, np.inf, "cannot be shown", "what was seen."),
    ],
)
def test_a_doubt_has_the_cause_that_would_decide_it(seen, n, times, cause, number):
    doubt = Finding("unclear", "what was seen", seen, n, times)
    broken = Candidate(create("exact"), reached="certified", reason="broken")
    ((found, text),) = find_causes([broken, Candidate(NOISE, doubts=(doubt,))], USERS)
    assert found == cause
    assert f"1 candidate may keep all limits and bounds. Closest is {NOISE.heading}" in text
    assert number in text


def test_none_exists_only_if_all_were_shown_to_break_a_limit():
    broken = [Candidate(create("exact"), reached=far, reason="r") for far in ("certified",) * 2]
    ((cause, text),) = find_causes([*broken, Candidate(NOISE, "attacked", "mean AUC 0.9")], USERS)
    assert cause == "none exists"
    assert "All 3 candidates were shown to break a limit or a bound: 2 by guarantees" in text
    assert f"Furthest got {NOISE.heading}: mean AUC 0.9." in text


def test_coarser_candidates_are_chains_that_can_be_published():
    found = merged([create("exact"), NOISE, create("coarsen_time", factor=2)])
    assert len(found) == len({one.id for one in found}) == 2 * 8
    assert found[0].name == "coarsen_time"  # the finest first
    assert not [fault for one in found for fault in find_faults(one, null_roi=False)]
