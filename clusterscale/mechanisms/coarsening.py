"""Coarser cells: ROIs or epochs merged before counting."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, Strict, model_validator

from clusterscale.contracts import (
    CellCoordinates,
    Count,
    Ints,
    Stability,
    Traces,
    TraceStep,
    UsualSettings,
    Values,
)
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms.base import Identity, Stage
from clusterscale.validation_messages import plural

Index = NDArray[np.int64]
_Groups = Annotated[
    tuple[
        Annotated[tuple[Annotated[int, Strict(), Field(ge=0, lt=2**63)], ...], Strict(False)], ...
    ],
    Strict(False),
]


def _as_pairs(parents: Any) -> Any:
    """Return pairs of place and parent; never read a file, which a release of others may name."""
    return tuple(parents.items()) if isinstance(parents, Mapping) else parents


_Name = Annotated[str, Field(min_length=1)]
_Parents = Annotated[
    tuple[Annotated[tuple[_Name, _Name], Strict(False)], ...],
    Strict(False),
    BeforeValidator(_as_pairs, json_schema_input_type=dict[str, str] | list[list[str]]),
]


class OnTraces(Identity):
    """A step that changes traces and publishes their counts unchanged."""

    stage: ClassVar[Stage] = "trace"
    no_guarantee = "counts of changed traces are published as they are"

    @property
    def trace_steps(self) -> tuple[TraceStep, ...]:
        """The step itself."""
        return (self,)  # type: ignore[return-value]  # every subclass has apply and expand

    def _refuse_null_roi(self, traces: Traces) -> None:
        """Raise :class:`InputError` if the traces already have a null ROI, which steps change."""
        if traces.null_roi:
            raise InputError(f"{self.label}: add the null ROI after the trace steps, not before")

    def expand(self, values: Values, frame: CellCoordinates) -> Values:
        """Return ``values``: the cells are unchanged."""
        return values


class _Coarsening(OnTraces):
    """Merge every ``factor`` neighbours, or the listed ``groups`` of indices.

    Indices in no group stay separate. A user who was in any part of a merged cell is in that cell
    (the union), and is counted once.

    Attributes
    ----------
    factor
        Number of neighbours to merge, e.g. ``4``; give this or ``groups``.
    groups
        Indices to merge, a list for each merged cell, e.g. ``[[0, 1], [2, 3]]``.
    """

    factor: Count | None = None
    groups: _Groups | None = None

    _ways: ClassVar[tuple[str, ...]] = ("factor", "groups")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(getattr(self, way) is not None for way in self._ways) != 1:
            raise ValueError(f"give exactly one of {', '.join(self._ways)}")
        if self.factor == 1:
            raise ValueError("a factor of 1 merges nothing")
        members = [index for group in self.groups or () for index in group]
        twice = sorted({index for index in members if members.count(index) > 1})
        if twice:
            raise ValueError(f"groups: {twice[0]} is in two groups")
        if self.groups is not None and max(map(len, self.groups), default=0) < 2:
            raise ValueError("groups: no group has two or more members, so nothing is merged")
        return self

    def stability(self, before: Stability, frame: CellCoordinates) -> Stability:
        """Return ``before``: an event that changes is in one merged cell."""
        return before

    @property
    def _merged_title(self) -> str:
        if self.factor is not None:
            return f"by a factor of {self.factor:,}"
        return f"in {plural(len(self.groups or ()), 'listed group')}"

    def _listed(self, n: int, what: str) -> Index:
        """Return the merged index of each of ``n`` items; unlisted items stay separate."""
        label = np.arange(n)
        for group in self.groups or ():
            if max(group, default=0) >= n:
                raise ConfigError(f"{self.name}: there is no {what} {max(group)} among {n}")
            label[list(group)] = min(group, default=0)
        return _renumber(label)


def _renumber(label: NDArray[Any]) -> Index:
    """Return labels renumbered from 0 in order of first appearance."""
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[inverse])


class CoarsenSpace(_Coarsening):
    """Merge ROIs (SPG, POMACS20 §4.2.1).

    A ``factor`` f merges squares of f × f cells if the ROIs form a grid, else f ROIs that are close
    together (neighbours on a space-filling curve, Morton 1966). ``groups`` lists indices of ROIs.
    ``strata`` merges the categories of each place, so that a table of categories has its totals,
    and ``parents`` the places of each region. For utility, every ROI takes the count of its merged
    ROI.

    Attributes
    ----------
    strata
        Name of the categories to merge, with which the cube was ingested, e.g. ``profile``.
    parents
        The region of each place, e.g. ``{ES21: ES2, ES22: ES2, ES30: ES3}``.
    """

    name: Literal["coarsen_space"] = "coarsen_space"
    strata: _Name | None = None
    parents: _Parents | None = None

    _ways = ("factor", "groups", "strata", "parents")
    usual = (UsualSettings({}, {"factor": (2, 4)}, rank=5),)

    @model_validator(mode="after")
    def _one_parent(self) -> Self:
        region = dict(self.parents or ())
        twice = sorted({name for name, parent in self.parents or () if region[name] != parent})
        if twice:
            raise ValueError(f"parents: {twice[0]} is in two regions")
        return self

    @property
    def _label(self) -> str:
        """The id in place of all parents, of which there may be thousands."""
        return super()._label if self.parents is None else f"{self.id} ({self.phrase})"

    @property
    def _merged_title(self) -> str:
        if self.strata is not None:
            return f"over all categories of {self.strata}"
        if self.parents is not None:
            return f"in {plural(len(set(dict(self.parents).values())), 'region')}"
        return super()._merged_title

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return "places merged " + self._merged_title

    def apply(
        self, traces: Traces, frame: CellCoordinates, *, rng: np.random.Generator
    ) -> tuple[Traces, CellCoordinates]:
        """Return traces over merged ROIs, and their mean positions.

        Raises ConfigError if a listed ROI does not exist, a factor is to merge ROIs without a
        position, or a ROI has no such category or no parent, and InputError if the traces have a
        null ROI.
        """
        self._refuse_null_roi(traces)
        merged, names = self._merged(frame), self._wholes(frame)
        size = np.bincount(merged)
        lat, lon = (np.bincount(merged, values) / size for values in (frame.lat, frame.lon))
        roi, epoch = np.divmod(traces.cells, traces.n_epochs)
        coarse = replace(traces, cells=merged[roi] * traces.n_epochs + epoch, n_rois=len(size))
        names = names and tuple(dict.fromkeys(names))
        return _united(coarse), replace(frame, lat=lat, lon=lon, names=names)

    def expand(self, values: Values, frame: CellCoordinates) -> Values:
        """Return the values of merged ROIs on all ROIs of ``frame``."""
        merged = self._merged(frame)
        rest = np.arange(merged.max() + 1, values.shape[-2])  # the null ROI, if there is one
        return np.asarray(values[..., np.concatenate([merged, rest]), :])

    def _merged(self, frame: CellCoordinates) -> Index:
        n_rois, factor = len(frame.lat), self.factor
        if (wholes := self._wholes(frame)) is not None:
            return _renumber(np.array(wholes))
        if factor is None:
            return self._listed(n_rois, "ROI")
        if (shape := find_grid(frame)) is not None:
            row, column = np.divmod(np.arange(n_rois), shape[1])
            return _renumber(row // factor * shape[1] + column // factor)
        if not np.isfinite(frame.lat + frame.lon).all():
            raise ConfigError(
                f"{self.name}: a factor merges ROIs that are close together, and some have no "
                "position: list groups instead"
            )
        merged = np.empty(n_rois, np.int64)
        merged[np.argsort(_morton(frame), kind="stable")] = np.arange(n_rois) // factor
        return _renumber(merged)

    def _wholes(self, frame: CellCoordinates) -> tuple[str, ...] | None:
        """Return the name of the place or region of each ROI; None if not merged by name."""
        if self.strata is None and self.parents is None:
            return None
        if frame.names is None:
            raise ConfigError(
                f"{self.name}: ROIs that were merged by a factor or groups have no names: merge by "
                "name first"
            )
        if self.parents is not None:
            region, what = dict(self.parents), "parent"
            wholes = tuple(region.get(name, "") for name in frame.names)
        else:
            category, what = f" ({self.strata} ", f"category of {self.strata}"
            wholes = tuple(name.rpartition(category)[0] for name in frame.names)
        missing = [name for name, of in zip(frame.names, wholes, strict=True) if not of]
        if missing:
            raise ConfigError(
                f"{self.name}: {len(missing):,} of {plural(len(wholes), 'ROI')} have no {what}, "
                f"such as {missing[0]}"
            )
        return wholes


def find_grid(frame: CellCoordinates) -> tuple[int, int] | None:
    """Return the numbers of rows and columns if the ROIs form a grid, row by row; else None."""
    lat, lon = np.round(frame.lat, 9), np.round(frame.lon, 9)
    rows, columns = np.unique(lat), np.unique(lon)
    shape = (len(rows), len(columns))
    if shape[0] * shape[1] != len(lat) or not np.isfinite(lat + lon).all():
        return None
    regular = (lat.reshape(shape) == rows[:, None]) & (lon.reshape(shape) == columns)
    return shape if regular.all() else None


def _morton(frame: CellCoordinates) -> Index:
    """Return Morton codes of the ROIs: interleaved bits of latitude and longitude."""
    code = np.zeros(len(frame.lat), np.int64)
    stretch = np.cos(np.radians(frame.lat.mean()))  # a degree of longitude is shorter
    for shift, degrees in enumerate((frame.lon * stretch, frame.lat)):
        extent = max(np.ptp(frame.lon) * stretch, np.ptp(frame.lat), 1e-12)
        bits = ((degrees - degrees.min()) / extent * 65535).astype(np.int64)
        for bit in range(16):
            code |= ((bits >> bit) & 1) << (2 * bit + shift)
    return code


class CoarsenTime(_Coarsening):
    """Merge epochs (TG, POMACS20 §4.2.1).

    A ``factor`` f merges every f epochs from the start of the period; the last may be fewer.
    ``groups`` lists indices of epochs of the period. For utility, every epoch takes the count of
    its merged epoch.
    """

    name: Literal["coarsen_time"] = "coarsen_time"
    usual = (UsualSettings({}, {"factor": (2, 4)}, rank=6),)

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return "epochs merged " + self._merged_title

    def apply(
        self, traces: Traces, frame: CellCoordinates, *, rng: np.random.Generator
    ) -> tuple[Traces, CellCoordinates]:
        """Return traces over merged epochs, each from the first to the last day of its parts.

        Raises ConfigError if a listed epoch does not exist, and InputError if the traces
        have a null ROI.
        """
        self._refuse_null_roi(traces)
        merged = self._merged(traces.n_epochs)
        _, first = np.unique(merged, return_index=True)
        roi, epoch = np.divmod(traces.cells, traces.n_epochs)
        coarse = replace(traces, cells=roi * len(first) + merged[epoch], n_epochs=len(first))
        until = np.full(len(first), frame.days[0])
        np.maximum.at(until, merged, frame.last_days)
        return _united(coarse), replace(frame, days=frame.days[first], until=until)

    def expand(self, values: Values, frame: CellCoordinates) -> Values:
        """Return the values of merged epochs on all epochs of ``frame``."""
        return np.asarray(values[..., self._merged(len(frame.days))])

    def _merged(self, n_epochs: int) -> Index:
        if self.factor is None:
            return self._listed(n_epochs, "epoch")
        return np.arange(n_epochs) // self.factor


def _united(traces: Traces) -> Traces:
    """Return the traces with each user's cells sorted and without duplicates."""
    user = np.repeat(np.arange(traces.n_users), np.diff(traces.offsets))
    keys: Index = np.unique(user * np.int64(traces.n_cells) + traces.cells)
    offsets = np.searchsorted(keys, np.arange(traces.n_users + 1) * np.int64(traces.n_cells))
    cells: Ints = keys % traces.n_cells
    cells = cells.astype(np.int32 if traces.n_cells < 2**31 else np.int64)
    return replace(traces, offsets=offsets.astype(np.int64), cells=cells)
