"""The zero-knowledge adversary: an attack from the release alone (POPETS24).

Definitions follow the paper. They differ from the code published by its authors
(github.com/computationalprivacy/ZK_MIA) as follows; tests cover each difference:

=====================  ==================================  =======================================
part                   authors' code                       here
=====================  ==================================  =======================================
power transform        γ from 0 in steps of .001 until     γ from 1 in steps of .01 until the
                       the variance differs from the       variance reaches the target, so
                       target by at most itself: shares    marginals are never flattened
                       of noisy sums become flatter        (algorithm 4)
variance of uniforms   of one unseeded draw                1 / 3n², its value to leading order
mean of visits         at most five rounds, each adding    bracketed and bisected to 1 %, with the
                       twice the missing visits; from the  same draws, for every mechanism
                       number of non-suppressed cells if
                       counts are only suppressed
noise                  truncated to 8-bit integers before  real-valued noise; ``integers`` rounds
                       adding: neither the claimed ε nor   the published values
                       large counts are preserved
features of ``cells``  scaled, on training and validation  as published
                       groups together
raw counts             the classifier's score is 0 where   ``cells``, ``contradiction`` and
                       a count contradicts the trace       ``likelihood`` are separate attacks
growing the ROIs       on lists, user by user              same distribution, all users in one pass
random numbers         forked workers inherit one state,   one stream per release, independent of
                       and draw the same users             the worker
several releases       a population for each, or that of   the same: ``per_release``, ``shared``
                       the first for all
=====================  ==================================  =======================================

Options that are not in the paper: ``correction: matched``, ``rhythm: mixed``, ``crowd: counts``
(:class:`ZeroKnowledge`). ``python tests/nightly/real/zero_knowledge.py`` compares them with the
paper's, and ``clusterscale reproduce popets24/marginals-cdr popets24/marginals-milan`` compares
the marginals that corrections estimate with the true ones.
"""

from clusterscale.priors.zero_knowledge.marginals import estimate_marginals
from clusterscale.priors.zero_knowledge.prior import ZeroKnowledge
from clusterscale.priors.zero_knowledge.synthesis import (
    Constant,
    Exponential,
    Graph,
    LogNormal,
    SyntheticPopulation,
    VisitCounts,
    triangulate,
)
