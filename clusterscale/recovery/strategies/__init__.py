"""Strategies that infer an estimate from a prior and a release (PETS17 §3.3).

======== ================================================================= =============
name     what it does                                                      source
======== ================================================================= =============
bayes    updates each user's prior by the published counts                 algorithm 3.1
max_roi  assigns to each ROI its most probable users                       algorithm 3.2
max_user assigns all possible ROIs to the most active users                algorithm 3.3
joint    finds the most probable assignment of all users; not from a paper
======== ================================================================= =============
"""

from clusterscale.recovery.protocols import InferenceStrategy
from clusterscale.recovery.strategies.bayes import Bayes
from clusterscale.recovery.strategies.greedy import MaxRoi, MaxUser
from clusterscale.recovery.strategies.joint import Joint
from clusterscale.registry import Registry

__all__ = ["STRATEGIES"]

STRATEGIES: Registry[InferenceStrategy] = Registry("strategy", Bayes, MaxRoi, MaxUser, Joint)
