"""Checks of a published table itself: that it is what its publisher says, and no more.

No cube is needed, only what was published, what is declared, and true counts where they are known.
Each check answers *consistent*, *inconsistent* or *unknown*, with a number and a sentence.

=============== ==================================== ===========================================
name            what it finds                        what it cannot see
=============== ==================================== ===========================================
possible_values values that the declared mechanism   noise of a wrong size: any number is then
                never publishes                      possible; fractions of randomised response
noise_law       noise on known counts that is not    anything without known counts; where
                that of the declared mechanism       mechanisms look at whole series or releases,
                                                     anything unless all are known
differencing    tables of a group and of a part of   pairs with both leavers and joiners; a small
                it, whose difference is of few       part of a large group; sums and differences
                people; noise that was reused        of more than two tables
complement      hidden cells that follow from the    tables with noise; sums of more than two
                tables of a group's two parts
totals          hidden cells that follow from        how narrow totals make what is not known
                totals; totals that contradict       exactly; tables with noise
=============== ==================================== ===========================================

None of them says that a table is safe: that is what an audit is for. ``noise_law`` errs by chance,
and calls an honest table inconsistent with a probability of at most 1 − ``confidence``;
``differencing`` weighs coincidences against ``chance``; the others are exact.

>>> import numpy as np
>>> from clusterscale import consistency, mechanisms
>>> counts = np.array([[7, 2, 9], [3, 8, 6]], dtype=np.int32)
>>> declared = mechanisms.create("suppress_small", up_to=3)
>>> table = consistency.PublishedTable("week 1", counts.astype(float), 20, declared, 0, counts)
>>> check = consistency.create("possible_values")
>>> found = check.check(table, [], rng=np.random.default_rng(1))
>>> found.level, found.measured
('inconsistent', 2.0)
>>> redacted = np.where(counts > 3, counts, np.nan)
>>> totals = dict(roi_totals=np.array([18.0, 17.0]), epoch_totals=np.array([10.0, 10.0, 15.0]))
>>> table = consistency.PublishedTable("week 1", redacted, 20, declared, 0, counts, **totals)
>>> [found] = consistency.check_table(table, [], [consistency.create("totals")], seed=1)
>>> found.text
'2 of 2 hidden cells follow from the totals, 2 of them of 1 to 3 people'
"""

from clusterscale.consistency.checking import CHECKS, check_table
from clusterscale.consistency.finding import Check, CheckResult
from clusterscale.consistency.table import PublishedTable

__all__ = ["CHECKS", "Check", "CheckResult", "PublishedTable", "check_table", "create"]

create = CHECKS.create
