"""Trace steps, and how much one unit of data changes the counts after them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np

from clusterscale.contracts.data import CellCoordinates, Traces, Values
from clusterscale.errors import InputError
from clusterscale.models import Named


@dataclass(frozen=True, slots=True)
class Bounds:
    """Largest change that one unit of data makes to the counts of a period, over all users.

    A unit is one of the traces before any trace step. Changes are in visits, L1 norm: the counts
    lost when the unit is removed, those gained by events that trace steps then let in and, with a
    null ROI, those that the null ROI gains (an hour without its only event is idle).

    Attributes
    ----------
    event
        One event: 1, or 2 with a null ROI, times the events that the trace steps change.
    user_day
        All events of one user on one local day.
    user
        All counts of one user, including idle epochs if there is a null ROI (the Δ of NDSS18
        §VII-B).
    series
        The counts of one user in one ROI.
    rois
        Number of ROIs in which one user is counted.
    null_roi
        Whether there is a null ROI.
    cells
        Numbers of ROIs and epochs of one of several tables; (0, 0) if not known.
    tables
        The same of each table, for its trace steps alone, if a step lays out several.
    """

    event: int
    user_day: int
    user: int
    series: int
    rois: int
    null_roi: bool
    cells: tuple[int, int] = (0, 0)
    tables: tuple["Bounds", ...] = ()

    def __post_init__(self) -> None:  # as JSON has lists
        object.__setattr__(self, "cells", tuple(self.cells))
        tables = (one if isinstance(one, Bounds) else Bounds(**one) for one in self.tables)
        object.__setattr__(self, "tables", tuple(tables))


@dataclass(frozen=True, slots=True)
class Stability:
    """How many events of a user change after trace steps if a unit is removed before them.

    Each step acts on the events of one user, and on nobody else's. If it is random, the numbers
    hold for some joint draw of what it keeps with and without the unit. An event that is dropped
    and another that is let in instead are two changes.

    Attributes
    ----------
    event
        Changes if one event is removed.
    user_day
        Changes if all events on one local day are removed; infinite if no step limits them.
    confined
        Whether removing a day only removes events in epochs that are on that day, and all of those
        in epochs that are on no other day. If not, ``user_day`` must be finite.
    """

    event: int = 1
    user_day: float = np.inf
    confined: bool = True

    def __post_init__(self) -> None:
        if not self.confined and not np.isfinite(self.user_day):
            raise InputError("user_day is infinite, but a day changes events of other days")

    def limit(self, bounds: Bounds) -> Bounds:
        """Return the bounds for units before the steps.

        Parameters
        ----------
        bounds
            Those for units after the steps.
        """
        event, user_day = self.event * bounds.event, bounds.user_day
        if np.isfinite(self.user_day):
            user_day = int(self.user_day) * bounds.event
        return replace(bounds, event=event, user_day=user_day)


@runtime_checkable
class TraceStep(Named, Protocol):
    """A change to traces before counting, made once per cube and period, not once per group.

    A step may also have a method ``stability(before, frame)``. It takes the :class:`Stability` of
    the steps before it and the coordinates of the cells that it is given, and returns the stability
    of all of them together. After a step without it, noise guarantees nothing.

    A step that lays out several tables, one after another in the order of ROIs, is the only one. It
    has a method ``layout(frame)``, which returns for each table the trace steps of its own, and the
    coordinates of the cells before each of these and after the last.
    """

    def apply(
        self, traces: Traces, frame: CellCoordinates, *, rng: np.random.Generator
    ) -> tuple[Traces, CellCoordinates]:
        """Return the changed traces, without a null ROI, and the coordinates of their cells."""

    def expand(self, values: Values, frame: CellCoordinates) -> Values:
        """Return ``values`` of the changed cells on the cells of ``frame``, those before the step.

        Shapes (…, roi, epoch); a last ROI without a position is the null ROI.
        """


ONE_DAY = CellCoordinates(np.zeros(1, np.int64), np.zeros(1), np.zeros(1))
"""Stands for cells that are not known: no epoch is on two days."""


def stability_of(
    steps: Sequence[TraceStep], frames: Sequence[CellCoordinates] | None = None
) -> Stability | None:
    """Return the stability of trace steps together; None if one of them does not state its own.

    Parameters
    ----------
    steps
        The steps, in the order in which they are applied.
    frames
        Coordinates of the cells before each step, and of those after the last; None: as if no epoch
        were on two days.

    Returns
    -------
    Stability or None
        How many events of a user change after the last step if a unit is removed before the first.
    """
    together = Stability()
    for step, frame in zip(steps, frames or [ONE_DAY] * len(steps), strict=False):
        append: Callable[[Stability, CellCoordinates], Stability] | None
        if (append := getattr(step, "stability", None)) is None:
            return None
        together = append(together, frame)
    return together
