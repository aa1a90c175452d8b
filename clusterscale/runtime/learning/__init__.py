"""Hyperparameter search, scoring of many releases and components of users, with dask-ml.

Only this subpackage needs dask-ml, on a cluster as well as in this process.
"""

from clusterscale.runtime.learning.components import components
from clusterscale.runtime.learning.graphs import score_releases
from clusterscale.runtime.learning.search import Form, cross_validate, evaluate_on_fresh_groups

__all__ = ["Form", "components", "cross_validate", "evaluate_on_fresh_groups", "score_releases"]
