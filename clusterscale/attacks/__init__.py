"""Distinguishers, which tell whether the target is among those counted.

An attack sees a :class:`~clusterscale.contracts.Knowledge` and nothing else.
"""

from clusterscale.attacks.catalogue import SINGLE
from clusterscale.attacks.choice import CrossValidated
from clusterscale.contracts import Attack
from clusterscale.registry import Registry

__all__ = ["ATTACKS", "create"]

ATTACKS: Registry[Attack] = Registry("attack", *SINGLE.classes, CrossValidated)
create = ATTACKS.create
