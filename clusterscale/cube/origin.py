"""Where results come from, for whoever has to repeat them."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from clusterscale.cube.store import TraceCube

__all__ = ["tell_origin"]

_PACKAGES = ["bokeh", "clusterscale", "dp-accounting", "numba", "numpy"]
_PACKAGES += ["scikit-learn", "scipy", "xarray", "zarr"]


def tell_origin(cube: TraceCube, *, null_roi: bool) -> dict[str, str]:
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


def _source(provenance: dict[str, Any]) -> str:
    preset = provenance.get("preset")
    return f"synthetic {preset}" if preset else str(provenance.get("source", "unknown"))
