"""What the adversary knows before the release, one file a prior."""

from clusterscale.contracts import Prior
from clusterscale.priors.known_subset import KnownSubset
from clusterscale.registry import Registry

__all__ = ["PRIORS", "create"]

PRIORS: Registry[Prior] = Registry("prior", KnownSubset)
create = PRIORS.create
