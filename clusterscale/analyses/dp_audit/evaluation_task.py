"""Settings, tasks, parts and results of an evaluation of mechanisms."""

from dataclasses import dataclass, field
from typing import Annotated

from clusterscale.analyses.dp_audit.dp_test import DPTestResult, GuaranteeStatement, VerdictPlan
from clusterscale.analyses.dp_audit.neighbours import Nearby
from clusterscale.contracts import (
    Bounds,
    ConfigModel,
    Count,
    Counts,
    Mechanism,
    NonEmptyUnique,
    Values,
)
from clusterscale.cube.blocks import TraceSource
from clusterscale.cube.bounds import merge_bounds
from clusterscale.utility import UTILITIES, Utility

EvaluationKey = tuple[str, int]

Measures = Annotated[tuple[Annotated[Utility, UTILITIES.entry()], ...], *NonEmptyUnique]

_USUAL = (
    "mean_relative_error",
    "busiest_relative_error",
    "hotspot_f1",
    "hotspot_tau",
    "jensen_shannon",
    "pearson",
    "events_kept",
    "total_variation",
)


class UtilityPlan(ConfigModel):
    """How to measure utility: the number of ``groups``, and the ``measures``.

    Groups are drawn from all users, not only targets, and are the same for all mechanisms.

    Attributes
    ----------
    groups
        Number of groups on which utility is measured.
    measures
        Measures of utility.
    """

    groups: Count = 10
    measures: Measures = tuple(UTILITIES.create(name) for name in _USUAL)


@dataclass(frozen=True, slots=True)
class MechanismEvaluationTask:
    """The mechanisms to evaluate at a period and group size: a URI and a few numbers.

    Attributes
    ----------
    source
        URI of the cube, and what is read of it.
    period
        Id of the period.
    group_size
        Members of a group.
    mechanisms
        Mechanisms to evaluate.
    utility
        How utility is measured.
    verdict
        How guarantees are tested.
    lists
        Membership lists of the plan, as indices of users; None for groups of all users.
    """

    source: TraceSource
    period: str
    group_size: int
    mechanisms: tuple[Mechanism, ...]
    utility: UtilityPlan
    verdict: VerdictPlan
    lists: tuple[tuple[int, ...], ...] | None = None

    @property
    def key(self) -> EvaluationKey:
        """Id of the period, and group size."""
        return self.period, self.group_size


@dataclass(frozen=True, slots=True)
class MechanismEvaluation:
    """Result of a :class:`MechanismEvaluationTask`, or the error that ended it.

    Dicts are keyed by the id of the mechanism. Groups on which a measure is undefined are left out.

    Attributes
    ----------
    key
        Id of the period, and group size.
    guarantees, dp_tests
        Guarantees, and their tests.
    utility
        Means over groups and standard deviations (ddof 1), one per measure.
    released_share
        See :func:`clusterscale.utility.released_share`, without the null ROI, mean over groups; it
        does not depend on the measures.
    guess
        Means of the measures for values drawn without any data.
    error, traceback
        The error, and where it was raised; empty if there is none.
    """

    key: EvaluationKey
    guarantees: dict[str, GuaranteeStatement] = field(default_factory=dict)
    dp_tests: dict[str, DPTestResult] = field(default_factory=dict)
    utility: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    released_share: dict[str, float] = field(default_factory=dict)
    guess: tuple[float, ...] = ()
    error: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class CountedUsers:
    """Counts of some users after some trace steps.

    Attributes
    ----------
    counts
        Counts of the groups for utility, int32, shape (group, roi, epoch).
    bounds
        Largest change of the counts by one unit of data of these users.
    nearby
        Counts of the groups for tests of guarantees.
    sums
        Sums of weights in the groups for utility, float64, like ``counts``; None without weights.
    """

    counts: Counts
    bounds: Bounds
    nearby: Nearby
    sums: Values | None = None

    def plus(self, other: "CountedUsers") -> "CountedUsers":
        """Add the counts of the users that follow these."""
        bounds = merge_bounds(self.bounds, other.bounds)
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        nearby = self.nearby.plus(other.nearby)
        return CountedUsers(self.counts + other.counts, bounds, nearby, sums)
