"""Write a cube: users block by block, in whole chunks, attributes last."""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import Ints, Weights, check_weights
from clusterscale.cube import arrays
from clusterscale.cube.arrays import CHUNK
from clusterscale.cube.attributes import (
    FILES,
    PSEUDONYMS,
    PUBLIC,
    WEIGHT,
    WEIGHTS,
    canonical,
    digest,
)
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Regions
from clusterscale.cube.transforms import find_unsorted
from clusterscale.errors import InputError
from clusterscale.schema import CUBE_FORMAT, CUBE_VERSION
from clusterscale.storage.atomic import staged
from clusterscale.storage.chunk_store import ChunkStore

_SURROGATE = re.compile("[\ud800-\udfff]")  # which UTF-8 cannot encode


class Fingerprint:
    """Hash of a cube's content, computed block by block; the block size does not matter.

    Weights of users are part of it if there are any.
    """

    def __init__(self) -> None:
        self._hash = {name: blake2b(digest_size=16) for name in ("user", "size", "cell")}

    def update(self, users: Sequence[str], sizes: Ints, cells: Ints) -> None:
        """Add the next users: pseudonyms, events per user, and their concatenated flat cells."""
        self._hash["user"].update("".join(f"{len(u.encode())}:{u}" for u in users).encode())
        self._hash["size"].update(sizes.astype("<i8", copy=False).tobytes())
        self._hash["cell"].update(cells.astype("<i8", copy=False).tobytes())

    def result(self, regions: Regions, calendar: Calendar, weights: Weights | None = None) -> str:
        """Return the hash of all users added, with these regions, times and weights."""
        total = blake2b(digest_size=16)
        for name in sorted(self._hash):
            total.update(self._hash[name].digest())
        total.update(canonical(calendar.attributes()))
        total.update(canonical(list(regions.names)))
        total.update(regions.lat.astype("<f8").tobytes())
        total.update(regions.lon.astype("<f8").tobytes())
        if weights is not None:
            total.update(weights.astype("<f8", copy=False).tobytes())
        return total.hexdigest()


class CubeWriter:
    """Writes users to ``uri`` block by block in whole chunks; see :func:`new_cube`."""

    def __init__(self, uri: str, regions: Regions, calendar: Calendar) -> None:
        self._group = storage.create_group(uri)
        self._regions, self._calendar = regions, calendar
        n_cells = len(regions) * calendar.n_epochs
        dtype = np.int32 if n_cells <= np.iinfo(np.int32).max else np.int64
        self._n_cells, self._dtype = n_cells, np.dtype(dtype)
        self._events = _GrowingArray(self._group, "event_cell", self._dtype, "event")
        self._offsets = _GrowingArray(self._group, "user_offset", np.dtype(np.int64), "offset")
        self._users = _GrowingArray(self._group, "user", str, "user")
        self._offsets.append(np.zeros(1, np.int64))
        self._n_users = self._n_events = 0
        self._fingerprint = Fingerprint()
        self._weights: Weights | None = None

    def append(self, users: Sequence[str], sizes: Ints, cells: Ints) -> None:
        """Append users: ids, shape (user,), events of each, and increasing flat cells, (event,).

        The caller must ensure that ids or pseudonyms are unique: a check would hold all of
        them in memory. Raises InputError if the sizes do not add up, a cell is outside the
        cube, a user's cells do not increase, or a pseudonym is not text.
        """
        _check_block(users, sizes, cells, self._n_cells)
        cells = np.array(cells, self._dtype)  # a copy: the caller may change its array
        ids = np.asarray(users, dtype=np.dtypes.StringDType())
        self._fingerprint.update(users, sizes, cells)
        self._users.append(ids)
        self._offsets.append(self._n_events + np.cumsum(sizes, dtype=np.int64))
        self._events.append(cells)
        self._n_users += len(ids)
        self._n_events += len(cells)

    def weigh(self, weights: Weights) -> None:
        """Give every user a weight, float64, (user,): the number of people for whom it counts.

        The weights are of the users in the order in which they are appended. They are
        rounded to multiples of a power of two, relative to their sum by at most 2⁻⁵³. Sums
        over any users are then exact, so they do not depend on the order of addition.
        Raises InputError if a weight is not a positive number; when the cube is complete,
        also if it has another number of users.
        """
        check_weights(weights, len(weights))
        step = 2.0 ** (np.ceil(np.log2(max(weights.sum(), np.finfo(float).tiny))) - 52)
        self._weights = np.maximum(np.rint(weights / step), 1.0) * step

    def seal(
        self,
        provenance: dict[str, Any],
        *,
        pseudonyms: bool = False,
        public: Collection[str] = (),
    ) -> None:
        """Write the remaining data and then the attributes, required for opening."""
        for column in (self._events, self._offsets, self._users):
            column.flush()
        regions, weights = self._regions, self._weights
        if weights is not None:
            check_weights(weights, self._n_users)
        for name, dim, dtype, values in (
            *([] if weights is None else [(WEIGHT, "user", np.dtype(np.float64), weights)]),
            ("roi", "roi", str, np.asarray(regions.names, dtype=np.dtypes.StringDType())),
            ("roi_lat", "roi", np.dtype(np.float64), regions.lat),
            ("roi_lon", "roi", np.dtype(np.float64), regions.lon),
        ):
            column = _GrowingArray(self._group, name, dtype, dim)
            column.append(values)
            column.flush()
        store = self._group.store_path.store
        assert isinstance(store, ChunkStore)
        attributes = {
            "format": CUBE_FORMAT,
            "version": CUBE_VERSION,
            "n_users": self._n_users,
            "n_rois": len(regions),
            "n_events": self._n_events,
            "calendar": self._calendar.attributes(),
            "fingerprint": self._fingerprint.result(regions, self._calendar, weights),
            "provenance": provenance,
            PSEUDONYMS: pseudonyms,
            PUBLIC: sorted(public),
            **({} if weights is None else {WEIGHTS: _summarise(weights)}),
            FILES: {key: store.digests[key] for key in sorted(store.digests) if key != "zarr.json"},
        }
        self._group.attrs.put({**attributes, "digest": digest(attributes)})


@contextmanager
def new_cube(
    uri: str | Path,
    regions: Regions,
    calendar: Calendar,
    *,
    provenance: dict[str, Any],
    pseudonyms: bool = False,
    public: Collection[str] = (),
    force: bool = False,
) -> Iterator[CubeWriter]:
    """Yield the writer of a cube that appears at ``uri`` complete, when the block ends, or never.

    ``provenance`` is stored in the attributes as JSON, and may be filled in the block.
    ``pseudonyms`` says whether user ids are keyed hashes or synthetic, so that results may show
    them; ``public`` what was stated and depends on no record: ``places``, ``calendar``, or
    both. Raises ExistsError if something is stored at ``uri`` and ``force`` is not set, and
    InputError if ``public`` has another part.
    """
    if others := sorted({*public} - {"places", "calendar"}):
        raise InputError(f"public: {others[0]} is neither places nor calendar")
    storage.check_outputs([uri])
    with staged(str(uri), force=force) as staging:
        writer = CubeWriter(staging, regions, calendar)
        yield writer
        writer.seal(provenance, pseudonyms=pseudonyms, public=public)


class _GrowingArray:
    """A growing array, written in whole chunks; a small array is one chunk of its own size.

    The last chunk is stored at full length, so small cubes would otherwise be mostly padding.
    """

    def __init__(self, group: zarr.Group, name: str, dtype: Any, dim: str) -> None:
        self._group, self._name, self._dtype, self._dim = group, name, dtype, dim
        self._array: zarr.Array[Any] | None = None
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
        values = np.concatenate(self._waiting) if self._waiting else np.empty(0)
        if self._array is None:
            chunk, own = max(1, min(size, CHUNK)), (self._group, self._name)
            self._array = arrays.new_array(
                *own, dtype=self._dtype, chunk=chunk, dim=self._dim, size=size
            )
        elif size:
            self._array.resize((self._array.shape[0] + size,))
        if size:
            self._array[self._array.shape[0] - size :] = values[:size]
        self._waiting, self._n_waiting = [values[size:]], len(values) - size


def _summarise(weights: Weights) -> dict[str, float]:
    """Return the mean weight, rounded so that its products with counts are exact, and the ends."""
    mean = np.float32(weights.sum() / max(len(weights), 1))
    low, high = (float(end) for end in (weights.min(initial=1.0), weights.max(initial=1.0)))
    return {"mean": float(mean), "smallest": low, "largest": high}


def _check_block(users: Sequence[str], sizes: Ints, cells: Ints, n_cells: int) -> None:
    if sizes.dtype.kind not in "iu" or cells.dtype.kind not in "iu":
        raise InputError(f"sizes are {sizes.dtype} and cells {cells.dtype}: both must be integers")
    if len(sizes) != len(users) or sizes.sum() != len(cells) or (sizes < 0).any():
        raise InputError(
            f"{len(users)} users, {len(sizes)} sizes that add up to {sizes.sum()}, "
            f"{len(cells)} events: these must agree"
        )
    if len(cells) and (cells.min() < 0 or cells.max() >= n_cells):
        raise InputError(f"a cell is outside 0 to {n_cells - 1}")
    if find_unsorted(np.concatenate([[0], np.cumsum(sizes)]), cells) >= 0:
        raise InputError("cells must increase within a user, each at most once")
    for user in users:
        if not isinstance(user, str) or _SURROGATE.search(user):
            raise InputError(f"{user!r} is not a pseudonym: it must be text that UTF-8 can encode")
