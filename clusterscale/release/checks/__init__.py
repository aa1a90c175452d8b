"""Checks that a published table matches its declared mechanism and discloses nothing else.

The checks need no cube: only the published values, the declared mechanism and, where known, true
counts. Each check returns *consistent*, *inconsistent* or *unknown*, with a number and a sentence.

=============== ==================================== ===========================================
name            what it detects                      what it cannot detect
=============== ==================================== ===========================================
possible_values values that the declared mechanism   noise of the wrong scale, under which any
                never publishes                      number is possible; fractions published by
                                                     randomised response
possible_counts values that no group of the known    noise without bounds; a group of other users
                users would have, or that are not    than declared where its counts are possible
                those of a known count
noise_law       noise on known counts that does not  anything without known counts; for
                follow the declared mechanism        mechanisms that process whole series or
                                                     releases, anything unless all are known
differencing    tables of a group and a subset of    pairs with many leavers and joiners; sums
                it whose difference describes few    and differences of more than two tables
                people; reused noise
complement      hidden cells that follow from the    tables with noise; sums of more than two
                tables of a group's two parts        groups
totals          hidden cells that follow from        how far totals narrow down cells that they
                totals; contradictory totals         do not determine; tables with noise
=============== ==================================== ===========================================

No check shows that a table is safe: that takes an audit. ``noise_law`` is a statistical test: it
calls an honest table inconsistent with probability at most 1 − ``confidence``. ``differencing``
accepts coincidences with probability ``chance``. Both are consistent only if they would have found
the fault that they look for: noise of half the scale, or the same noise in tables of nearly the
same people; else they are unknown. The other checks are exact.

>>> import numpy as np
>>> from clusterscale import mechanisms
>>> from clusterscale.release import checks
>>> counts = np.array([[7, 2, 9], [3, 8, 6]], dtype=np.int32)
>>> declared = mechanisms.create("suppress_small", up_to=3)
>>> table = checks.PublishedTable("week 1", counts.astype(float), 20, declared, 0, counts)
>>> check = checks.create("possible_values")
>>> result = check.check(table, [], rng=np.random.default_rng(1))
>>> result.level, result.measured
('inconsistent', 2.0)
>>> redacted = np.where(counts > 3, counts, np.nan)
>>> totals = dict(roi_totals=np.array([18.0, 17.0]), epoch_totals=np.array([10.0, 10.0, 15.0]))
>>> table = checks.PublishedTable("week 1", redacted, 20, declared, 0, counts, **totals)
>>> [result] = checks.run_checks(table, [], [checks.create("totals")], seed=1)
>>> result.text
'2 of 2 hidden cells follow from the totals; 2 of them count 1 to 3 people'
"""

from clusterscale.registry import Registry
from clusterscale.release.checks.alone import relate_alone
from clusterscale.release.checks.disclosure import relate_tables
from clusterscale.release.checks.masking import MASK, Masked, mask_publication
from clusterscale.release.checks.table import (
    Check,
    CheckResult,
    PublishedTable,
    Undecided,
    open_comparison,
    run_checks,
    worst_level,
)
from clusterscale.release.checks.together import OpenCell, TableFindings, alike, compare_tables

__all__ = ["CHECKS", "MASK", "Check", "CheckResult", "Masked", "OpenCell", "PublishedTable"]
__all__ += ["TableFindings", "Undecided", "alike", "mask_publication"]
__all__ += ["compare_tables", "create", "relate_alone", "relate_tables", "run_checks"]
__all__ += ["create_checks", "open_comparison", "worst_level"]

CHECKS: Registry[Check] = Registry.of_package(
    "check", "clusterscale.release.checks", Check, plugins="clusterscale.checks"
)
create = CHECKS.create


def create_checks(*, compares: bool | None = None) -> list[Check]:
    """Return all checks with default settings, by name; or those that compare tables, or do not."""
    every = map(create, CHECKS)
    return [check for check in every if compares is None or check.compares == compares]
