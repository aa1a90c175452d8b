"""Convert dense cubes to event cubes.

A dense cube is a Zarr group that xarray can open, with a variable of the dimensions ``user``,
``roi`` and ``epoch`` in any order. Its values are booleans or numbers of visits: 0 is not observed,
any larger integer is observed; other values are refused. These coordinates are used if present,
else filled in:

=============== ======================================= ========================================
coordinate      meaning                                 if absent
=============== ======================================= ========================================
user            pseudonyms, all different               ``0``, ``1``, …
weight          people for whom each user counts,       every user counts as one
                positive, on dimension user
roi             names of regions                        ``0``, ``1``, …
roi_lat roi_lon degrees, on dimension roi, both or none NaN
epoch           datetime64 in UTC, evenly spaced        hours from 1970-01-01T00:00 UTC
=============== ======================================= ========================================
"""

import posixpath
from collections.abc import Collection, Iterator
from math import prod
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from clusterscale import errors, storage
from clusterscale.contracts import Ints, Weights
from clusterscale.cube import arrays
from clusterscale.cube.calendar import Calendar, Step
from clusterscale.cube.regions import Regions
from clusterscale.cube.store import TraceCube
from clusterscale.cube.writer import new_cube
from clusterscale.storage.groups import errors_as, open_with_xarray

_DIMS = ("user", "roi", "epoch")
_TILE = 1 << 22  # cells decoded at once, unless one chunk is larger
_HOUR = 3600


def pack(
    source: str | Path | xr.DataArray | xr.Dataset,
    uri: str | Path,
    *,
    timezone: str = "UTC",
    public: Collection[str] = (),
    force: bool = False,
) -> TraceCube:
    """Write the dense cube ``source`` as an event cube at ``uri``, and return that.

    The source, a Zarr store or an xarray object (see the table above), is read in tiles of
    whole chunks, about four million cells each; in addition to a tile, memory holds the events
    of the users of one row of chunks. ``timezone`` is that of the cube; the times of ``source``
    are UTC in any case, as datetime64 is. ``public`` says what of ``source`` depends on no
    record: ``places``, ``calendar``, or both. A release with a guarantee needs a public
    calendar, and places that are public or listed.

    Raises MissingError if nothing is stored at ``source``; FormatError if it is not a dense
    cube: no such variable or several, epochs not evenly spaced, or a value that is neither
    boolean nor a count; DamagedError if a chunk of it cannot be read; InputError if the time
    zone is unknown, source and target are the same store, or a weight is not a positive number;
    and ExistsError if something is stored at ``uri`` and ``force`` is not set.
    """
    name = "xarray"
    if isinstance(source, (str, Path)):
        storage.check_outputs([uri], [source])
        name = posixpath.basename(str(source).rstrip("/"))
        source = _open(str(source))
    trace, dataset = _find(source)
    provenance = {"source": "dense", "store": name, "variable": str(trace.name)}
    users = _names(dataset, "user", trace.sizes["user"])
    calendar = _calendar(dataset, trace.sizes["epoch"], timezone)
    regions = _regions(dataset, trace)
    with new_cube(
        uri, regions, calendar, provenance=provenance, public=public, force=force
    ) as writer:
        for first, sizes, cells in _blocks(trace):
            writer.append(users[first : first + len(sizes)], sizes, cells)
        if (weights := _weights(dataset)) is not None:
            writer.weigh(weights)
    return TraceCube(uri)


def _open(uri: str) -> xr.Dataset:
    if not storage.exists(uri):
        raise errors.MissingError(f"{uri}: nothing is stored there")
    what = f"{uri} is not a Zarr store that xarray can open"
    with errors_as(errors.FormatError, what, detailed=True):
        group = storage.open_group(uri)
        arrays.refuse_pickles(group, where=uri)
        return open_with_xarray(group, cache=False, mask_and_scale=False)


def _find(source: xr.DataArray | xr.Dataset) -> tuple[xr.DataArray, xr.Dataset]:
    """Return the dense variable, and the dataset with its coordinates."""
    if isinstance(source, xr.DataArray):
        source = source.to_dataset(name=source.name or "trace", promote_attrs=True)
    dense = [str(name) for name, array in source.data_vars.items() if {*array.dims} == {*_DIMS}]
    if len(dense) > 1 and "trace" in dense:
        dense = ["trace"]
    if len(dense) != 1:
        has = ", ".join(f"{name} {array.dims}" for name, array in source.data_vars.items())
        raise errors.FormatError(
            "a dense cube has one variable with the dimensions user, roi and epoch, or one called "
            f"trace among several; this has {has or 'no variable'}"
        )
    trace = source[dense[0]]
    if trace.dtype.kind not in "biuf":
        raise errors.FormatError(f"{dense[0]} is {trace.dtype}: it must be booleans or counts")
    if {"scale_factor", "add_offset"} & {*trace.attrs}:
        raise errors.FormatError(f"{dense[0]} is stored scaled: it must be booleans or counts")
    return trace, source


def _names(source: xr.Dataset, dim: str, size: int) -> list[str]:
    if dim not in source.coords:
        return [str(i) for i in range(size)]
    values = source[dim].values
    names = [value.decode() if isinstance(value, bytes) else str(value) for value in values]
    if len(set(names)) < len(names):
        raise errors.FormatError(f"two entries of the coordinate {dim} are the same")
    return names


def _weights(source: xr.Dataset) -> Weights | None:
    if "weight" not in source.variables:
        return None
    weights = source["weight"]
    if weights.dims != ("user",) or weights.dtype.kind not in "iuf":
        raise errors.FormatError("weight must be one number per user")
    return np.asarray(weights.values, np.float64)


def _regions(source: xr.Dataset, trace: xr.DataArray) -> Regions:
    size = trace.sizes["roi"]
    positions = []
    for name in ("roi_lat", "roi_lon"):
        if name not in source.variables:
            continue
        if source[name].dims != ("roi",) or source[name].dtype.kind not in "iuf":
            raise errors.FormatError(f"{name} must be one number per roi")
        positions.append(source[name].values.astype(np.float64))
    if len(positions) == 1:
        raise errors.FormatError("roi_lat and roi_lon go together: one of them is absent")
    lat, lon = positions or (np.full(size, np.nan), np.full(size, np.nan))
    return Regions(tuple(_names(source, "roi", size)), lat, lon)


def _calendar(source: xr.Dataset, n_epochs: int, timezone: str) -> Calendar:
    times = source.coords.get("epoch", xr.DataArray(np.arange(n_epochs))).values
    if times.dtype.kind in "iu" and (times == np.arange(len(times))).all():
        return Calendar(0, _HOUR, n_epochs, timezone)
    if times.dtype.kind != "M":
        raise errors.FormatError(f"the coordinate epoch is {times.dtype}, not datetime64")
    if np.isnat(times).any():
        raise errors.FormatError("the coordinate epoch contains an invalid time (NaT)")
    begins = times.astype("datetime64[ns]").astype(np.int64)
    steps = np.diff(begins)
    uneven = "the coordinate epoch is not evenly spaced, or it does not increase"
    if (steps <= 0).any():
        raise errors.FormatError(uneven)
    if (begins % 10**9).any():
        raise errors.FormatError("the coordinate epoch is not in whole seconds")
    seconds = begins // 10**9
    if not len(steps):
        length = Step(int(source.attrs.get("epoch_seconds", _HOUR)))
    else:
        length = Step.between(seconds, timezone)
    calendar = Calendar(int(seconds[0]), length.seconds, n_epochs, timezone, length.unit)
    if (calendar.seconds() != seconds).any():
        raise errors.FormatError(uneven)
    return calendar


def _blocks(trace: xr.DataArray) -> Iterator[tuple[int, Ints, Ints]]:
    """Yield (first user, sizes, cells) for each block of users."""
    n_users, n_rois, n_epochs = (trace.sizes[dim] for dim in _DIMS)
    user_step, roi_step, epoch_step = _tile(trace)
    for first in range(0, n_users, user_step):
        block = trace.isel(user=slice(first, first + user_step))
        n_block = block.sizes["user"]
        keys = [np.empty(0, np.int64)]
        for roi in range(0, n_rois, roi_step):
            for epoch in range(0, n_epochs, epoch_step):
                tile = block.isel(
                    roi=slice(roi, roi + roi_step), epoch=slice(epoch, epoch + epoch_step)
                )
                user, *cell = np.nonzero(_observed(tile))
                flat = (roi + cell[0]) * n_epochs + epoch + cell[1]
                keys.append(user * (n_rois * n_epochs) + flat)
        users, cells = np.divmod(np.sort(np.concatenate(keys)), n_rois * n_epochs)
        yield first, np.bincount(users, minlength=n_block), cells


def _tile(trace: xr.DataArray) -> tuple[int, ...]:
    """Return how many users, regions and epochs to read at once: whole chunks, last axis first."""
    stored = trace.encoding.get("preferred_chunks", {})
    tile = [max(1, int(np.max(trace.chunksizes.get(dim, stored.get(dim, 1))))) for dim in _DIMS]
    for axis in (2, 1, 0):
        n_chunks = max(1, _TILE // prod(tile))
        tile[axis] = min(trace.sizes[_DIMS[axis]], tile[axis] * n_chunks)
    return tuple(max(1, size) for size in tile)


def _observed(tile: xr.DataArray) -> NDArray[np.bool_]:
    with errors_as(errors.DamagedError, f"{tile.name} cannot be read", detailed=True):
        values = np.transpose(tile.values, [tile.dims.index(dim) for dim in _DIMS])
    if values.dtype.kind == "f":
        invalid = ~np.isfinite(values) | (values != np.floor(values)) | (values < 0)
    else:
        invalid = values < 0 if values.dtype.kind == "i" else np.zeros(1, np.bool_)
    if invalid.any():
        raise errors.FormatError(
            f"{tile.name} contains {values[invalid][0]}: it must be booleans or counts, "
            "0 = not observed"
        )
    return np.asarray(values > 0)
