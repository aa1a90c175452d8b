"""What the adversary makes of a prior and a release (PETS17 §3.3).

======== ================================================================= =============
name     what it does                                                      source
======== ================================================================= =============
bayes    updates each user's prior by where the crowd is                   algorithm 3.1
max_roi  gives each ROI its most probable users                            algorithm 3.2
max_user gives the most active users all ROIs they may be in               algorithm 3.3
joint    assigns all users at once, the most probable way; our own
======== ================================================================= =============
"""

from clusterscale.recovery.protocols import InferenceStrategy
from clusterscale.recovery.strategies.bayes import Bayes
from clusterscale.recovery.strategies.greedy import MaxRoi, MaxUser
from clusterscale.recovery.strategies.joint import Joint
from clusterscale.registry import Registry

__all__ = ["STRATEGIES"]

STRATEGIES: Registry[InferenceStrategy] = Registry("strategy", Bayes, MaxRoi, MaxUser, Joint)
