"""The stored cube: each user's sorted events, never a dense array.

Layout (Zarr v3, one group)::

    user         (user,)      str      id, or pseudonym where ``ids_are_pseudonyms`` is true
    user_offset  (offset,)    int64    events of user u: event_cell[user_offset[u]:user_offset[u+1]]
    event_cell   (event,)     int32    flat cell roi · n_epochs + epoch, increasing within a user
    user_weight  (user,)      float64  people for whom a user counts; absent if all count as one
    roi          (roi,)       str      name
    roi_lat/lon  (roi,)       float64  position of the centre, degrees

Everything else (calendar, sizes, whether ids are pseudonyms, origin of the regions and the records,
fingerprint of the content) is in the group's attributes, sealed by a digest.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import CellCoordinates, Ints, Traces, Weights
from clusterscale.cube import arrays, transforms
from clusterscale.cube.arrays import CHUNK
from clusterscale.cube.attributes import (
    FILES,
    PSEUDONYMS,
    ROW_NAME,
    WEIGHT,
    WEIGHTS,
    check_format,
    describe_origins,
    describe_sizes,
    public_parts,
)
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Regions
from clusterscale.errors import DamagedError, InputError
from clusterscale.html_tables import list_facts
from clusterscale.storage.chunk_store import ChunkStore

_RUN = 16  # chunks of events read at once for non-contiguous users


class TraceCube:
    """A picklable handle to a stored cube; data is read on access.

    Parameters
    ----------
    uri
        Local path or fsspec URL of the store.

    Raises
    ------
    MissingError, FormatError, DamagedError
        If there is no store, it is not a complete cube of a known version, or its attributes are
        corrupt.
    """

    def __init__(self, uri: str | Path) -> None:
        self.uri = str(uri).rstrip("/")
        group = storage.open_group(self.uri)
        self.attributes = check_format(group, self.uri)
        store = group.store_path.store
        assert isinstance(store, ChunkStore)
        store.expected = self.attributes[FILES]  # from here on, what is read is what was written
        self._arrays = {}
        for name, kinds, size in (
            ("user", "TO", self.n_users),
            ("user_offset", "i", self.n_users + 1),
            ("event_cell", "i", self.n_events),
            ("roi", "TO", self.n_rois),
            ("roi_lat", "f", self.n_rois),
            ("roi_lon", "f", self.n_rois),
            *([(WEIGHT, "f", self.n_users)] if WEIGHTS in self.attributes else []),
        ):
            array = self._arrays[name] = arrays.open_array(group, name, where=self.uri)
            arrays.check_array(array, kinds, size, store.expected, where=self.uri)

    def __reduce__(self) -> tuple[type["TraceCube"], tuple[str]]:
        return type(self), (self.uri,)

    def __repr__(self) -> str:
        return (
            f"TraceCube({self.uri!r}: {self.n_users:,} users, {self.n_rois:,} ROIs, "
            f"{self.n_epochs:,} epochs, {self.n_events:,} events)"
        )

    def _repr_html_(self) -> str:
        about = self.attributes
        return list_facts(self.uri, describe_sizes(about) | describe_origins(about))

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.attributes["n_users"])

    @property
    def n_known(self) -> int:
        """Number of users who are not simulated to complete a population: the first rows."""
        return int(self.attributes["provenance"].get("known", self.n_users))

    @property
    def n_rois(self) -> int:
        """Number of stored ROIs (without the null ROI)."""
        return int(self.attributes["n_rois"])

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return self.calendar.n_epochs

    @property
    def n_events(self) -> int:
        """Number of events."""
        return int(self.attributes["n_events"])

    @property
    def cell_bytes(self) -> int:
        """Bytes of one event in memory."""
        return int(self._arrays["event_cell"].dtype.itemsize)

    @property
    def fingerprint(self) -> str:
        """Hash of the content: events, users and their weights, regions and times."""
        return str(self.attributes["fingerprint"])

    @property
    def known_fingerprint(self) -> str:
        """Fingerprint of the cube of its known users, whom simulated people may complete."""
        return str(self.attributes["provenance"].get("of", self.fingerprint))

    @cached_property
    def weights(self) -> Weights | None:
        """People for whom each user counts, float64, shape (user,); None if users count as one."""
        return self._some_weights(0, self.n_users)

    @property
    def mean_weight(self) -> float:
        """Mean weight of the users; 1 if they have none."""
        return float(self.attributes[WEIGHTS]["mean"]) if WEIGHTS in self.attributes else 1.0

    @cached_property
    def calendar(self) -> Calendar:
        """The epochs."""
        return Calendar.from_attributes(self.attributes["calendar"])

    @property
    def public(self) -> frozenset[str]:
        """What was stated, and not taken from the records: ``places``, ``calendar``, or both."""
        return public_parts(self.attributes)

    @cached_property
    def regions(self) -> Regions:
        """The regions of interest."""
        names = tuple(str(name) for name in self._all("roi"))
        return Regions(names, self._all("roi_lat"), self._all("roi_lon"))

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Index of each user's first event, and the total, int64, shape (user + 1,)."""
        return self._some_offsets(0, self.n_users)

    def user_ids(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Return the stored ids of the users ``start`` up to ``stop``, which may be real ids."""
        stop = self.n_users if stop is None else stop
        return arrays.read(self._arrays["user"], start, stop, where=self.uri)

    def pseudonyms(self, users: Ints) -> NDArray[Any]:
        """Return names of users that may be shown in results, object, shape (user,).

        These are the stored ids if the cube marks them as pseudonyms, else the row in the cube,
        which only holders of the cube can resolve. A stored id of the form ``row N`` is never
        shown: it would name another user.
        """
        names = np.array([f"row {user}" for user in users], dtype=object)
        if self.attributes.get(PSEUDONYMS) is True:  # otherwise, or if not recorded, ids are real
            ids = self.user_ids()[users].astype(object)
            return np.where([bool(ROW_NAME.fullmatch(name)) for name in ids], names, ids)
        return names

    def traces(self, users: Ints | None = None, epochs: tuple[int, int] | None = None) -> Traces:
        """Load the traces of some users over some epochs.

        Parameters
        ----------
        users
            Indices, shape (user,), in any order, repeats allowed; all users if None.
        epochs
            First epoch and the one after the last; all if None.

        Returns
        -------
        Traces
            Users in the given order; epochs counted from the first.

        Raises
        ------
        InputError
            If a user or an epoch is not in the cube.
        DamagedError
            If a chunk cannot be read; the message names it.
        """
        first, stop = epochs or (0, self.n_epochs)
        if users is None:
            return transforms.cut(self._block(0, self.n_users), first, stop)
        users = np.asarray(users)
        if len(users) == 0:
            return transforms.cut(self._block(0, 0), first, stop)
        if users.dtype.kind not in "iu":
            raise InputError(f"users are {users.dtype}, not indices")
        if users.min() < 0 or users.max() >= self.n_users:
            wrong = users[(users < 0) | (users >= self.n_users)][0]
            raise InputError(f"user {wrong} is not in a cube of {self.n_users} users")
        return transforms.cut(self._scattered(users.astype(np.int64)), first, stop)

    def frame(self, epochs: tuple[int, int] | None = None) -> CellCoordinates:
        """Return the names and positions of the ROIs and the days of ``epochs``, all if None."""
        first, stop = epochs or (0, self.n_epochs)
        days, until = (self.calendar.days(ends=ends)[first:stop] for ends in (False, True))
        regions = self.regions
        return CellCoordinates(days, regions.lat, regions.lon, until, regions.names)

    def blocks(self, n_users: int) -> Iterator[tuple[int, Traces]]:
        """Yield ``(index of the first user, traces)`` for all users, ``n_users`` at a time.

        Raises
        ------
        InputError
            If ``n_users`` is not positive.
        DamagedError
            If a chunk cannot be read; the message names it.
        """
        if n_users < 1:
            raise InputError(f"n_users is {n_users}: a block has at least 1 user")
        for start in range(0, self.n_users, n_users):
            yield start, self._block(start, min(start + n_users, self.n_users))

    def block(self, start: int, stop: int, epochs: tuple[int, int] | None = None) -> Traces:
        """Load the users ``start`` up to ``stop``, reading only their part of the store.

        Raises
        ------
        InputError
            If these are not users of the cube, or ``epochs`` are not epochs of the cube.
        DamagedError
            If a chunk cannot be read; the message names it.
        """
        if not 0 <= start <= stop <= self.n_users:
            raise InputError(f"users {start} to {stop} are not within 0 to {self.n_users}")
        first, last = epochs or (0, self.n_epochs)
        return transforms.cut(self._block(start, stop), first, last)

    def count_events(self, start: int, stop: int) -> int:
        """Return how many events the users ``start`` up to ``stop`` have in all epochs."""
        ends = self._some_offsets(start, stop)
        return int(ends[-1] - ends[0])

    def _block(self, start: int, stop: int) -> Traces:
        offsets = self._some_offsets(start, stop)
        cells = arrays.read(self._arrays["event_cell"], *map(int, offsets[[0, -1]]), where=self.uri)
        try:
            weights = self._some_weights(start, stop)
            shape = self.n_rois, self.n_epochs
            traces = Traces(offsets - offsets[0], cells, *shape, weights=weights)
        except InputError as error:
            raise DamagedError(f"{self.uri}: {error}") from None
        row = transforms.find_unsorted(traces.offsets, cells)
        if row >= 0:
            raise DamagedError(f"{self.uri}: the cells of row {start + row} do not increase")
        return traces

    def _some_offsets(self, start: int, stop: int) -> NDArray[np.int64]:
        if "offsets" in self.__dict__:
            return self.offsets[start : stop + 1]
        offsets = arrays.read(self._arrays["user_offset"], start, stop + 1, where=self.uri)
        first, last = offsets[[0, -1]]
        whole = (start > 0 or first == 0) and (stop < self.n_users or last == self.n_events)
        if not whole or first < 0 or last > self.n_events or (np.diff(offsets) < 0).any():
            raise DamagedError(f"{self.uri}: user_offset does not increase from 0 to n_events")
        return offsets

    def _some_weights(self, start: int, stop: int) -> Weights | None:
        array = self._arrays.get(WEIGHT)
        return None if array is None else arrays.read(array, start, stop, where=self.uri)

    def _scattered(self, users: NDArray[np.int64]) -> Traces:
        """Read runs of users whose events are close together, then select the wanted users."""
        wanted = np.unique(users)
        starts, stops = self.offsets[wanted], self.offsets[wanted + 1]
        far = starts[1:] - stops[:-1] > CHUNK
        long = np.diff(starts // (_RUN * CHUNK)) > 0
        breaks = np.flatnonzero(far | long) + 1
        pieces, sizes = [], []
        for run in np.split(wanted, breaks):
            block = self._block(int(run[0]), int(run[-1]) + 1)
            piece = transforms.pick(block, run - run[0])
            pieces.append(piece.cells)
            sizes.append(np.diff(piece.offsets))
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
        traces = Traces(offsets, np.concatenate(pieces), self.n_rois, self.n_epochs)
        if self.weights is not None:
            traces = replace(traces, weights=self.weights[wanted])
        return transforms.pick(traces, np.searchsorted(wanted, users))

    def _all(self, name: str) -> NDArray[Any]:
        array = self._arrays[name]
        return arrays.read(array, 0, array.shape[0], where=self.uri)
