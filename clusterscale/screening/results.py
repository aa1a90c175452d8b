"""The results of a screen at rest: one row a user."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from numpy.typing import NDArray

from clusterscale.cube import TraceCube, storage
from clusterscale.cube.staging import staged
from clusterscale.errors import ExistsError, FormatError, MissingError
from clusterscale.schema import SCREEN, SCREEN_FORMAT, validate
from clusterscale.screening.budget import part_size
from clusterscale.screening.plan import Screen
from clusterscale.screening.scoring import CONFIDENCE, STATISTICS, Scored

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ScreenStore", "open_screen"]

Place = tuple[int, int]  # of period and group size

_DTYPES: dict[str, Any] = {"f": np.float32, "iu": np.int64, "OUT": str}


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
        self._claim(screen, cube, force=force)
        place = f"{self.uri}/results.zarr"
        if not (storage.exists(f"{place}/zarr.json") and _is_screen(place)):
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

    def _claim(self, screen: Screen, cube: TraceCube, *, force: bool) -> None:
        identity = {
            "screen": screen.describe(),
            "cube_fingerprint": cube.fingerprint,
            "version": version("clusterscale"),
        }
        text, path = json.dumps(identity, indent=2, sort_keys=True), f"{self.uri}/screen.json"
        names = storage.list_names(self.uri)
        if "screen.json" in names and storage.read(path).decode() == text:
            return
        if names:
            if not force:
                raise ExistsError(
                    f"{self.uri} holds another screen, or one of another cube or version: choose "
                    "another output, or overwrite it with force"
                )
            storage.remove(self.uri)
        storage.put(path, text.encode())


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
    uri = str(uri).rstrip("/")
    places = (f"{uri}/screen/results.zarr", f"{uri}/results.zarr", uri)
    place = next(
        (each for each in places if storage.exists(f"{each}/zarr.json") and _is_screen(each)), None
    )
    if place is None:
        raise MissingError(f"{uri}: there are no results of a screen")
    dataset = storage.open_dataset(place)
    if not dataset.attrs.get("complete"):
        raise MissingError(f"{place}: this screen has not finished; run it again to go on with it")
    return validate(dataset, SCREEN)


def _is_screen(uri: str) -> bool:
    try:
        return bool(storage.open_group(uri).attrs.get("format") == SCREEN_FORMAT)
    except FormatError:
        return False


def _create(uri: str, screen: Screen, cube: TraceCube) -> None:
    group = storage.create_group(uri)
    labels: dict[str, list[str] | list[int]] = {
        "period": [name for name, _ in screen.periods],
        "group_size": list(screen.group_sizes),
        "mechanism": [mechanism.label for mechanism in screen.mechanisms],
        "attack": [attack.label for attack in screen.plan.attacks],
    }
    sizes = {"user": cube.n_users, **{name: len(values) for name, values in labels.items()}}
    part = min(part_size(cube, screen.mechanisms), cube.n_users)
    for name, variable in SCREEN.items():
        shape = tuple(sizes[dim] for dim in variable.dims)
        chunks = tuple({"user": part, "attack": sizes["attack"]}.get(d, 1) for d in variable.dims)
        array: zarr.Array[Any] = group.create_array(
            name,
            shape=shape,
            chunks=chunks if "user" in variable.dims else shape,
            dtype=_DTYPES[variable.kinds],
            fill_value=np.nan if variable.kinds == "f" else None,
            dimension_names=variable.dims,
            attributes={
                "long_name": variable.long_name,
                **({"units": variable.units} if variable.units else {}),
            },
        )
        if name in labels:
            array[:] = np.array(labels[name], dtype=array.dtype)
    known: dict[str, NDArray[np.int64]] = {
        "user": np.arange(cube.n_users),
        "n_events": np.diff(cube.offsets),
    }
    for name, values in known.items():
        column: Any = group[name]
        column[:] = values
    group.attrs.put(
        {
            "format": SCREEN_FORMAT,
            "complete": False,
            "screen": json.dumps(screen.describe()),
            "cube_fingerprint": cube.fingerprint,
            "confidence": CONFIDENCE,
            "version": version("clusterscale"),
        }
    )
