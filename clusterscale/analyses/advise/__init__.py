"""Advice on what to publish: search mechanisms for a goal within limits, and confirm the answer."""

from clusterscale.analyses.advise.analysis import AdviseAnalysis
from clusterscale.analyses.advise.families import Family, Spaced
from clusterscale.analyses.advise.goal import Aim, Limits
from clusterscale.analyses.advise.plan import Advice, AdvicePlan
from clusterscale.analyses.advise.results import ADVICE

__all__ = ["ADVICE", "Advice", "AdvicePlan", "AdviseAnalysis", "Aim", "Family", "Limits"]
__all__ += ["Spaced"]
