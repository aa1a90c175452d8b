"""Several tables of the same people, published together."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, Strict

from clusterscale.contracts import (
    ONE_DAY,
    Bounds,
    CellChange,
    CellCoordinates,
    Counts,
    Guarantee,
    Mechanism,
    NoiseScope,
    PrivacyLoss,
    Stability,
    TableLaw,
    Traces,
    TraceStep,
    Values,
    stability_of,
)
from clusterscale.contracts.mechanism import ONLY_REPLACED
from clusterscale.errors import ConfigError, InputError
from clusterscale.foreign import is_foreign
from clusterscale.mechanisms.accounting import ApproximateLoss, needs_equal_numbers
from clusterscale.mechanisms.base import MECHANISMS, Exact

Parts = tuple[Annotated[Mechanism, MECHANISMS.entry(skip="tables")], ...]
Frames = tuple[CellCoordinates, ...]
Steps = tuple[TraceStep, ...]


class Tables(Mechanism):
    """Publish several tables of the same people together, such as districts and regions.

    Each table has a mechanism of its own, with its own threshold or noise, and is counted from the
    same traces: a chain that begins with ``coarsen_space`` or ``coarsen_time`` is a table of
    regions or of days. Trace steps with which several tables begin alike are made once for all of
    them. The adversary sees all tables. Noise is drawn independently for each, so ε and δ add up
    if all state a guarantee for the same unit. For utility, only the first table counts.

    A release has the tables one after another in the order of places; a table with fewer epochs
    than others is filled up with zeros, which are not published. Counts without a cube, which says
    how large each table is, are divided into tables of equal numbers of places.

    Attributes
    ----------
    tables
        The mechanism of each table, e.g. ``[{name: suppress_small, below: 5}, {name: chain, steps:
        [{name: coarsen_space, factor: 4}, {name: suppress_small, below: 5}]}]``.
    """

    name: Literal["tables"] = "tables"
    publish_refusal = "a release is one table: publish each by its own mechanism"
    tables: Annotated[Parts, Strict(False), Field(min_length=2)]

    _bounds: tuple[Bounds, ...] = ()

    @property
    def _label(self) -> str:
        return f"tables({' & '.join(table.label for table in self.tables)})"

    @property
    def phrase(self) -> str:
        """The headings of the tables, joined."""
        return "tables together: " + "; ".join(table.heading for table in self.tables)

    @property
    def n_tables(self) -> int:  # type: ignore[override]
        """Number of tables."""
        return len(self.tables)

    @property
    def guarantee(self) -> Guarantee:
        """The sum of the guarantees, if all are for the same unit and neighbours."""
        stated = [table.guarantee for table in self.tables]
        if len({(each.unit, each.neighbours) for each in stated}) > 1:
            reason = "tables state guarantees for different units or neighbours, or one states none"
            return Guarantee("none", np.inf, 0.0, "add_remove", reason)
        if any(map(needs_equal_numbers, self.tables)):  # a table may merge what another keeps apart
            return Guarantee("none", np.inf, 0.0, "add_remove", ONLY_REPLACED)
        return replace(
            stated[0],
            epsilon=sum(each.epsilon for each in stated),
            delta=min(1.0, sum(each.delta for each in stated)),
            reason="; ".join(dict.fromkeys(each.reason for each in stated)),
            sensitivity=float(np.nansum([each.sensitivity for each in stated])) or np.nan,
        )

    @property
    def publishes_float_noise(self) -> bool:
        """Whether a table does."""
        return any(table.publishes_float_noise for table in self.tables)

    @property
    def noise_scope(self) -> NoiseScope:  # type: ignore[override]
        """One cell, if that is so in every table."""
        return "cell" if {table.noise_scope for table in self.tables} == {"cell"} else "release"

    @property
    def noise_is_count_independent(self) -> bool:  # type: ignore[override]
        """Whether this is so for every table."""
        return all(table.noise_is_count_independent for table in self.tables)

    def table_laws(self, group_size: int, cells: tuple[int, ...]) -> tuple[TableLaw, ...]:
        """Return the output distribution of each table."""
        laws = [TableLaw(np.zeros(cells, bool), t.noise, t.law(group_size)) for t in self.tables]
        for law, part in zip(laws, self._parts(cells), strict=True):
            law.cells[part] = True
        return tuple(law._replace(cells=law.cells.ravel()) for law in laws)

    def cell_change(self, group_size: int) -> CellChange:
        """Return the change under the least noise, if that of all tables is of one kind.

        Nothing bounds it where a scale is not known, or noise of another package may have more
        settings than its scale.
        """
        changes = [table.cell_change(group_size) or table.law(group_size) for table in self.tables]
        noises: list[Any] = [getattr(change, "noise", None) for change in changes]
        kinds = {type(noise) for noise in noises}
        if None in noises or len(kinds) > 1 or any(map(is_foreign, kinds)):
            return CellChange()
        if any(np.isnan(noise.scale) for noise in noises):
            return CellChange()
        return CellChange(min(noises, key=lambda noise: noise.scale), tight=False)

    def in_visits(self, values: Values, counts: Counts) -> Values:
        """Return the release with the first table in visits."""
        values, (first, *_) = values.copy(), self._parts(values.shape[-2:])
        values[first] = self.tables[0].in_visits(values[first], counts)
        return values

    def bind(self, bounds: Bounds) -> Self:
        """Return the mechanism with each table bound, which then knows where its counts are.

        Raises ConfigError if there is a null ROI, or a table has sums of weights.
        """
        if bounds.null_roi or any(table.uses_weights for table in self.tables):
            raise ConfigError(f"{self.name}: set null_roi: false, and leave out sums of weights")
        pairs = self._with_bounds(bounds)
        bound = self.model_copy(update={"tables": tuple(table.bind(own) for table, own in pairs)})
        bound._bounds = bounds.tables or self._bounds
        return bound

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the stated sensitivity times the largest share of its own that a table needs."""
        pairs = self._with_bounds(bounds)
        shares = [one.required_sensitivity(own) / one.guarantee.sensitivity for one, own in pairs]
        return self.guarantee.sensitivity * float(np.nanmax([*shares, 0.0]))

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss | None:
        """Return the sum of the losses; None if a table has none, or there is no guarantee."""
        losses = [table.user_privacy_loss(own) for table, own in self._with_bounds(bounds)]
        totals = [loss.total(1) for loss in losses if loss is not None]
        if self.guarantee.unit == "none" or len(totals) < len(losses):
            return None
        epsilon, delta = np.sum(totals, axis=0).tolist()
        return ApproximateLoss(1, epsilon, min(1.0, delta))

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`ConfigError` if a table does not suit its counts."""
        for i, table in enumerate(self.tables):
            rois, epochs = self._bounds[i].cells if self._bounds else (n_rois, n_epochs)
            table.check(group_size=group_size, n_rois=rois, n_epochs=epochs)

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return all tables, float64, the same shape (…, roi, epoch).

        Raises InputError if the counts are not those of the tables that it is bound to.
        """
        values = Exact().release(counts, group_size=group_size, rng=rng)
        for table, part in zip(self.tables, self._parts(counts.shape[-2:]), strict=True):
            values[part] = table.release(counts[part], group_size=group_size, rng=rng)
        return values

    def _with_bounds(self, bounds: Bounds) -> list[tuple[Mechanism, Bounds]]:
        """Return each table with its bounds; those of all tables, which are larger, if unknown."""
        events = [one.event for one in self._bounds] or [bounds.event] * len(self.tables)
        own = bounds.tables or [replace(bounds, event=event) for event in events]
        return list(zip(self.tables, own, strict=True))

    def _parts(self, cells: tuple[int, ...]) -> list[Any]:
        """Return the index of each table in counts with these numbers of ROIs and epochs."""
        equal = np.array_split(np.arange(cells[0]), len(self.tables))
        sizes = [one.cells for one in self._bounds] or [(len(rois), cells[1]) for rois in equal]
        stops = np.cumsum([rois for rois, _ in sizes])
        if (stops[-1], max(epochs for _, epochs in sizes)) != cells:
            raise InputError(f"{self.name}: counts of shape {cells} are not in tables of {sizes}")
        pairs = zip(stops, sizes, strict=True)
        return [np.s_[..., stop - rois : stop, :epochs] for stop, (rois, epochs) in pairs]

    @property
    def trace_steps(self) -> Steps:
        """The mechanism itself, which lays out the tables."""
        return (self,)

    def apply(
        self, traces: Traces, frame: CellCoordinates, *, rng: np.random.Generator
    ) -> tuple[Traces, CellCoordinates]:
        """Return the traces in the cells of all tables, and the positions of these cells.

        An epoch is from the first to the last day that it has in any table. Raises InputError if
        the traces have a null ROI.
        """
        if traces.null_roi:
            raise InputError(f"{self.name}: a null ROI is part of no table")
        made = list(self._apply_each(traces, frame, rng))
        ends, parts = [frames[-1] for _, frames, _ in made], [part for *_, part in made]
        n_rois, n_epochs = sum(one.n_rois for one in parts), max(one.n_epochs for one in parts)
        keys, first = [], 0
        for one in parts:
            roi, epoch = np.divmod(one.cells.astype(np.int64), one.n_epochs)
            user = np.repeat(np.arange(one.n_held), np.diff(one.offsets))
            keys.append((user * n_rois + first + roi) * n_epochs + epoch)
            first += one.n_rois
        cells = np.sort(np.concatenate(keys)) % (n_rois * n_epochs)
        offsets = np.sum([one.offsets for one in parts], axis=0)
        traces = replace(traces, offsets=offsets, cells=cells, n_rois=n_rois, n_epochs=n_epochs)
        lat, lon = np.concatenate([[end.lat, end.lon] for end in ends], axis=1)
        days = [np.pad(end.days, (0, n_epochs - len(end.days)), "edge") for end in ends]
        until = [np.pad(end.last_days, (0, n_epochs - len(end.days)), "edge") for end in ends]
        return traces, CellCoordinates(np.min(days, axis=0), lat, lon, np.max(until, axis=0))

    def layout(self, frame: CellCoordinates) -> list[tuple[Steps, Frames]]:
        """Return the trace steps of each table, and the cells before each and after the last."""
        nobody = np.zeros(1, np.int64), np.zeros(0, np.int64), len(frame.lat), len(frame.days)
        made = self._apply_each(Traces(*nobody), frame, np.random.default_rng(0))
        return [(steps, frames) for steps, frames, _ in made]

    def _apply_each(
        self, traces: Traces, frame: CellCoordinates, rng: np.random.Generator
    ) -> Iterator[tuple[Steps, Frames, Traces]]:
        """Yield the steps of each table, the cells before each and after the last, and traces."""
        made: dict[Steps, tuple[Frames, Traces]] = {(): ((frame,), traces)}
        for steps in (table.trace_steps for table in self.tables):
            for i, step in enumerate(steps):
                if steps[: i + 1] not in made:
                    frames, before = made[steps[:i]]
                    after, last = step.apply(before, frames[-1], rng=rng)
                    made[steps[: i + 1]] = (*frames, last), after
            yield steps, *made[steps]

    def stability(self, before: Stability, frame: CellCoordinates) -> Stability | None:
        """Return the sum of the stabilities of all tables; None if one is not known.

        ``before`` is that of no step, because no other step comes before.
        """
        alone: list[Any] = [(table.trace_steps, None) for table in self.tables]
        # ONE_DAY does not have the ROIs that steps may name
        own = [stability_of(*e) for e in (alone if frame is ONE_DAY else self.layout(frame))]
        known = [one for one in own if one is not None]
        user_day, confined = sum(one.user_day for one in known), all(one.confined for one in known)
        if len(known) < len(own) or not (confined or np.isfinite(user_day)):
            return None
        return Stability(sum(one.event for one in known), user_day, confined)

    def expand(self, values: Values, frame: CellCoordinates) -> Values:
        """Return the first table on the cells of ``frame``, and the null ROI, if there is one."""
        layout = self.layout(frame)
        (steps, frames), n_rois = layout[0], sum(len(own[-1].lat) for _, own in layout)
        rows = np.r_[: len(frames[-1].lat), n_rois : values.shape[-2]]
        values = values[..., rows, : len(frames[-1].days)]
        for step, cells in zip(reversed(steps), reversed(frames[:-1]), strict=True):
            values = step.expand(values, cells)
        return values
