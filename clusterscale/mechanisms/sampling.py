"""Drop events: sample them, or cap what each user contributes."""

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import (
    NO_NOISE,
    Bounds,
    CellChange,
    CellCoordinates,
    Count,
    Counts,
    Ints,
    NoiseScope,
    Probability,
    Stability,
    Support,
    Traces,
    Values,
    check_days,
)
from clusterscale.errors import ConfigError
from clusterscale.jit import kernel
from clusterscale.mechanisms.base import BaseMechanism, Stage
from clusterscale.mechanisms.coarsening import OnTraces
from clusterscale.mechanisms.law import CountLikelihood
from clusterscale.validation_messages import exact_percent, plural


class SampleEvents(BaseMechanism):
    """Drop each event with probability ``remove`` (SMP, POMACS20 §4.2.2).

    Events of different members in a cell are dropped independently, so a count A becomes
    Binomial(A, 1 − remove): drawing this from the counts is the same as drawing for every event.
    With a null ROI it is not: a user who loses the only event of an hour enters the null ROI, which
    counts alone do not show, so such an audit is refused. Events are drawn afresh for every
    release; :class:`SampleTraces` draws them once.

    Attributes
    ----------
    remove
        Probability that an event is dropped, from 0 to 1, e.g. ``0.2``.
    """

    name: Literal["sample_events"] = "sample_events"
    publish_refusal = (
        "NumPy draws its binomial numbers, and not from the operating system's source: use "
        "sample_traces, which drops events of users"
    )
    remove: Probability

    stage: ClassVar[Stage] = "sample"
    no_guarantee = "events that are kept are counted unchanged"
    noise_scope: ClassVar[NoiseScope] = "cell"

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return f"{exact_percent(self.remove)} of events removed"

    def bind(self, bounds: Bounds) -> Self:
        """Return the mechanism itself; raises ConfigError if there is a null ROI."""
        if bounds.null_roi:
            raise ConfigError(
                f"{self.name}: a user who loses the only event of an hour would enter the null "
                "ROI, which counts do not show: set null_roi: false"
            )
        return self

    def cell_change(self, group_size: int) -> CellChange:
        """Return the change of a count of 0, to which others add nothing that depends on it."""
        return CellChange(NO_NOISE, 1 - self.remove)

    def support(self, before: Support, group_size: int) -> Support:
        """Return ``before``: a sample of the events can have any smaller count."""
        return before

    def law_for_attacks(self, group_size: int) -> CountLikelihood:
        """Return the binomial distribution of what is kept of a count."""
        return CountLikelihood(self._probability, np.arange(group_size + 1.0))

    def _probability(self, values: NDArray[Any], counts: NDArray[Any]) -> Values:
        return np.asarray(scipy.stats.binom.pmf(values, counts, 1 - self.remove))

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return the sampled counts, float64, the same shape (…, roi, epoch).

        Raises InputError if ``counts`` are not those of ``group_size`` members.
        """
        self._check_counts(counts, group_size)
        return rng.binomial(counts.astype(np.int64), 1 - self.remove).astype(np.float64)


class SampleTraces(OnTraces):
    """Drop each event with probability ``remove``, once for a cube and period.

    This is SMP as POMACS20 §4.2.2 describes it literally: counts are "computed on the sampled
    trajectories". The same events of a user are then in every release; in the game both sides have
    the sampled traces, so the adversary knows which events were kept, and the audit errs towards
    exposure.

    Attributes
    ----------
    remove
        Probability that an event is dropped, from 0 to 1, e.g. ``0.2``.
    """

    name: Literal["sample_traces"] = "sample_traces"
    remove: Probability

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return f"{exact_percent(self.remove)} of events removed, the same in all releases"

    def stability(self, before: Stability, frame: CellCoordinates) -> Stability:
        """Return ``before``: each event is dropped or kept on its own."""
        return before

    def apply(
        self, traces: Traces, frame: CellCoordinates, *, rng: np.random.Generator
    ) -> tuple[Traces, CellCoordinates]:
        """Return sampled traces over the same cells.

        Raises InputError if the traces have a null ROI.
        """
        self._refuse_null_roi(traces)
        kept = rng.random(len(traces.cells)) >= self.remove
        n_before = np.concatenate([[0], np.cumsum(kept)]).astype(traces.offsets.dtype)
        offsets, cells = n_before[traces.offsets], traces.cells[kept]
        return replace(traces, offsets=offsets, cells=cells), frame


class CapContributions(OnTraces):
    """Keep at most ``per_day`` events of each user and local day, at random (POPETS24 §6.2).

    One day of any user then changes the counts by at most that (twice as much with a null ROI), so
    the scale of the noise does not depend on the data. An epoch belongs to the day in which it
    begins. If some end on another day, as merged hours can, a day changes the counts of several
    days, and more noise is needed than if hours are merged after the cap. An event that is removed
    lets another one in, so one event changes two. The publisher draws the events once for a cube
    and period; in the game both sides have the capped traces, so the adversary knows which events
    were kept, and the audit errs towards exposure.

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

        Raises InputError if the traces have a null ROI, or the frame has other epochs.
        """
        self._refuse_null_roi(traces)
        check_days(frame.days, frame.last_days, traces.n_epochs)
        keys = rng.random(len(traces.cells))
        offsets, cells = np.empty_like(traces.offsets), np.empty_like(traces.cells)
        events, kept = (traces.offsets, traces.cells, keys), (offsets, cells)
        days = frame.days - frame.days[0]
        size = _cap(*events, traces.n_epochs, days, self.per_day, *kept)
        return replace(traces, offsets=offsets, cells=cells[:size].copy()), frame

    def stability(self, before: Stability, frame: CellCoordinates) -> Stability:
        """Return twice the changes before, or what a day can change on the days of its epochs."""
        n_days = self._days_changed(frame) if before.confined else np.inf
        apart = bool((frame.days == frame.last_days).all())
        changes = before.user_day if apart and before.confined else 2 * before.user_day
        return Stability(
            event=2 * before.event,
            user_day=min(changes, self.per_day * n_days),
            confined=before.confined and apart,
        )

    def _days_changed(self, frame: CellCoordinates) -> int:
        """Return on how many days one day can change epochs; twice where others may be let in."""
        several = np.unique(frame.days[frame.days < frame.last_days])
        n_days = 1
        for day in np.unique(frame.days) if len(several) else ():
            changed = np.unique(frame.days[(frame.days <= day) & (day <= frame.last_days)])
            n_days = max(n_days, len(changed) + int(np.isin(changed, several).sum()))
        return n_days


@kernel
def _cap(
    offsets: Ints,
    cells: Ints,
    keys: NDArray[np.float64],
    n_epochs: int,
    days: Ints,
    per_day: int,
    new: Ints,
    kept: Ints,
) -> int:
    """Keep the lowest-key events of each user and day, in their old order; return how many."""
    size = 0
    n_kept = np.zeros(days.max() + 1, np.int64)
    for user in range(len(offsets) - 1):
        new[user] = size
        start, stop = offsets[user], offsets[user + 1]
        keep = np.zeros(stop - start, np.bool_)
        n_kept[:] = 0
        for i in np.argsort(keys[start:stop]):
            day = days[cells[start + i] % n_epochs]
            if n_kept[day] < per_day:
                n_kept[day] += 1
                keep[i] = True
        for i in range(stop - start):
            if keep[i]:
                kept[size] = cells[start + i]
                size += 1
    new[len(offsets) - 1] = size
    return size
