"""The stored counts of a screen's groups: written once, read by every task."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.analyses.screening.counting import GroupContributions
from clusterscale.analyses.screening.plan import ScreenSetting
from clusterscale.contracts import Bounds, Counts, Values
from clusterscale.cube import arrays
from clusterscale.cube.blocks import Source
from clusterscale.errors import FormatError
from clusterscale.storage.atomic import staged

_FORMAT = "clusterscale-screen-counts"
_CHUNK = 1 << 22  # elements in a chunk, a few groups

Ids = NDArray[np.int64]


class GroupCounts(NamedTuple):
    """Counts of one group in the visited cells; counts of other cells are 0.

    ``counts`` and ``stand_in``: int32, shape (row,), of all members but the stand-in, and of the
    stand-in. ``sums`` and ``stand_in_sums``: float64, the same of weights; None if users have none.
    """

    group: int
    counts: Counts
    stand_in: Counts
    sums: Values | None
    stand_in_sums: Values | None

    @property
    def of_all(self) -> tuple[Counts, Values | None]:
        """Counts and sums of all members."""
        sums = None
        if self.sums is not None and self.stand_in_sums is not None:
            sums = self.sums + self.stand_in_sums
        return self.counts + self.stand_in, sums


@dataclass(frozen=True, eq=False)
class BaseGroups:
    """Counted groups of one setting; see :func:`open_groups`.

    Attributes
    ----------
    setting, source
        The setting that was counted, and its cube.
    n_users
        Number of users of the cube, which are the adversary's reference.
    shape
        Numbers of ROIs (including the null ROI) and epochs.
    bounds
        Largest change of the counts by one privacy unit.
    """

    uri: str
    setting: ScreenSetting
    source: Source
    n_users: int
    shape: tuple[int, int]
    bounds: Bounds

    @cached_property
    def cells(self) -> Ids:
        """Flat cells that any user visits, int64, shape (row,), increasing."""
        return self._read("cells", 0, self._n_rows)

    @cached_property
    def mean_trace(self) -> NDArray[np.float64]:
        """Share of all users in each of ``cells``, float64, shape (row,)."""
        return self._read("seen", 0, self._n_rows) / self.n_users

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """Index of each cell in ``cells``, −1 for the others, int32, shape (cell,)."""
        rows = np.full(self.n_cells, -1, np.int32)
        rows[self.cells] = np.arange(len(self.cells), dtype=np.int32)
        return rows

    @property
    def n_cells(self) -> int:
        """ROIs × epochs."""
        return self.shape[0] * self.shape[1]

    def counts(self, groups: range) -> Iterator[GroupCounts]:
        """Yield the counts of each group; a chunk of groups is read at a time."""
        n_rows, weighed = self._n_rows, "sums" in storage.open_group(self.uri)
        step = max(_CHUNK // max(n_rows, 1), 1)
        for start in range(groups.start // step * step, groups.stop, step):
            some = range(max(start, groups.start), min(start + step, groups.stop))
            span = some.start * n_rows, some.stop * n_rows
            base, stand_in = (
                self._read(name, *span).reshape(len(some), n_rows) for name in ("base", "stand_in")
            )
            for i, group in enumerate(some):
                own = stand_in[i].astype(np.int32)
                sums = alone = None
                if weighed:
                    sums = self._read("sums", group * n_rows, (group + 1) * n_rows)
                    alone = own * self._read("alone", group, group + 1)
                yield GroupCounts(group, base[i], own, sums, alone)

    def everywhere(self, counts: NDArray[Any]) -> NDArray[Any]:
        """Return counts or sums of ``cells`` as those of all cells, shape (cell,)."""
        if len(self.cells) == self.n_cells:
            return counts
        dense = np.zeros(self.n_cells, counts.dtype)
        dense[self.cells] = counts
        return dense

    @cached_property
    def _n_rows(self) -> int:
        return int(storage.open_group(self.uri)["cells"].shape[0])

    def _read(self, name: str, start: int, stop: int) -> NDArray[Any]:
        group = storage.open_group(self.uri)
        return arrays.read(
            arrays.open_array(group, name, where=self.uri), start, stop, where=self.uri
        )


class GroupsWriter:
    """Writes counted groups slice by slice; see :func:`new_groups`."""

    def __init__(self, uri: str, n_groups: int) -> None:
        self._group, self._n_groups = storage.create_group(uri), n_groups

    def add(self, first: int, counted: GroupContributions, n_users: int) -> None:
        """Write groups from number ``first`` on; the first slice also creates the arrays."""
        n_rows = len(counted.cells)
        if first == 0:
            self._create(counted, n_users)
        span = slice(first * n_rows, (first + len(counted.base)) * n_rows)
        for name, values in (("base", counted.base), ("stand_in", counted.stand_in)):
            group: Any = self._group[name]
            group[span] = values.astype(group.dtype).ravel()
        if counted.sums is not None:
            weighed: Any = self._group
            weighed["sums"][span] = counted.sums.ravel()
            weighed["alone"][first : first + len(counted.base)] = counted.alone

    def _create(self, counted: GroupContributions, n_users: int) -> None:
        n_rows, n_epochs, n_groups = len(counted.cells), len(counted.frame.days), self._n_groups
        size, width = n_groups * n_rows, max(n_rows, 1)
        chunk = max(width, _CHUNK // width * width)
        kinds: dict[str, tuple[Any, str, int, int]] = {
            "base": (np.int32, "count", chunk, size),
            "stand_in": (np.int8, "count", chunk, size),
            "cells": (np.int64, "row", width, n_rows),
            "seen": (np.int64, "row", width, n_rows),
        }
        if counted.sums is not None:
            kinds["sums"] = np.float64, "count", chunk, size
            kinds["alone"] = np.float64, "count", n_groups, n_groups
        for name, (dtype, dim, most, n) in kinds.items():
            chunk = min(most, n or 1)
            arrays.new_array(self._group, name, dtype=dtype, chunk=chunk, dim=dim, size=n)
        for name in ("cells", "seen"):
            group: Any = self._group[name]
            group[:] = getattr(counted, name)
        about = {"format": _FORMAT, "n_users": n_users, "bounds": asdict(counted.bounds)}
        shape = [counted.n_cells // n_epochs, n_epochs]
        self._group.attrs.put({**about, "shape": shape})


@contextmanager
def new_groups(uri: str, n_groups: int) -> Iterator[GroupsWriter]:
    """Write the groups of a setting atomically to ``uri``."""
    with staged(uri, force=True) as staging:
        yield GroupsWriter(staging, n_groups)


@lru_cache(maxsize=2)
def open_groups(uri: str, setting: ScreenSetting, source: Source) -> BaseGroups:
    """Open the counted groups of a setting.

    Raises
    ------
    MissingError, FormatError
        If ``uri`` has no counted groups.
    """
    about = dict(storage.open_group(uri).attrs)
    if about.get("format") != _FORMAT:
        raise FormatError(f"{uri} does not hold the groups of a screen")
    rois, epochs = about["shape"]
    bounds = Bounds(**about["bounds"])
    return BaseGroups(uri, setting, source, about["n_users"], (rois, epochs), bounds)
