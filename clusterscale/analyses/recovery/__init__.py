"""Infer the locations of all users from published aggregates (PETS17).

An adversary with prior knowledge of every user (``priors``) observes the
published counts of some epochs, and infers each user's locations in them
(``strategies``): either the *profile*, the probability of each ROI, or
the *location*, the set of visited ROIs. The difference between the errors without and with the
counts is the privacy loss of each user.

``clusterscale.recover`` does this for all users of a cube on a cluster. For arrays in memory there
are functions with the names of the paper.

>>> import numpy as np
>>> from clusterscale.analyses import recovery
>>> traces = recovery.with_null(np.random.default_rng(1).random((50, 9, 72)) < 0.1)
>>> observed, truth = traces[:, :, :48], traces[:, :, 48:]
>>> prior = recovery.learn("roi_day", observed, n_epochs=24)
>>> posterior = recovery.bayes(prior, truth.sum(axis=0))
>>> errors = [recovery.profiling_error(truth, shares).mean() for shares in (prior, posterior)]
>>> bool(errors[1] < errors[0])
True
"""

from clusterscale.analyses.recovery.analysis import RECOVERY, RecoveryAnalysis
from clusterscale.analyses.recovery.estimates import (
    localization_error,
    privacy_gain,
    privacy_loss,
    profiling_error,
)
from clusterscale.analyses.recovery.functional import (
    assign,
    bayes,
    every,
    learn,
    max_roi,
    max_user,
    popular,
    remember,
    with_null,
)
from clusterscale.analyses.recovery.plan import RecoveryPlan
from clusterscale.analyses.recovery.priors import BELIEFS
from clusterscale.analyses.recovery.strategies import STRATEGIES
