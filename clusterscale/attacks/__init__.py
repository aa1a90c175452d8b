"""Attacks that infer whether the target is among those counted.

The only input of an attack is a :class:`~clusterscale.contracts.Knowledge`.

=============== ========================================================= ====================
name            method                                                    source
=============== ========================================================= ====================
logistic        L2 logistic regression on seven statistics per ROI        NDSS18 §V-B
least_squares   linear regression on the same statistics                  NDSS18 §VI
nearest         nearest neighbours on the same statistics                 NDSS18 §V-B
forest          random forest on the same statistics                      NDSS18 §V-B
perceptron      one hidden layer on the same statistics                   NDSS18 §V-B
cross_validated the best of four of these by cross-validation
spectral        principal components of whole releases, then logistic     POMACS20 §3.1
cells           L1 logistic regression on every cell                      POPETS24 §5.2
contradiction   counts that rule the target out                           POPETS24 §6.1
projection      inner product with the target's trace minus the mean      closed form
diagonal        the same, each cell divided by its variance               closed form
likelihood      per-cell likelihood ratio under the mechanism's noise     closed form
=============== ========================================================= ====================

>>> from clusterscale import attacks
>>> attacks.create("spectral", variance=0.99).label
'spectral(variance=0.99)'
"""

from clusterscale.attacks.base import ATTACKS

create = ATTACKS.create
