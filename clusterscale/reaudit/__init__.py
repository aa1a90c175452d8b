"""Every release judged once: against a policy, against itself, and against those before it.

A :class:`Catalogue` lists releases, tables of counts over (roi, epoch) as they were published, and
what is said of each: group size, mechanism, epochs. :class:`Reaudit` finds what has no verdict yet,
and for each release

- plays the game of an audit at its group size and under its mechanism, and screens everyone;
- asks the attacks about the very values, for users of whom it is known whether they are inside;
- checks the values (:mod:`clusterscale.consistency`): against the declared mechanism, against
  totals beside them, and against earlier releases of the same epochs;
- compares exposure and utility with the last releases of the series;
- judges all of it by a :class:`Policy`: ``pass``, ``warn`` or ``fail``, with every reason.

Verdicts are rows of a :class:`Ledger`, written once and never again. A release is judged anew when
its content, what is said of it, the question, the policy, the cube or the software is another; what
is the same to be audited is not audited again. A :class:`Lease` lets one process do so at a time,
and another take over when that one has died. No row hangs on when, where or by how many workers it
was made.
"""

from clusterscale.reaudit.catalogue import Catalogue, Problem, expand, find_releases
from clusterscale.reaudit.driver import Pending, Reaudit
from clusterscale.reaudit.entry import ReleaseEntry, ReleaseMetadata
from clusterscale.reaudit.json_safe import json_safe
from clusterscale.reaudit.lease import Lease, LeaseHeldError
from clusterscale.reaudit.ledger import Ledger, Verdict
from clusterscale.reaudit.plan import ReauditPlan
from clusterscale.reaudit.policy import Limit, Policy, worst_of
from clusterscale.reaudit.policy_evaluation import evaluate_policy, verdict_of
from clusterscale.reaudit.release_metrics import (
    Exposures,
    IntervalEstimate,
    ReleaseMetrics,
    exposures_of,
    measure,
)
from clusterscale.reaudit.resolved_release import ResolvedRelease

__all__ = [
    "Catalogue",
    "Exposures",
    "IntervalEstimate",
    "Lease",
    "LeaseHeldError",
    "Ledger",
    "Limit",
    "Pending",
    "Policy",
    "Problem",
    "Reaudit",
    "ReauditPlan",
    "ReleaseEntry",
    "ReleaseMetadata",
    "ReleaseMetrics",
    "ResolvedRelease",
    "Verdict",
    "evaluate_policy",
    "expand",
    "exposures_of",
    "find_releases",
    "json_safe",
    "measure",
    "verdict_of",
    "worst_of",
]
