"""Metrics of membership inference: AUC, privacy loss, intervals, bounds on ε, and verdicts.

>>> from clusterscale.metrics import auc, auc_ceiling, auc_interval, privacy_loss, tpr_at_fpr
>>> auc([True, True, False, False], [3.0, 1.0, 1.0, 0.0])
0.875
>>> privacy_loss(0.875)
0.75
>>> tpr_at_fpr([True, True, False, False], [3.0, 1.0, 1.0, 0.0], fpr=0.5)
1.0
>>> low, high = auc_interval([True, True, False, False], [3.0, 2.0, 1.0, 0.0])
>>> round(low, 3), high
(0.158, 1.0)

Compare a declared ε with the observed lower bound, and with the largest possible one.

>>> from clusterscale.metrics import claim_verdict, largest_bound
>>> round(auc_ceiling(1.0), 3)
0.731
>>> claim_verdict(0.0, declared=1.0, largest=largest_bound(10, 10))
'too few samples'
>>> claim_verdict(0.0, declared=1.0, largest=largest_bound(1000, 1000))
'consistent'
"""

from clusterscale.metrics.drift import (
    EXPOSED_AUC,
    Drift,
    UserLosses,
    auc_p_values,
    compare_exposure,
    pool_exposure,
    reject_holm,
    worst_interval,
)
from clusterscale.metrics.epsilon import (
    Verdict,
    auc_ceiling,
    claim_verdict,
    epsilon_lower_bound,
    largest_bound,
)
from clusterscale.metrics.intervals import (
    auc_degrees,
    auc_interval,
    auc_lower_limit,
    auc_tail,
    mean_interval,
)
from clusterscale.metrics.pooling import (
    N_PVALUE_BINS,
    calibrated_counts,
    is_testable,
    off_cells,
    pooled_epsilon_lower_bound,
    pooled_resolvable_fpr,
    pooled_tpr_at_fpr,
    weak_cells,
)
from clusterscale.metrics.roc import (
    accuracy,
    auc,
    privacy_gain,
    privacy_loss,
    resolvable_fpr,
    tpr_at_fpr,
)

__all__ = [
    "EXPOSED_AUC",
    "N_PVALUE_BINS",
    "Drift",
    "UserLosses",
    "Verdict",
    "accuracy",
    "auc",
    "auc_ceiling",
    "auc_degrees",
    "auc_interval",
    "auc_lower_limit",
    "auc_p_values",
    "auc_tail",
    "calibrated_counts",
    "claim_verdict",
    "compare_exposure",
    "epsilon_lower_bound",
    "is_testable",
    "largest_bound",
    "mean_interval",
    "off_cells",
    "pool_exposure",
    "pooled_epsilon_lower_bound",
    "pooled_resolvable_fpr",
    "pooled_tpr_at_fpr",
    "privacy_gain",
    "privacy_loss",
    "reject_holm",
    "resolvable_fpr",
    "tpr_at_fpr",
    "weak_cells",
    "worst_interval",
]
