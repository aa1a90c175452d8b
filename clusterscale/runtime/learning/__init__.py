"""dask-ml where it helps: hyperparameters, scores of many releases, components of many users.

What is here asks for dask-ml, on every cluster and in this process alike; the rest of the package
does not.
"""

from clusterscale.runtime.learning.components import components
from clusterscale.runtime.learning.scoring import score_releases
from clusterscale.runtime.learning.search import Form, cross_validate, evaluate_on_fresh_groups

__all__ = ["Form", "components", "cross_validate", "evaluate_on_fresh_groups", "score_releases"]
