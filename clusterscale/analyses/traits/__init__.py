"""Traits of exposed users: their mobility, and the cells that an attack uses.

POMACS20 §3 explains why an attack succeeds. Three analyses, for arrays in memory here, for all
users of a cube on a cluster by ``clusterscale traits CONFIG``:

- :func:`characteristics`: eleven mobility characteristics of each user, including :func:`unicity`.
- :func:`importance`: which of these separate the most from the least exposed
  (:func:`extreme_groups`): by a forest, a logistic regression, and each alone; and
  :func:`frequency`: when the two groups move.
- :func:`loading`: the cells that correlate with the decisive principal components.

>>> import numpy as np
>>> from clusterscale.analyses import traits
>>> from clusterscale.contracts import Traces
>>> trace = np.random.default_rng(1).random((40, 5, 48)) < np.linspace(0.01, 0.3, 40)[:, None, None]
>>> user, cell = np.nonzero(trace.reshape(40, -1))
>>> offsets = np.searchsorted(user, np.arange(41))
>>> days = np.repeat([738_885, 738_886], 24)  # a Sunday and a Monday
>>> moves = traits.characteristics(Traces(offsets, cell, 5, 48), days)
>>> moves.shape == (40, len(traits.CHARACTERISTICS))
True
>>> exposure = np.linspace(0.5, 1.0, 40)  # of an attack that succeeds on users who move more
>>> top, bottom = traits.extreme_groups(exposure, share=0.1)
>>> result = traits.importance(moves[top], moves[bottom], rng=np.random.default_rng(2))
>>> bool(result.separation[traits.CHARACTERISTICS.index("total_events")] > 0.9)
True
"""

from clusterscale.analyses.traits.analysis import TraitsAnalysis
from clusterscale.analyses.traits.characteristics import CHARACTERISTICS, characteristics, unicity
from clusterscale.analyses.traits.comparison import TraitsPlan, frequency
from clusterscale.analyses.traits.importance import extreme_groups, importance, loading
from clusterscale.analyses.traits.results import TRAITS
