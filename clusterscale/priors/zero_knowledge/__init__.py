"""The zero-knowledge adversary: an attack from the release alone (POPETS24).

Beside the code that its authors published (github.com/computationalprivacy/ZK_MIA), definitions
here follow the paper; these are the differences, each looked at in tests:

=====================  ==================================  =======================================
what                   there                               here
=====================  ==================================  =======================================
power transform        γ from 0 in steps of .001 until     γ from 1 in steps of .01 until the
                       the variance is within itself of    variance reaches it, so marginals are
                       the wanted one: shares of noisy     never flattened (algorithm 4)
                       sums end up flatter
variance of uniforms   of one unseeded draw                1 / 3n², its value to leading order
mean of visits         five rounds at most, twice what is  bracketed and halved to 1 %, on equal
                       missing added each; from numbers    draws, for every mechanism
                       of shown cells if only suppressed
noise                  cut to whole numbers of 8 bits      real noise; ``integers`` rounds what is
                       before it is added: neither the     published
                       claimed ε nor large counts survive
features of ``cells``  scaled, on training and validation  as published
                       groups together
raw counts             the classifier's score is 0 where   ``cells``, ``contradiction`` and
                       a count contradicts the trace       ``likelihood`` are attacks of their own
growing the ROIs       on lists, user by user              the same law, all users in one pass
random numbers         forked workers inherit one state,   one stream a release, whoever draws it
                       and draw the same users
several releases       a population for each, or the one   the same: ``per_release``, ``shared``
                       of the first for all
=====================  ==================================  =======================================

What is not in the paper stands under names of its own: ``correction: matched``, ``rhythm: mixed``,
``crowd: counts`` (:class:`ZeroKnowledge`). ``python tests/real/zero_knowledge.py`` measures them
against it, ``python tests/real/marginals.py`` what they make of marginals.
"""

from clusterscale.priors.zero_knowledge.activity import (
    Constant,
    Exponential,
    LogNormal,
    VisitCounts,
)
from clusterscale.priors.zero_knowledge.adversary import ZeroKnowledgeAdversary
from clusterscale.priors.zero_knowledge.graph import Graph, triangulate
from clusterscale.priors.zero_knowledge.marginals import estimate_marginals
from clusterscale.priors.zero_knowledge.prior import ZeroKnowledge
from clusterscale.priors.zero_knowledge.synthesis import SyntheticPopulation, synthetic_traces

__all__ = [
    "Constant",
    "Exponential",
    "Graph",
    "LogNormal",
    "SyntheticPopulation",
    "VisitCounts",
    "ZeroKnowledge",
    "ZeroKnowledgeAdversary",
    "estimate_marginals",
    "synthetic_traces",
    "triangulate",
]
