"""Audit every user of a release at once, with closed-form attacks.

Base groups of m − 1 users and a stand-in are drawn and counted once. For every user, each group is
published twice, with the user and with the stand-in, and attacks without training (projection,
diagonal, likelihood) score how well the two can be distinguished. If a score is a sum over cells
and a mechanism treats cells independently, only the user's own events matter, so millions of users
can be audited; learned attacks are then run only on the most exposed users.
"""

from clusterscale.analyses.screening.analysis import ScreenAnalysis
from clusterscale.analyses.screening.plan import SCREEN, Screen, ScreenPlan, is_counted
from clusterscale.analyses.screening.resources import check, predict
