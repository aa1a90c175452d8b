"""Describe a cube from its attributes only, for results and maps."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import h3
import numpy as np
from numpy.typing import NDArray

from clusterscale.cube.coded_cells import geohash_degrees

if TYPE_CHECKING:
    from clusterscale.cube.store import TraceCube


def raw_bytes(cube: TraceCube) -> int:
    """Return the bytes of all users' events in memory."""
    return cube.n_events * cube.cell_bytes + (cube.n_users + 1) * 8


_PACKAGES = ["bokeh", "clusterscale", "dp-accounting", "numba", "numpy"]
_PACKAGES += ["scikit-learn", "scipy", "xarray", "zarr"]


def describe_origin(cube: TraceCube, *, null_roi: bool) -> dict[str, str]:
    """Return dataset attributes that describe the cube and the software versions.

    ``cube_fingerprint``, and as JSON ``cube`` (sizes, times, source) and ``versions``.
    """
    size = {name: getattr(cube, name) for name in ("n_users", "n_rois", "n_epochs", "n_events")}
    about = {
        **size,
        "null_roi": null_roi,
        "when": cube.calendar.describe(),
        "source": _source(cube.attributes["provenance"]),
    }
    if cube.n_known < cube.n_users:
        about["n_known"] = cube.n_known
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
    if origin.get("kind") == "h3" or all(map(h3.is_valid_cell, regions.names)):
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
    full = len(set(zip(*(np.round(axis, 9).tolist() for axis in axes), strict=True))) == len(
        axes[0]
    )
    return tuple(float(step.mean()) for step in steps) if even and full else None


def _source(provenance: dict[str, Any]) -> str:
    preset = provenance.get("preset")
    return f"synthetic {preset}" if preset else str(provenance.get("source", "unknown"))
