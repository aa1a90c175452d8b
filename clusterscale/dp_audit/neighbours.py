"""Neighbouring groups, which differ in one unit of data: drawn, and counted by part of users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from clusterscale.contracts import CellCoordinates, Counts, Ints, Traces
from clusterscale.dp_audit.privacy_units import (
    Kind,
    Survey,
    Unit,
    draw_unit,
    largest_unit,
    survey_units,
)
from clusterscale.groups import count_visits
from clusterscale.seeds import stream

__all__ = ["Design", "Nearby", "Neighbours", "Pair", "count_nearby"]

Pair = tuple[Counts, Counts]


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

    def groups(self, kind: Kind) -> Iterator[Ints]:
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

    groups: dict[Kind, Counts]
    survey: Survey

    def plus(self, other: Nearby) -> Nearby:
        """Add the counts of the users that follow these."""
        groups = {kind: counts + other.groups[kind] for kind, counts in self.groups.items()}
        return Nearby(groups, self.survey.plus(other.survey))


def count_nearby(
    design: Design, kinds: Sequence[Kind], traces: Traces, frame: CellCoordinates
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
    return Nearby(groups, survey_units(traces, frame, block=design.block))


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
    """

    design: Design
    nearby: Nearby
    find: Callable[[int], Traces]
    frame: CellCoordinates
    _pairs: dict[Kind, list[Pair]] = field(default_factory=dict)

    def pairs(self, kind: Kind) -> list[Pair]:
        """Return counts with and without each unit, int32, shape (roi, epoch); empty if no unit."""
        if kind not in self._pairs:
            groups = zip(self.nearby.groups[kind], self.design.groups(kind), strict=True)
            self._pairs[kind] = [
                self._count(unit, *group)
                for unit, group in zip(self._units(kind), groups, strict=True)
                if unit is not None
            ]
        return self._pairs[kind]

    def _units(self, kind: Kind) -> Iterator[Unit | None]:
        """Yield the largest unit of all users, and then random ones."""
        survey, path = self.nearby.survey, ("verdict units", *self.design.path, kind)
        largest = survey.largest["user" if kind == "answer" else kind].user
        yield largest_unit(kind, self.find(largest), largest, self.frame)
        rng = stream(self.design.seed, *path)
        for _ in range(self.design.n_units - 1):
            yield draw_unit(kind, survey, self.find, self.frame, rng=rng)

    def _count(self, unit: Unit, counts: Counts, members: Ints) -> Pair:
        """Replace a member, the user if in the group, by the user with and without the unit."""
        leaves = unit.user if unit.user in members else int(members[-1])
        others = counts.copy()
        others.reshape(-1)[self.find(leaves).trace(leaves)] -= 1
        sides = others, others.copy()
        for side, cells in zip(sides, (unit.inside, unit.outside), strict=True):
            side.reshape(-1)[cells] += 1
        return sides
