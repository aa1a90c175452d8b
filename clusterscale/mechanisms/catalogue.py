"""The mechanisms that can be used alone or as a step of a chain."""

from clusterscale.contracts import Mechanism
from clusterscale.mechanisms.capping import CapContributions
from clusterscale.mechanisms.coarsening import CoarsenSpace, CoarsenTime
from clusterscale.mechanisms.exact import Exact
from clusterscale.mechanisms.fourier import EnhancedFourier, Fourier, UnscaledFourier
from clusterscale.mechanisms.gaussian import Gaussian
from clusterscale.mechanisms.laplace import Laplace
from clusterscale.mechanisms.randomized_response import RandomizedResponse
from clusterscale.mechanisms.ranges import AdaptiveRanges, FixedRanges
from clusterscale.mechanisms.sampling import SampleEvents, SampleTraces
from clusterscale.mechanisms.small_counts import PerturbSmall, SuppressSmall, SuppressUnpopular
from clusterscale.mechanisms.truncated_laplace import TruncatedLaplace
from clusterscale.registry import Registry

__all__ = ["STEPS"]

STEPS: Registry[Mechanism] = Registry(
    "mechanism",
    AdaptiveRanges,
    CapContributions,
    CoarsenSpace,
    CoarsenTime,
    EnhancedFourier,
    Exact,
    FixedRanges,
    Fourier,
    Gaussian,
    Laplace,
    PerturbSmall,
    RandomizedResponse,
    SampleEvents,
    SampleTraces,
    SuppressSmall,
    SuppressUnpopular,
    TruncatedLaplace,
    UnscaledFourier,
)
