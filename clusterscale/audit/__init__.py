"""Membership audits of targets: plans, tasks, journals and results."""

from clusterscale.audit.analysis import AuditAnalysis, run
from clusterscale.audit.cost import Cost, predict
from clusterscale.audit.evaluation import UtilityPlan
from clusterscale.audit.exposure_sources import find_exposures
from clusterscale.audit.period import Period
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.resources import ResourcePlan, plan_resources
from clusterscale.audit.results import count_failed, open_results
from clusterscale.audit.screens import rank, screen
from clusterscale.audit.targets import Targets
from clusterscale.audit.task import AuditTask, run_task
from clusterscale.audit.template import AuditTemplate
from clusterscale.audit.traits import TraitsAnalysis, traits

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
