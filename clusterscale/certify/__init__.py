"""Certificates: the best that any adversary can do against one person.

An attack that fails proves nothing. A certificate bounds all attacks: the adversary knows
everything but whether the person is inside.
"""

from clusterscale.certify.basis import Visits
from clusterscale.certify.ceiling import Ceiling, ceiling, compose

__all__ = ["Ceiling", "Visits", "ceiling", "compose"]
