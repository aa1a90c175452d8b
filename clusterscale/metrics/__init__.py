"""Scores into verdicts: how well membership is told, and what that costs a person.

>>> from clusterscale.metrics import auc, privacy_loss
>>> auc([True, True, False, False], [3.0, 1.0, 1.0, 0.0])
0.875
>>> privacy_loss(0.875)
0.75
"""

from clusterscale.metrics.privacy import privacy_loss
from clusterscale.metrics.roc import accuracy, auc

__all__ = ["accuracy", "auc", "privacy_loss"]
