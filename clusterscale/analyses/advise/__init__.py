"""Advice on what to publish: search mechanisms for a goal within limits, and confirm the answer."""

from clusterscale.analyses.advise.analysis import AdviseAnalysis
from clusterscale.analyses.advise.plan import Advice, AdvicePlan
from clusterscale.analyses.advise.results import ADVICE
