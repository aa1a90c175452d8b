"""Scores into verdicts: how well membership is told, and what that costs a person.

>>> from clusterscale.metrics import auc, auc_ceiling, privacy_loss
>>> auc([True, True, False, False], [3.0, 1.0, 1.0, 0.0])
0.875
>>> privacy_loss(0.875)
0.75
>>> round(auc_ceiling(1.0), 3)
0.731
"""

from clusterscale.metrics.epsilon import auc_ceiling, epsilon_lower_bound
from clusterscale.metrics.privacy import privacy_gain, privacy_loss
from clusterscale.metrics.roc import accuracy, auc

__all__ = [
    "accuracy",
    "auc",
    "auc_ceiling",
    "epsilon_lower_bound",
    "privacy_gain",
    "privacy_loss",
]
