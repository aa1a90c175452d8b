"""Describe a cube: its origin, its places, and the statistics that papers report."""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import h3
import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import Traces
from clusterscale.cube.blocks import Span, block_size
from clusterscale.cube.coded_cells import geohash_degrees
from clusterscale.cube.store import TraceCube
from clusterscale.cube.transforms import with_null_roi
from clusterscale.cube.writer import Fingerprint
from clusterscale.errors import DamagedError


def raw_bytes(cube: TraceCube) -> int:
    """Return the bytes of all users' events in memory."""
    return cube.n_events * cube.cell_bytes + (cube.n_users + 1) * 8


_PACKAGES = ["bokeh", "clusterscale", "dp-accounting", "numba", "numpy"]
_PACKAGES += ["scikit-learn", "scipy", "xarray", "zarr"]


def describe_origin(cube: TraceCube, *, null_roi: bool) -> dict[str, str]:
    """Return dataset attributes that describe the cube and the software versions.

    ``cube_fingerprint``, and as JSON ``cube`` (sizes, times, calendar, source) and ``versions``.
    """
    size = {name: getattr(cube, name) for name in ("n_users", "n_rois", "n_epochs", "n_events")}
    about = {
        **size,
        "null_roi": null_roi,
        "when": cube.calendar.describe(),
        "calendar": cube.calendar.attributes(),
        "source": _source(cube.attributes["provenance"]),
    }
    if cube.n_known < cube.n_users:
        about["n_known"] = cube.n_known
    if cube.known_fingerprint != cube.fingerprint:
        about["known_fingerprint"] = cube.known_fingerprint
    return {
        "cube_fingerprint": cube.fingerprint,
        "cube": json.dumps(about, sort_keys=True),
        "versions": json.dumps({name: version(name) for name in _PACKAGES}, sort_keys=True),
    }


def describe_shapes(cube: TraceCube) -> dict[str, Any]:
    """Return the shape of the ROIs, as JSON-serialisable values, for maps.

    ``{"kind": "grid", "width": …, "height": …}`` in degrees, around their centres, for geohashes
    too; ``{"kind": "h3"}``, named by their H3 cell; or ``{"kind": "points"}``. If the cube does not
    record how its ROIs were made, they are a grid if they fill one of at least 2 × 2 cells.
    """
    origin = cube.attributes["provenance"].get("regions", {})
    if origin.get("kind") == "grid":
        (south, west, north, east), (n_lat, n_lon) = origin["box"], origin["shape"]
        return {"kind": "grid", "width": (east - west) / n_lon, "height": (north - south) / n_lat}
    if origin.get("kind") == "geohash":
        height, width = geohash_degrees(origin["precision"])
        return {"kind": "grid", "width": width, "height": height}
    regions = cube.regions
    if all(map(h3.is_valid_cell, regions.names)):
        return {"kind": "h3"}
    if "kind" not in origin and (spacing := _spacing(regions.lat, regions.lon)):
        return {"kind": "grid", "width": spacing[1], "height": spacing[0]}
    return {"kind": "points"}


def _spacing(*axes: NDArray[np.float64]) -> tuple[float, ...] | None:
    """Return the grid spacing per axis if the positions fill a grid, else None."""
    ticks = [np.unique(np.round(axis, 9)) for axis in axes]
    if min(map(len, ticks)) < 2 or np.prod([len(tick) for tick in ticks]) != len(axes[0]):
        return None
    steps = [np.diff(tick) for tick in ticks]
    even = all(np.allclose(step, step[0], rtol=1e-4) for step in steps)
    full = np.unique(np.round(axes, 9), axis=1).shape[1] == len(axes[0])
    return tuple(float(step.mean()) for step in steps) if even and full else None


def _source(provenance: dict[str, Any]) -> str:
    preset = provenance.get("preset")
    return f"synthetic {preset}" if preset else str(provenance.get("source", "unknown"))


_BLOCK = 100_000


@dataclass(frozen=True, slots=True)
class CubeSummary:
    """Sizes of a cube, and per-user statistics as mean and standard deviation (ddof 0).

    ``events`` are visits to a cell; ``unique_rois`` the ROIs ever visited; ``active_epochs`` the
    epochs with a visit (NDSS18 §V-A). ``raw_bytes`` is the uncompressed size of users'
    events, ``stored_bytes`` the size of the store.
    """

    n_users: int
    n_rois: int
    n_epochs: int
    n_events: int
    when: str
    events: tuple[float, float]
    unique_rois: tuple[float, float]
    active_epochs: tuple[float, float]
    raw_bytes: int
    stored_bytes: int

    @property
    def compression(self) -> float:
        """Uncompressed over stored bytes."""
        return self.raw_bytes / self.stored_bytes


def summarise(cube: TraceCube) -> CubeSummary:
    """Summarise a cube, reading all of it block by block, which also detects damage.

    Raises DamagedError if a chunk cannot be read (the message names it), or the fingerprint
    does not match.
    """
    sizes = np.diff(cube.offsets)
    rois, epochs = np.empty_like(sizes), np.empty_like(sizes)
    content = Fingerprint()
    n_block = max(1, min(_BLOCK, (1 << 28) // cube.n_epochs))  # 1 << 28: users × epochs
    for start, traces in cube.blocks(n_block):
        block = slice(start, start + traces.n_users)
        rois[block], epochs[block] = activity(traces)
        users = [str(user) for user in cube.user_ids(block.start, block.stop)]
        content.update(users, sizes[block], traces.cells)
    if content.result(cube.regions, cube.calendar, cube.weights) != cube.fingerprint:
        raise DamagedError(f"{cube.uri}: the content does not match the stored fingerprint")
    return CubeSummary(
        n_users=cube.n_users,
        n_rois=cube.n_rois,
        n_epochs=cube.n_epochs,
        n_events=cube.n_events,
        when=cube.calendar.describe(),
        events=_mean_sd(sizes),
        unique_rois=_mean_sd(rois),
        active_epochs=_mean_sd(epochs),
        raw_bytes=raw_bytes(cube),
        stored_bytes=storage.size(cube.uri),
    )


@lru_cache(maxsize=4)
def count_events(cube: TraceCube, spans: tuple[Span, ...]) -> NDArray[np.int64]:
    """Return the events of each user in each span of epochs, and in all spans together.

    int64, shape (span + 1, user), read-only; spans may overlap, and the last row counts each
    event once. The events are read once, a block of users at a time; not at all if every span
    is the whole cube. Recent results are cached. Raises DamagedError, which names the chunk, if
    one cannot be read.
    """
    total = np.empty((len(spans) + 1, cube.n_users), np.int64)
    if set(spans) == {(0, cube.n_epochs)}:
        total[:] = np.diff(cube.offsets)
    else:
        within = np.zeros((len(spans) + 1, cube.n_epochs), np.bool_)
        for row, (first, last) in zip(within, spans, strict=False):
            row[first:last] = True
        within[-1] = within.any(axis=0)
        for start, traces in cube.blocks(block_size(cube)):
            epochs, users = traces.cells % cube.n_epochs, slice(start, start + traces.n_held)
            for i, inside in enumerate(within):
                until = np.concatenate([[0], np.cumsum(inside[epochs])])
                total[i, users] = np.diff(until[traces.offsets])
    total.setflags(write=False)
    return total


def count_by_day(traces: Traces, days: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the events of each user on each day, int64, shape (user × day,), by user.

    Days without events after the last one with events, of the last user, may be left out. ``days``
    are the numbers of the days of the epochs, which increase, shape (epoch,).
    """
    days = days - days[0]
    user = np.repeat(np.arange(traces.n_held), np.diff(traces.offsets))
    return np.bincount(user * (days[-1] + 1) + days[traces.cells % traces.n_epochs])


def activity(traces: Traces) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each user's number of distinct ROIs and of active epochs, int64, shape (user,)."""
    user = np.repeat(np.arange(traces.n_held), np.diff(traces.offsets))
    place = user * traces.n_rois + traces.cells // traces.n_epochs
    entered = np.diff(place, prepend=-1) > 0  # cells are sorted: visits to a ROI are contiguous
    n_rois = np.bincount(user[entered], minlength=traces.n_held)
    return n_rois, traces.n_epochs - with_null_roi(traces).idle_epochs.sum(axis=1)


def _mean_sd(values: NDArray[Any]) -> tuple[float, float]:
    return (float(values.mean()), float(values.std())) if len(values) else (0.0, 0.0)
