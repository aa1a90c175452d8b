"""Re-audit of releases over time: each gets one verdict under a policy.

A :class:`Catalogue` lists releases: published tables of counts over (roi, epoch), with group size,
mechanism and epochs. :class:`Reaudit` finds releases without a verdict, and for each of them

- runs an audit at its group size and under its mechanism, and screens all users; if the traces of
  only some or none of its people are known, the others are simulated from its values;
- certifies what no adversary can exceed, which no attack may have exceeded;
- runs the attacks on the published values, for users whose membership is known;
- checks the values (:mod:`clusterscale.release.checks`): against the declared mechanism, against
  published totals, and against earlier releases of the same epochs;
- finds which hidden counts follow from all releases of the series, and not without it, if the plan
  says how these are related (``together``);
- compares exposure and utility with the last releases of the series;
- applies a :class:`Policy`: ``pass``, ``warn`` or ``fail``, with all reasons.

Verdicts are rows of a :class:`~clusterscale.reauditing.ledger.Ledger`, which are never overwritten.
A release gets a new verdict if its content, its metadata, the audit settings, the policy, the cube
or the results revision changes; an audit is repeated only if its own inputs change. A lease admits
one process at a time; another takes over if that one dies. Rows do not depend on when, where, or
with how many workers they were computed.
"""

from clusterscale.reauditing.catalogue import Catalogue, Problem, expand, find_releases
from clusterscale.reauditing.driver import Reaudit
from clusterscale.reauditing.ledger import json_safe
from clusterscale.reauditing.notify import Announcement, Webhook, junit_of_tables
from clusterscale.reauditing.policy import Limit, Policy, ReauditPlan
from clusterscale.reauditing.policy_evaluation import evaluate_audit, known_part, of_size
from clusterscale.reauditing.population import complete_cube
from clusterscale.reauditing.run import Gate, Outcome, audit_new
from clusterscale.release import ReleaseMetadata
from clusterscale.release.entry import ReleaseEntry
from clusterscale.release.verdict import Verdict
