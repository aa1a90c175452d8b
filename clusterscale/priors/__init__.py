"""What the adversary knows before the release, one file a prior.

================== ==================================================== =========================
name               the adversary knows                                  source
================== ==================================================== =========================
known_subset       some users' traces in the period of the release      NDSS18 §VI-A
same_groups        past releases of the released groups                 NDSS18 §VI-B, prior 2a
different_groups   past releases of other groups                        NDSS18 §VI-B, prior 2b
perfect            everything but the noise, strategic or passive       NDSS18 §VII
================== ==================================================== =========================

>>> from clusterscale import priors
>>> priors.create("known_subset", alpha=0.2, sampling="paired").label
"known_subset(alpha=0.2, sampling='paired')"
"""

from clusterscale.contracts import Prior
from clusterscale.priors.known_subset import KnownSubset
from clusterscale.priors.past_groups import DifferentGroups, SameGroups
from clusterscale.priors.perfect import Perfect
from clusterscale.registry import Registry

__all__ = ["PRIORS", "create"]

PRIORS: Registry[Prior] = Registry("prior", DifferentGroups, KnownSubset, Perfect, SameGroups)
create = PRIORS.create
