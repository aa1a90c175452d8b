"""The results of a screen at rest: one row a user."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from clusterscale.cube import TraceCube, storage
from clusterscale.cube.claim import claim
from clusterscale.cube.staging import staged
from clusterscale.cube.table import create_table, is_table, open_table
from clusterscale.schema import SCREEN, SCREEN_FORMAT
from clusterscale.screening.budget import part_size
from clusterscale.screening.plan import Screen
from clusterscale.screening.scoring import CONFIDENCE, STATISTICS, Scored

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ScreenStore", "open_screen"]

Place = tuple[int, int]  # of period and group size


class ScreenStore:
    """A screen that is being written, below ``uri``; made, or gone on with.

    ``screen.json`` says which screen it is, ``results.zarr`` holds the rows, ``done/`` an empty
    file for each block and mechanism that is there in full, ``groups-….zarr`` what was counted.

    Raises
    ------
    ExistsError
        If another screen is there and ``force`` is not set.
    """

    def __init__(self, uri: str, screen: Screen, cube: TraceCube, *, force: bool) -> None:
        self.uri = uri.rstrip("/")
        identity = {
            "screen": screen.describe(),
            "cube_fingerprint": cube.fingerprint,
            "version": version("clusterscale"),
        }
        claim(self.uri, "screen", identity, force=force)
        place = f"{self.uri}/results.zarr"
        if not is_table(place, SCREEN_FORMAT):
            with staged(place, force=True) as staging:
                _create(staging, screen, cube)
        # A block is said to be done only when its rows are sure to be there.
        self._group = zarr.open_group(storage.open_store(place, "r+", durable=True), mode="r+")

    def groups(self, index: int) -> str:
        """Return where the counted groups of a setting are kept."""
        return f"{self.uri}/groups-{index}.zarr"

    def done(self) -> set[str]:
        """Return the names of all that is there in full."""
        return set(storage.list_names(f"{self.uri}/done"))

    def add(
        self, scored: Scored, start: int, place: Place, mechanisms: Sequence[int], names: list[str]
    ) -> None:
        """Keep what was found of a block; only then say so, under ``names``."""
        period, size = place
        users = slice(start, start + len(scored.n_groups))
        self._array("n_groups")[users, period, size] = scored.n_groups
        for i, mechanism in enumerate(mechanisms):
            found = dict(zip(STATISTICS, scored.numbers[:, :, i], strict=True))
            found["privacy_loss"] = np.maximum(2 * found["auc"] - 1, 0)
            for name, values in found.items():
                self._array(name)[users, period, size, mechanism] = values
        for name in names:
            storage.put(f"{self.uri}/done/{name}", b"")

    def finish(self) -> None:
        """Say that all is there, and remove what only unfinished screens need."""
        self._group.attrs["complete"] = True
        for name in storage.list_names(self.uri):
            if name.startswith("groups-"):
                storage.remove(f"{self.uri}/{name}")

    def _array(self, name: str) -> zarr.Array[Any]:
        array = self._group[name]
        assert isinstance(array, zarr.Array)
        return array


def open_screen(uri: str | Path) -> xr.Dataset:
    """Open the results of a finished screen, lazily: rows are read when they are asked for.

    Parameters
    ----------
    uri
        Folder of the run, of its screen, or the store itself.

    Raises
    ------
    MissingError
        If there is none, or it has not finished.
    FormatError
        If what is there are not the results of a screen.
    """
    return open_table(uri, "screen", SCREEN_FORMAT, SCREEN)


def _create(uri: str, screen: Screen, cube: TraceCube) -> None:
    columns: dict[str, Sequence[Any]] = {
        "period": [name for name, _ in screen.periods],
        "group_size": screen.group_sizes,
        "mechanism": [mechanism.label for mechanism in screen.mechanisms],
        "attack": [attack.label for attack in screen.plan.attacks],
        "user": range(cube.n_users),
        "n_events": np.diff(cube.offsets),  # type: ignore[dict-item]
    }
    create_table(
        uri,
        SCREEN,
        columns,
        {"user": part_size(cube, screen.mechanisms), "attack": len(screen.plan.attacks)},
        {
            "format": SCREEN_FORMAT,
            "complete": False,
            "screen": json.dumps(screen.describe()),
            "cube_fingerprint": cube.fingerprint,
            "confidence": CONFIDENCE,
            "version": version("clusterscale"),
        },
    )
