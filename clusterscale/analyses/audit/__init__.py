"""Membership audits of targets: plans, tasks, journals and results."""

from clusterscale.analyses.audit.analysis import AuditAnalysis
from clusterscale.analyses.audit.plan import AuditPlan, AuditTemplate
from clusterscale.analyses.audit.resources import plan_resources, predict
from clusterscale.analyses.audit.results import count_failed, open_results
from clusterscale.analyses.audit.settings import Period
from clusterscale.analyses.audit.targets import Targets
from clusterscale.analyses.dp_audit.evaluation import UtilityPlan
