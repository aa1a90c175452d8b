"""Write a cube: users block by block, chunks whole, attributes last."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from clusterscale.contracts import Ints
from clusterscale.cube import storage
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Regions
from clusterscale.errors import InputError
from clusterscale.schema import CUBE_FORMAT, CUBE_VERSION

__all__ = ["CHUNK", "CubeWriter", "digest", "new_cube"]

CHUNK = 1 << 20  # 1 Mi elements: a chunk decodes in a few milliseconds


class CubeWriter:
    """Takes users block by block and writes whole chunks; see :func:`new_cube`."""

    def __init__(self, uri: str, regions: Regions, calendar: Calendar) -> None:
        self._group = zarr.create_group(uri)
        self._regions, self._calendar = regions, calendar
        n_cells = len(regions) * calendar.n_epochs
        dtype = np.int32 if n_cells <= np.iinfo(np.int32).max else np.int64
        self._n_cells, self._dtype = n_cells, np.dtype(dtype)
        self._events = _Column(self._group, "event_cell", self._dtype, "event")
        self._offsets = _Column(self._group, "user_offset", np.dtype(np.int64), "offset")
        self._users = _Column(self._group, "user", str, "user")
        self._offsets.append(np.zeros(1, np.int64))
        self._n_users = self._n_events = 0
        self._hash = {name: blake2b(digest_size=16) for name in ("user", "size", "cell")}

    def append(self, users: Sequence[str], sizes: Ints, cells: Ints) -> None:
        """Add users after those already there.

        Parameters
        ----------
        users
            Pseudonyms, shape (user,).
        sizes
            Events of each, shape (user,).
        cells
            Their flat cells one user after the other, increasing within each, shape (event,).

        Raises
        ------
        InputError
            If the sizes do not add up, a cell is outside the cube or a user's are not increasing.
        """
        cells = np.ascontiguousarray(cells, self._dtype)
        _check_block(users, sizes, cells, self._n_cells)
        ids = np.asarray(users, dtype=np.dtypes.StringDType())
        self._hash["user"].update("".join(f"{len(u.encode())}:{u}" for u in users).encode())
        self._hash["size"].update(sizes.astype("<i8").tobytes())
        self._hash["cell"].update(cells.astype("<i8", copy=False).tobytes())
        self._users.append(ids)
        self._offsets.append(self._n_events + np.cumsum(sizes, dtype=np.int64))
        self._events.append(cells)
        self._n_users += len(ids)
        self._n_events += len(cells)

    def seal(self, provenance: dict[str, Any]) -> None:
        """Write what is left and, last of all, the attributes without which nothing opens."""
        for column in (self._events, self._offsets, self._users):
            column.flush()
        regions = self._regions
        for name, dtype, values in (
            ("roi", str, np.asarray(regions.names, dtype=np.dtypes.StringDType())),
            ("roi_lat", np.dtype(np.float64), regions.lat),
            ("roi_lon", np.dtype(np.float64), regions.lon),
        ):
            column = _Column(self._group, name, dtype, "roi")
            column.append(values)
            column.flush()
        attributes = {
            "format": CUBE_FORMAT,
            "version": CUBE_VERSION,
            "n_users": self._n_users,
            "n_rois": len(regions),
            "n_events": self._n_events,
            "calendar": self._calendar.attributes(),
            "fingerprint": self._fingerprint(),
            "provenance": provenance,
        }
        self._group.attrs.put({**attributes, "digest": digest(attributes)})

    def _fingerprint(self) -> str:
        total = blake2b(digest_size=16)
        for name in sorted(self._hash):
            total.update(self._hash[name].digest())
        total.update(_canonical(self._calendar.attributes()))
        total.update(_canonical(list(self._regions.names)))
        total.update(self._regions.lat.astype("<f8").tobytes())
        total.update(self._regions.lon.astype("<f8").tobytes())
        return total.hexdigest()


@contextmanager
def new_cube(
    uri: str | Path,
    regions: Regions,
    calendar: Calendar,
    *,
    provenance: dict[str, Any],
    force: bool = False,
) -> Iterator[CubeWriter]:
    """Write a cube that appears at ``uri`` complete or not at all.

    ``provenance`` (plain values) is kept in the attributes; it may be filled during the block.

    Raises
    ------
    ExistsError
        If something is stored at ``uri`` and ``force`` is not set.
    """
    with storage.staged(str(uri), force=force) as staging:
        writer = CubeWriter(staging, regions, calendar)
        yield writer
        writer.seal(provenance)


class _Column:
    """One growing array, written in whole chunks."""

    def __init__(self, group: zarr.Group, name: str, dtype: Any, dim: str) -> None:
        self._array = storage.new_array(group, name, dtype=dtype, chunk=CHUNK, dim=dim)
        self._waiting: list[NDArray[Any]] = []
        self._n_waiting = 0

    def append(self, values: NDArray[Any]) -> None:
        self._waiting.append(values)
        self._n_waiting += len(values)
        if self._n_waiting >= CHUNK:
            self._write(self._n_waiting // CHUNK * CHUNK)

    def flush(self) -> None:
        self._write(self._n_waiting)

    def _write(self, size: int) -> None:
        if size == 0:
            return
        values = np.concatenate(self._waiting)
        start = self._array.shape[0]
        self._array.resize((start + size,))
        self._array[start:] = values[:size]
        self._waiting, self._n_waiting = [values[size:]], len(values) - size


def _check_block(users: Sequence[str], sizes: Ints, cells: Ints, n_cells: int) -> None:
    if len(sizes) != len(users) or sizes.sum() != len(cells) or (sizes < 0).any():
        raise InputError(
            f"{len(users)} users, {len(sizes)} sizes that add up to {sizes.sum()}, "
            f"{len(cells)} events: these must agree"
        )
    if len(cells) and (cells.min() < 0 or cells.max() >= n_cells):
        raise InputError(f"a cell is outside 0 to {n_cells - 1}")
    rises = np.diff(cells) > 0
    starts = np.cumsum(sizes)[:-1]
    rises[starts[(starts > 0) & (starts < len(cells))] - 1] = True
    if not rises.all():
        raise InputError("cells must increase within a user, each at most once")


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def digest(attributes: dict[str, Any]) -> str:
    """Return the seal of a cube's attributes: a hash of their canonical JSON."""
    return blake2b(_canonical(attributes), digest_size=16).hexdigest()
