"""Every user of a release at once, by attacks in closed form.

Base groups of m − 1 users and a stand-in are drawn and counted once. For every user, each group is
published in two worlds, with the user and with the stand-in, and the attacks that need no training
(projection, diagonal, likelihood) say how far apart the two lie. Where a score is a sum over cells
and a mechanism treats cells one by one, only the user's own events matter, so millions of users
can be audited; the attacks that learn then spend their time on the most exposed.
"""

from clusterscale.screening.analysis import ScreenAnalysis, run
from clusterscale.screening.budget import ScreenCost, check, predict
from clusterscale.screening.plan import Screen, ScreenPlan
from clusterscale.screening.results import is_counted, open_screen

__all__ = [
    "Screen",
    "ScreenAnalysis",
    "ScreenCost",
    "ScreenPlan",
    "check",
    "is_counted",
    "open_screen",
    "predict",
    "run",
]
