"""Distinguishers, which tell whether the target is among those counted.

An attack sees a :class:`~clusterscale.contracts.Knowledge` and nothing else.
"""

from clusterscale.attacks.closed_form import Projection
from clusterscale.attacks.learned import Logistic
from clusterscale.contracts import Attack
from clusterscale.registry import Registry

__all__ = ["ATTACKS", "create"]

ATTACKS: Registry[Attack] = Registry("attack", Logistic, Projection)
create = ATTACKS.create
