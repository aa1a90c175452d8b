"""Describe a cube in words, from its attributes only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterscale.cube.store import TraceCube

__all__ = ["describe_origins", "describe_sizes"]


def describe_sizes(cube: TraceCube) -> dict[str, str]:
    """Return the numbers of users, ROIs, epochs and events, and the time span."""
    return {
        "users": f"{cube.n_users:,}",
        "ROIs": f"{cube.n_rois:,}",
        "epochs": f"{cube.n_epochs:,}  ({cube.calendar.describe()})",
        "events": f"{cube.n_events:,}",
    }


def describe_origins(cube: TraceCube) -> dict[str, str]:
    """Return the fingerprint and the provenance of the records."""
    origins = {"fingerprint": cube.fingerprint}
    for key, value in cube.attributes["provenance"].items():
        if text := _plain(value):
            origins[key.replace("_", " ")] = text
    return origins


def _plain(value: Any) -> str:
    """Return a provenance value as readable text; empty for an absent, false or zero value."""
    if isinstance(value, dict):
        texts = {key: text for key, part in value.items() if (text := _plain(part))}
        return ", ".join(f"{key.replace('_', ' ')} {text}" for key, text in texts.items())
    if isinstance(value, list):
        return " ".join(_plain(part) for part in value)
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}" if value else ""
    return "" if value is None else str(value)
