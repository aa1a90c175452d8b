"""What the adversary knows before the release, one file a prior."""

from clusterscale.contracts import Prior
from clusterscale.priors.known_subset import KnownSubset
from clusterscale.priors.past_groups import DifferentGroups, SameGroups
from clusterscale.priors.perfect import Perfect
from clusterscale.registry import Registry

__all__ = ["PRIORS", "create"]

PRIORS: Registry[Prior] = Registry("prior", DifferentGroups, KnownSubset, Perfect, SameGroups)
create = PRIORS.create
