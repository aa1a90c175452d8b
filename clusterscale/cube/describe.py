"""What a cube says of itself in its attributes, in words: nothing else is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterscale.cube.store import TraceCube

__all__ = ["describe_origins", "describe_sizes"]


def describe_sizes(cube: TraceCube) -> dict[str, str]:
    """Return how many users, ROIs, epochs and events there are, and when."""
    return {
        "users": f"{cube.n_users:,}",
        "ROIs": f"{cube.n_rois:,}",
        "epochs": f"{cube.n_epochs:,}  ({cube.calendar.describe()})",
        "events": f"{cube.n_events:,}",
    }


def describe_origins(cube: TraceCube) -> dict[str, str]:
    """Return the fingerprint, and what is known of where the records came from."""
    known = {"fingerprint": cube.fingerprint}
    for key, value in cube.attributes["provenance"].items():
        if text := _plain(value):
            known[key.replace("_", " ")] = text
    return known


def _plain(value: Any) -> str:
    """Return a value of the provenance as a person would write it; nothing for nothing."""
    if isinstance(value, dict):
        known = {key: text for key, each in value.items() if (text := _plain(each))}
        return ", ".join(f"{key.replace('_', ' ')} {text}" for key, text in known.items())
    if isinstance(value, list):
        return " ".join(_plain(each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}" if value else ""
    return "" if value is None else str(value)
