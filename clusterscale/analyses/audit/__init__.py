"""Membership audits of targets: plans, tasks, journals and results."""

from clusterscale.analyses.audit.analysis import AuditAnalysis, rank
from clusterscale.analyses.audit.plan import AuditPlan, AuditTemplate
from clusterscale.analyses.audit.resources import Cost, ResourcePlan, plan_resources, predict
from clusterscale.analyses.audit.results import count_failed, open_results
from clusterscale.analyses.audit.settings import Period
from clusterscale.analyses.audit.targets import Targets
from clusterscale.analyses.audit.task import AuditTask, run_task
from clusterscale.analyses.dp_audit.evaluation_task import UtilityPlan

__all__ = [
    "AuditAnalysis",
    "AuditPlan",
    "AuditTask",
    "AuditTemplate",
    "Cost",
    "Period",
    "ResourcePlan",
    "Targets",
    "UtilityPlan",
    "count_failed",
    "open_results",
    "plan_resources",
    "predict",
    "rank",
    "run_task",
]
