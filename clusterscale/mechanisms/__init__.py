"""What is done to counts before they are published.

>>> import numpy as np
>>> from clusterscale import mechanisms
>>> counts = np.array([[3, 0], [1, 7]], dtype=np.int32)
>>> noisy = mechanisms.create("laplace", epsilon=1.0, unit="event")
>>> noisy.release(counts, group_size=10, rng=np.random.default_rng(1)).shape
(2, 2)
"""

from clusterscale.contracts import Mechanism
from clusterscale.mechanisms.exact import Exact
from clusterscale.mechanisms.laplace import Laplace
from clusterscale.registry import Registry

__all__ = ["MECHANISMS", "create"]

MECHANISMS: Registry[Mechanism] = Registry("mechanism", Exact, Laplace)
create = MECHANISMS.create
