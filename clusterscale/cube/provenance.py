"""Where results come from, for whoever has to repeat them."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import h3
import numpy as np
from numpy.typing import NDArray

from clusterscale.cube.store import TraceCube

__all__ = ["describe_origin", "describe_shapes"]

_PACKAGES = ["bokeh", "clusterscale", "dp-accounting", "numba", "numpy"]
_PACKAGES += ["scikit-learn", "scipy", "xarray", "zarr"]


def describe_origin(cube: TraceCube, *, null_roi: bool) -> dict[str, str]:
    """Return attributes of a dataset: what cube it is made of, and with which software.

    ``cube_fingerprint``, and as JSON ``cube`` (sizes, times, source) and ``versions``.
    """
    size = {name: getattr(cube, name) for name in ("n_users", "n_rois", "n_epochs", "n_events")}
    about = {
        **size,
        "null_roi": null_roi,
        "when": cube.calendar.describe(),
        "source": _source(cube.attributes["provenance"]),
    }
    return {
        "cube_fingerprint": cube.fingerprint,
        "cube": json.dumps(about, sort_keys=True),
        "versions": json.dumps({name: version(name) for name in _PACKAGES}, sort_keys=True),
    }


def describe_shapes(cube: TraceCube) -> dict[str, Any]:
    """Return what shape the ROIs have, as plain values, for whoever draws a map.

    ``{"kind": "grid", "width": …, "height": …}`` in degrees, around their centres; ``{"kind":
    "h3"}``: they are named by their H3 cell; or ``{"kind": "points"}``. A cube that does not say
    how its ROIs were made has a grid if they fill one, two cells wide and high or more.
    """
    made = cube.attributes["provenance"].get("regions", {})
    if made.get("kind") == "grid":
        (south, west, north, east), (n_lat, n_lon) = made["box"], made["shape"]
        return {"kind": "grid", "width": (east - west) / n_lon, "height": (north - south) / n_lat}
    regions = cube.regions
    if made.get("kind") == "h3" or all(map(h3.is_valid_cell, regions.names)):
        return {"kind": "h3"}
    if "kind" not in made and (spacing := _spacing(regions.lat, regions.lon)):
        return {"kind": "grid", "width": spacing[1], "height": spacing[0]}
    return {"kind": "points"}


def _spacing(*axes: NDArray[np.float64]) -> tuple[float, ...] | None:
    """Return the steps of the grid that positions fill, one of each axis; None if they do not."""
    ticks = [np.unique(np.round(axis, 9)) for axis in axes]
    if min(map(len, ticks)) < 2 or np.prod([len(each) for each in ticks]) != len(axes[0]):
        return None
    steps = [np.diff(each) for each in ticks]
    even = all(np.allclose(each, each[0], rtol=1e-4) for each in steps)
    full = len(set(zip(*(np.round(axis, 9).tolist() for axis in axes), strict=True))) == len(
        axes[0]
    )
    return tuple(float(each.mean()) for each in steps) if even and full else None


def _source(provenance: dict[str, Any]) -> str:
    preset = provenance.get("preset")
    return f"synthetic {preset}" if preset else str(provenance.get("source", "unknown"))
