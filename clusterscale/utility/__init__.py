"""Utility measures: compare raw counts with published values, both (roi, epoch).

===================================  ==================================  =====  ====================
Measure                              Use of the release                  Ideal  Source
===================================  ==================================  =====  ====================
:func:`mean_relative_error`          forecast of traffic                 0      NDSS18 eq. 7
:func:`busiest_relative_error`       the same, in the busiest ROIs       0      POMACS20 eq. 2, §5.1
:func:`hotspot_f1`                   finding the busiest ROIs            1      POMACS20 eq. 3
:func:`hotspot_tau`                  ranking the busiest ROIs            1      POMACS20 eq. 4
:func:`hotspot_tau_listwise`         the same, as the paper tabulates    1      POMACS20 appendix A
:func:`jensen_shannon`               distribution over ROIs (maps)       0      POMACS20 eq. 5
:func:`jensen_shannon_distance`      the same, as the paper tabulates    0      POMACS20 appendix A
:func:`pearson`                      anomaly detection                   1      POMACS20 eq. 6
:func:`events_kept`                  total number of visits              1
:func:`total_variation`              share of visits moved elsewhere     0
:func:`suppressed_share`             finding out where anybody was       0      POPETS24 Fig. 15
===================================  ==================================  =====  ====================

*Ideal* is the value for a release that equals the raw counts. A measure is NaN where the raw counts
leave it undefined, e.g. if all are 0. For a baseline, measure :func:`random_guess` (POMACS20 Table
4). Events kept are those of cells with a raw count: values published in empty cells are not among
them. A release whose :func:`released_share` is below :data:`NEARLY_EMPTY` is useless whatever its
other measures: where most counts are 0, a release of zeros has a small relative error.

>>> import numpy as np
>>> from clusterscale import utility
>>> raw = np.array([[8, 6], [2, 0], [1, 3]])
>>> released = np.array([[8, 6], [0, 0], [0, 3]])  # counts below 3 suppressed
>>> utility.mean_relative_error(raw, released)
0.3333333333333333
>>> utility.hotspot_f1(raw, released)
1.0
>>> measure = utility.create("mean_relative_error", floor=0.1)
>>> measure.label, measure.ideal, measure.measure(raw, released)
('mean_relative_error(floor=0.1)', 0.0, 0.3333333333333333)
"""

from clusterscale.registry import Registry
from clusterscale.utility.divergence import (
    jensen_shannon,
    jensen_shannon_distance,
    pearson,
    total_variation,
)
from clusterscale.utility.hotspots import hotspot_f1, hotspot_tau, hotspot_tau_listwise
from clusterscale.utility.measure import Utility, random_guess
from clusterscale.utility.relative_error import (
    NEARLY_EMPTY,
    busiest_relative_error,
    emptiness,
    events_kept,
    mean_relative_error,
    released_share,
    suppressed_share,
)

__all__ = ["NEARLY_EMPTY", "UTILITIES", "Utility", "busiest_relative_error", "create"]
__all__ += ["emptiness", "events_kept", "hotspot_f1", "hotspot_tau", "hotspot_tau_listwise"]
__all__ += ["jensen_shannon", "jensen_shannon_distance", "mean_relative_error", "pearson"]
__all__ += ["random_guess", "released_share", "suppressed_share", "total_variation"]

UTILITIES: Registry[Utility] = Registry.of_package(
    "utility", "clusterscale.utility", Utility, plugins="clusterscale.utility"
)
create = UTILITIES.create
