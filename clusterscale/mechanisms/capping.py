"""Cap the events per user and day, which bounds the sensitivity of a user's day."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Bounds, CellCoordinates, Count, Ints, Traces, check_days
from clusterscale.jit import kernel
from clusterscale.mechanisms.coarsening import OnTraces
from clusterscale.validation_messages import plural

__all__ = ["CapContributions"]


class CapContributions(OnTraces):
    """Keep at most ``per_day`` events of each user and local day, at random (POPETS24 §6.2).

    One day of any user then changes the counts by at most that (twice as much with a null ROI), so
    the scale of the noise does not depend on the data. The publisher draws the events once for a
    cube and period; in the game both sides have the capped traces, so the adversary knows which
    events were kept, and the audit errs towards exposure.

    Attributes
    ----------
    per_day
        Number of events kept of each user and local day, e.g. ``10``.
    """

    name: Literal["cap_contributions"] = "cap_contributions"
    per_day: Count

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return f"at most {plural(self.per_day, 'event')} per user and day"

    def apply(
        self, traces: Traces, frame: CellCoordinates, *, rng: np.random.Generator
    ) -> tuple[Traces, CellCoordinates]:
        """Return capped traces over the same cells.

        Raises
        ------
        InputError
            If the traces have a null ROI, or the frame has other epochs.
        """
        self._refuse_null_roi(traces)
        check_days(frame.days, frame.last_days, traces.n_epochs)
        days, until = frame.days - frame.days[0], frame.last_days - frame.days[0]
        keys = rng.random(len(traces.cells))
        offsets, cells = np.empty_like(traces.offsets), np.empty_like(traces.cells)
        events, kept = (traces.offsets, traces.cells, keys), (offsets, cells)
        size = _cap(*events, traces.n_epochs, days, until, self.per_day, *kept)
        return replace(traces, offsets=offsets, cells=cells[:size].copy()), frame

    def limit(self, bounds: Bounds) -> Bounds:
        """Return bounds with the capped sensitivity of a user's day, which holds for any data."""
        return replace(bounds, user_day=self.per_day * bounds.event)


@kernel
def _cap(
    offsets: Ints,
    cells: Ints,
    keys: NDArray[np.float64],
    n_epochs: int,
    days: Ints,
    until: Ints,
    per_day: int,
    new: Ints,
    kept: Ints,
) -> int:
    """Keep the lowest-key events of each user and day, in their old order; return how many."""
    size = 0
    n_kept = np.zeros(until.max() + 1, np.int64)
    for user in range(len(offsets) - 1):
        new[user] = size
        start, stop = offsets[user], offsets[user + 1]
        keep = np.zeros(stop - start, np.bool_)
        n_kept[:] = 0
        for i in np.argsort(keys[start:stop]):
            epoch = cells[start + i] % n_epochs
            on = n_kept[days[epoch] : until[epoch] + 1]  # merged hours can span two days
            if on.max() < per_day:
                on += 1
                keep[i] = True
        for i in range(stop - start):
            if keep[i]:
                kept[size] = cells[start + i]
                size += 1
    new[len(offsets) - 1] = size
    return size
