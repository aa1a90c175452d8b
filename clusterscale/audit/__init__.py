"""Membership audits of targets: plans, tasks, journals and results."""

from clusterscale.audit.analysis import AuditAnalysis, run
from clusterscale.audit.exposure import find_exposures, rank, screen
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.resources import Cost, ResourcePlan, plan_resources, predict
from clusterscale.audit.results import count_failed, open_results
from clusterscale.audit.settings import Period
from clusterscale.audit.targets import Targets
from clusterscale.audit.task import AuditTask, run_task
from clusterscale.audit.template import AuditTemplate
from clusterscale.audit.traits import TraitsAnalysis, traits
from clusterscale.dp_audit.evaluation_task import UtilityPlan

__all__ = [
    "AuditAnalysis",
    "AuditPlan",
    "AuditTask",
    "AuditTemplate",
    "Cost",
    "Period",
    "ResourcePlan",
    "Targets",
    "TraitsAnalysis",
    "UtilityPlan",
    "count_failed",
    "find_exposures",
    "open_results",
    "plan_resources",
    "predict",
    "rank",
    "run",
    "run_task",
    "screen",
    "traits",
]
