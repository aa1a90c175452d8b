"""Neighbouring groups, which differ in one unit of data: drawn, and counted by part of users."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from clusterscale.analyses.dp_audit import privacy_units
from clusterscale.contracts import CellCoordinates, Counts, Ints, Stability, Traces
from clusterscale.cube import with_null_roi
from clusterscale.cube.blocks import Steps
from clusterscale.foreign import is_foreign
from clusterscale.groups import count_visits
from clusterscale.seeds import stream


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Counts of a group with a unit, or without it.

    Attributes
    ----------
    others
        Counts of the other members, int32, shape (roi, epoch).
    own
        Flat cells of the user of the unit, int, shape (event,); before the steps, if there are any.
    steps, frame
        Trace steps that are applied to the user anew for each release, and the coordinates of the
        cells before them.
    null_roi
        Whether idle epochs are counted after the steps.
    """

    others: Counts
    own: Ints
    steps: Steps = ()
    frame: CellCoordinates | None = None
    null_roi: bool = False

    def counts(self, n: int, *, rng: np.random.Generator) -> Counts:
        """Return the counts of ``n`` releases, int32, shape (release, roi, epoch)."""
        if self.frame is None:
            counts = self.others.copy()
            counts.reshape(-1)[self.own] += 1
            return np.broadcast_to(counts, (n, *counts.shape))
        offsets = len(self.own) * np.arange(n + 1, dtype=np.int64)
        shape, frame = (len(self.frame.lat), len(self.frame.days)), self.frame
        traces = Traces(offsets, np.tile(self.own, n), *shape)
        for step in self.steps:
            traces, frame = step.apply(traces, frame, rng=rng)
        traces = with_null_roi(traces) if self.null_roi else traces
        return self.others + count_visits(traces, np.arange(n)[:, None])


Pair = tuple[Side, Side]


@dataclass(frozen=True, slots=True, eq=False)
class RawTraces:
    """Traces before trace steps, for units that the steps do not simply keep or drop.

    ``survey`` is of the units before the steps; ``find`` returns the traces of the block of a user.
    """

    steps: Steps
    stability: Stability | None
    find: Callable[[int], Traces]
    frame: CellCoordinates
    survey: privacy_units.Survey

    @property
    def unproven(self) -> bool:
        """Whether a step is of another package, so that its stability is only a statement."""
        return any(is_foreign(type(step)) for step in self.steps)

    def needed(self, kind: privacy_units.Kind) -> bool:
        """Return whether removing a unit changes other events than its own after the steps."""
        if not self.steps or privacy_units.measured_as(kind) not in ("event", "user_day"):
            return False
        if self.unproven:
            return True
        if self.stability is None:
            return True
        return self.stability.event > 1 if kind == "event" else not self.stability.confined


@dataclass(frozen=True, slots=True)
class Design:
    """The groups to draw for tests of guarantees at one period and group size.

    Attributes
    ----------
    n_users, block
        Number of users, and of those that are read together.
    group_size
        Members of a group, with the user of the unit.
    n_units
        Number of units to test.
    seed, path
        Root seed, and the path of the draws below it: the period and the group size.
    """

    n_users: int
    block: int
    group_size: int
    n_units: int
    seed: int
    path: tuple[str, int]

    def groups(self, kind: privacy_units.Kind) -> Iterator[Ints]:
        """Yield the group of each unit, shape (member,); the user of the unit replaces a member."""
        rng = stream(self.seed, "verdict groups", *self.path, kind)
        for _ in range(self.n_units):
            yield rng.choice(self.n_users, self.group_size, replace=False)


@dataclass(frozen=True, slots=True, eq=False)
class Nearby:
    """Counts of some users in the groups of a design.

    ``groups``: int32, shape (unit, roi, epoch), for each kind of protected unit; ``survey``: which
    of these users have the largest units, and how many have any.
    """

    groups: dict[privacy_units.Kind, Counts]
    survey: privacy_units.Survey

    def plus(self, other: "Nearby") -> "Nearby":
        """Add the counts of the users that follow these."""
        groups = {kind: counts + other.groups[kind] for kind, counts in self.groups.items()}
        return Nearby(groups, self.survey.plus(other.survey))


def count_nearby(
    design: Design, kinds: Sequence[privacy_units.Kind], traces: Traces, frame: CellCoordinates
) -> Nearby:
    """Count the loaded users in the groups of a design, and find the largest units.

    Parameters
    ----------
    design
        The groups to draw.
    kinds
        The protected units.
    traces, frame
        The traces after the trace steps, and the places and times of their cells.
    """
    shape = design.n_units, traces.n_rois, traces.n_epochs
    groups = {kind: np.empty(shape, np.int32) for kind in kinds}
    for kind, counts in groups.items():
        for row, members in zip(counts, design.groups(kind), strict=True):
            row[:] = count_visits(traces, np.sort(members)[None])[0]
    return Nearby(groups, privacy_units.survey_units(traces, frame, block=design.block))


@dataclass(slots=True)
class Neighbours:
    """Groups that differ in one unit, drawn once for all mechanisms that protect such a unit.

    Attributes
    ----------
    design
        The groups to draw.
    nearby
        Counts of all users in them.
    find
        Returns the traces of the block of a user, after the trace steps.
    frame
        Places and times of their cells.
    raw
        The traces before the trace steps; None if there are no steps.
    """

    design: Design
    nearby: Nearby
    find: Callable[[int], Traces]
    frame: CellCoordinates
    raw: RawTraces | None = None
    _pairs: dict[privacy_units.Kind, list[Pair]] = field(default_factory=dict)

    def pairs(self, kind: privacy_units.Kind) -> list[Pair]:
        """Return the group with and without each unit; empty if there is no unit."""
        if kind not in self._pairs:
            groups = zip(self.nearby.groups[kind], self.design.groups(kind), strict=True)
            self._pairs[kind] = [
                self._count(kind, unit, *group)
                for unit, group in zip(self._units(kind), groups, strict=True)
                if unit is not None
            ]
        return self._pairs[kind]

    def _units(self, kind: privacy_units.Kind) -> Iterator[privacy_units.Unit | None]:
        """Yield the largest unit of all users, and then random ones."""
        path = "verdict units", *self.design.path, kind
        survey, find, frame = self.nearby.survey, self.find, self.frame
        if self.raw is not None and self.raw.needed(kind):
            survey, find, frame = self.raw.survey, self.raw.find, self.raw.frame
        measured = privacy_units.measured_as(kind)
        if self.raw is not None and self.raw.unproven and measured == "event":
            busiest = survey.largest["user_day"].user
            yield privacy_units.busiest_event(find(busiest), busiest, kind, frame)
        else:
            largest = survey.largest[measured].user
            yield privacy_units.largest_unit(kind, find(largest), largest, frame)
        rng = stream(self.design.seed, *path)
        for _ in range(self.design.n_units - 1):
            yield privacy_units.draw_unit(kind, survey, find, frame, rng=rng)

    def _count(
        self, kind: privacy_units.Kind, unit: privacy_units.Unit, counts: Counts, members: Ints
    ) -> Pair:
        """Replace a member, the user if in the group, by the user with and without the unit."""
        leaves = unit.user if unit.user in members else int(members[-1])
        others = counts.copy()
        others.reshape(-1)[self.find(leaves).trace(leaves)] -= 1
        if self.raw is None or not self.raw.needed(kind):
            return Side(others, unit.inside), Side(others, unit.outside)
        raw, null_roi = self.raw, self.find(leaves).null_roi
        n_cells = len(raw.frame.lat) * len(raw.frame.days)
        own = (cells[cells < n_cells] for cells in (unit.inside, unit.outside))
        inside, outside = (Side(others, one, raw.steps, raw.frame, null_roi) for one in own)
        return inside, outside
