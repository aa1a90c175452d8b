"""Audits: what to run, one task a target, results that survive a crash."""

from clusterscale.audit.driver import Cost, Progress, predict, run
from clusterscale.audit.plan import AuditPlan, Period, Targets
from clusterscale.audit.results import open_results
from clusterscale.audit.task import AuditTask, run_task

__all__ = [
    "AuditPlan",
    "AuditTask",
    "Cost",
    "Period",
    "Progress",
    "Targets",
    "open_results",
    "predict",
    "run",
    "run_task",
]
