"""Every release judged once: against a policy, against itself, and against those before it."""

from clusterscale.reaudit.catalogue import Catalogue, Problem, find_releases
from clusterscale.reaudit.driver import Pending, Reaudit
from clusterscale.reaudit.entry import Described, ReleaseEntry
from clusterscale.reaudit.lease import Held, Lease
from clusterscale.reaudit.ledger import Ledger, Verdict
from clusterscale.reaudit.listed import Listed
from clusterscale.reaudit.measured import Estimate, Measured, measure
from clusterscale.reaudit.plan import ReauditPlan
from clusterscale.reaudit.policy import LEVELS, Level, Limit, Policy, worst_of
from clusterscale.reaudit.reasons import Reason, judge, verdict_of

__all__ = [
    "LEVELS",
    "Catalogue",
    "Described",
    "Estimate",
    "Held",
    "Lease",
    "Ledger",
    "Level",
    "Limit",
    "Listed",
    "Measured",
    "Pending",
    "Policy",
    "Problem",
    "Reason",
    "Reaudit",
    "ReauditPlan",
    "ReleaseEntry",
    "Verdict",
    "find_releases",
    "judge",
    "measure",
    "verdict_of",
    "worst_of",
]
