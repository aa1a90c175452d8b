"""The zero-knowledge adversary: an attack from the release alone (POPETS24)."""

from clusterscale.priors.zero_knowledge.activity import Constant, Exponential, LogNormal, Visits
from clusterscale.priors.zero_knowledge.adversary import Forger
from clusterscale.priors.zero_knowledge.graph import Graph, triangulate
from clusterscale.priors.zero_knowledge.marginals import estimate_marginals
from clusterscale.priors.zero_knowledge.prior import ZeroKnowledge
from clusterscale.priors.zero_knowledge.synthesis import Population, synthetic_traces

__all__ = [
    "Constant",
    "Exponential",
    "Forger",
    "Graph",
    "LogNormal",
    "Population",
    "Visits",
    "ZeroKnowledge",
    "estimate_marginals",
    "synthetic_traces",
    "triangulate",
]
