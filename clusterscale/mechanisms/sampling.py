"""Count a random sample of the events."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal, Self

import numpy as np

from clusterscale.contracts import (
    NO_NOISE,
    Bounds,
    CellChange,
    CellCoordinates,
    Counts,
    NoiseScope,
    Probability,
    Stability,
    Support,
    Traces,
    Values,
)
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.base import BaseMechanism, Stage
from clusterscale.mechanisms.coarsening import OnTraces
from clusterscale.validation_messages import exact_percent


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
        """Return the mechanism itself.

        Raises
        ------
        ConfigError
            If there is a null ROI.
        """
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

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return the sampled counts, float64, the same shape (…, roi, epoch).

        Raises
        ------
        InputError
            If ``counts`` are not those of ``group_size`` members.
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

        Raises
        ------
        InputError
            If the traces have a null ROI.
        """
        self._refuse_null_roi(traces)
        kept = rng.random(len(traces.cells)) >= self.remove
        n_before = np.concatenate([[0], np.cumsum(kept)]).astype(traces.offsets.dtype)
        offsets, cells = n_before[traces.offsets], traces.cells[kept]
        return replace(traces, offsets=offsets, cells=cells), frame
