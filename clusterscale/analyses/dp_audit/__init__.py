"""Tests of the guarantees of mechanisms, and the utility of their releases."""

from clusterscale.analyses.dp_audit.dp_test import VerdictPlan
from clusterscale.analyses.dp_audit.evaluation import (
    Evaluations,
    evaluate_mechanism_task,
    evaluations_in,
    fold_evaluation,
    lay_out_evaluations,
    read_evaluations,
)
from clusterscale.analyses.dp_audit.evaluation_task import (
    MechanismEvaluation,
    MechanismEvaluationTask,
    UtilityPlan,
)

__all__ = ["Evaluations", "MechanismEvaluation", "MechanismEvaluationTask"]
__all__ += ["UtilityPlan", "VerdictPlan", "evaluate_mechanism_task", "fold_evaluation"]
__all__ += ["lay_out_evaluations"]
__all__ += ["evaluations_in", "read_evaluations"]
