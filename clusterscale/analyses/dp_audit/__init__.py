"""Tests of the guarantees of mechanisms, and the utility of their releases."""

from clusterscale.analyses.dp_audit.dp_test import VerdictPlan
from clusterscale.analyses.dp_audit.evaluation import evaluate_mechanism_task, fold_evaluation
from clusterscale.analyses.dp_audit.evaluation_task import (
    MechanismEvaluation,
    MechanismEvaluationTask,
    UtilityPlan,
)
from clusterscale.analyses.dp_audit.results import (
    Evaluations,
    evaluations_in,
    lay_out_evaluations,
    read_evaluations,
)

__all__ = ["Evaluations", "MechanismEvaluation", "MechanismEvaluationTask"]
__all__ += ["UtilityPlan", "VerdictPlan", "evaluate_mechanism_task", "fold_evaluation"]
__all__ += ["lay_out_evaluations"]
__all__ += ["evaluations_in", "read_evaluations"]
