"""Publications: the real release of a cube's counts, with noise that cannot be drawn again.

A :class:`PublishPlan` says what is published. The users of the cube, or those of a list, are
counted over blocks on any executor; the mechanism is applied once, with numbers of the operating
system's cryptographic source and noise by OpenDP; and the release is stored in a table format whose
metadata ``clusterscale check`` and ``clusterscale reaudit`` read.

All releases of a :class:`~clusterscale.analyses.publish.series.Series` share a
:class:`~clusterscale.analyses.publish.plan.Budget`. A release and its entry in the ledger are one
store, which appears at once: after a crash at any moment, both exist or neither.
"""

from clusterscale.analyses.publish.analysis import PublishAnalysis
from clusterscale.analyses.publish.plan import PublishPlan
