"""Hashes that identify a cube and detect damage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from clusterscale.contracts import Ints
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Regions

__all__ = ["Fingerprint", "digest"]


class Fingerprint:
    """Hash of a cube's content, computed block by block; the block size does not matter."""

    def __init__(self) -> None:
        self._hash = {name: blake2b(digest_size=16) for name in ("user", "size", "cell")}

    def update(self, users: Sequence[str], sizes: Ints, cells: Ints) -> None:
        """Add the next users: pseudonyms, events per user, and their concatenated flat cells."""
        self._hash["user"].update("".join(f"{len(u.encode())}:{u}" for u in users).encode())
        self._hash["size"].update(sizes.astype("<i8", copy=False).tobytes())
        self._hash["cell"].update(cells.astype("<i8", copy=False).tobytes())

    def result(self, regions: Regions, calendar: Calendar) -> str:
        """Return the hash of all users added, with these regions and times."""
        total = blake2b(digest_size=16)
        for name in sorted(self._hash):
            total.update(self._hash[name].digest())
        total.update(_canonical(calendar.attributes()))
        total.update(_canonical(list(regions.names)))
        total.update(regions.lat.astype("<f8").tobytes())
        total.update(regions.lon.astype("<f8").tobytes())
        return total.hexdigest()


def digest(attributes: dict[str, Any]) -> str:
    """Return the seal of a cube's attributes: a hash of their canonical JSON."""
    return blake2b(_canonical(attributes), digest_size=16).hexdigest()


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
