"""Priors: what the adversary knows before the release.

================== ==================================================== =========================
name               the adversary knows                                  source
================== ==================================================== =========================
known_subset       some users' traces in the period of the release      NDSS18 §VI-A
same_groups        past releases of the released groups                 NDSS18 §VI-B, prior 2a
different_groups   past releases of other groups                        NDSS18 §VI-B, prior 2b
perfect            everything except the noise, strategic or passive    NDSS18 §VII
zero_knowledge     the release, and where the target was                POPETS24
================== ==================================================== =========================

>>> from clusterscale import priors
>>> priors.create("known_subset", alpha=0.2, sampling="paired").label
"known_subset(alpha=0.2, sampling='paired')"
"""

from clusterscale.contracts import Prior
from clusterscale.registry import Registry

__all__ = ["PRIORS", "create"]

PRIORS: Registry[Prior] = Registry.of_package(
    "prior", "clusterscale.priors", Prior, plugins="clusterscale.priors"
)
create = PRIORS.create
