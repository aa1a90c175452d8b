"""The values of a release as they were published, from Zarr or NetCDF."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from clusterscale import storage
from clusterscale.contracts import Values
from clusterscale.cube import arrays
from clusterscale.errors import (
    ConfigError,
    DamagedError,
    FormatError,
    InputError,
    MissingError,
    StoreError,
)
from clusterscale.reaudit.entry import PLACES, ReleaseMetadata
from clusterscale.validation_messages import explain

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENDINGS", "PublishedTotals", "RawRelease", "read_values"]

ENDINGS = (".zarr", ".nc", ".nc4", ".netcdf")
"""Of what is taken for a release in a folder."""

_DIMS = ("roi", "epoch")
_TOTALS = {"roi_total": ("roi",), "epoch_total": ("epoch",)}


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTotals:
    """Sums that were published beside the values; None where they were not.

    ``roi``, shape (roi,), over all epochs; ``epoch``, shape (epoch,), over all ROIs; float64, not a
    number where redacted.
    """

    roi: Values | None = None
    epoch: Values | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RawRelease:
    """What a store holds.

    Attributes
    ----------
    values
        float64, shape (roi, epoch), not a number where redacted.
    rois
        Names of the ROIs, None where there are none.
    epochs
        Coordinate of the epochs: numbers of the cube's epochs or datetime64 in UTC; None if none.
    totals
        Published beside them.
    described
        What the attributes of the store say of the release.
    places
        Attributes that say where something else is, by name, as text: never to be opened.
    """

    values: Values
    rois: tuple[str, ...] | None
    epochs: NDArray[Any] | None
    totals: PublishedTotals
    described: ReleaseMetadata
    places: Mapping[str, str] = field(default_factory=dict)


def read_values(uri: str, variable: str | None = None) -> RawRelease:
    """Read a release.

    Parameters
    ----------
    uri
        A Zarr group (v2 or v3) or a NetCDF file, a local path or fsspec URL.
    variable
        Which one; the only one of dimensions roi and epoch where None.

    Raises
    ------
    MissingError
        If nothing is there.
    FormatError
        If it is neither, has no such variable or several, or values that are no numbers, or parts
        of it are kept in other files.
    ConfigError
        If an attribute that describes a release is not what it should be.
    DamagedError, StoreError
        If it cannot be read.
    """
    if not storage.exists(uri):
        raise MissingError(f"{uri}: there is no release")
    try:
        with _open(uri) as dataset:
            name = _find(dataset, variable, uri)
            array = dataset[name].load().transpose(*_DIMS)  # not every backend turns lazily
            values = _numbers(array.values, f"{uri}: {name}")
            totals = PublishedTotals(*(_total(dataset, each, uri) for each in _TOTALS))
            rois, epochs = (_coordinate(array, dim) for dim in _DIMS)
            attributes = {**dataset.attrs, **array.attrs}
            described = _describe(attributes, uri)
            places = {key: str(attributes[key]) for key in PLACES if key in attributes}
    except (MemoryError, FormatError, InputError, StoreError):
        raise
    except Exception as error:
        raise DamagedError(f"{uri}: this release cannot be read: {error}") from error
    return RawRelease(values, _names(rois), epochs, totals, described, places)


def _open(uri: str) -> xr.Dataset:
    import xarray as xr

    try:
        if uri.rstrip("/").endswith(ENDINGS[1:]):
            content = io.BytesIO(storage.read(uri))
            engine = "h5netcdf" if content.getvalue()[:4] == b"\x89HDF" else "scipy"
            if engine == "h5netcdf":
                _refuse_other_files(content, uri)
            return xr.open_dataset(content, engine=engine)
        group = storage.open_group(uri)
        arrays.refuse_pickles(group, where=uri)
        found: xr.Dataset = xr.open_zarr(  # by the same metadata that was just looked at
            storage.open_store(uri),
            zarr_format=group.metadata.zarr_format,
            consolidated=group.metadata.consolidated_metadata is not None,
            chunks=None,
        )
        return found
    except (MemoryError, FormatError, StoreError):
        raise
    except Exception as error:
        raise FormatError(f"{uri} is neither a Zarr group nor a NetCDF file: {error}") from error


def _refuse_other_files(content: io.BytesIO, uri: str) -> None:
    """Refuse HDF5 links and datasets that would make the library open files that they name."""
    import h5py

    found: list[str] = []

    def check_link(name: str, link: object) -> None:
        if isinstance(link, h5py.ExternalLink):
            found.append(name)

    def check_object(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and (item.is_virtual or item.external):
            found.append(name)

    with h5py.File(content, "r") as file:
        file.visititems_links(check_link)
        file.visititems(check_object)
    if found:
        raise FormatError(f"{uri}: {found[0]} is kept in another file, which is not opened")


def _find(dataset: xr.Dataset, variable: str | None, uri: str) -> str:
    fitting = [str(name) for name, each in dataset.data_vars.items() if {*each.dims} == {*_DIMS}]
    fitting.sort()
    if variable is not None:
        if variable not in fitting:
            raise FormatError(
                f"{uri} has no variable {variable!r} of dimensions roi and epoch; "
                f"those it has: {', '.join(fitting) or 'none'}"
            )
        return variable
    if len(fitting) != 1:
        raise FormatError(
            f"{uri} has {len(fitting) or 'no'} variables of dimensions roi and epoch"
            + (f" ({', '.join(fitting)}): say which by variable" if fitting else "")
        )
    return fitting[0]


def _numbers(values: NDArray[Any], what: str) -> Values:
    if values.dtype.kind not in "iufb":
        raise FormatError(f"{what} has values of type {values.dtype}, which are no numbers")
    found = np.ascontiguousarray(values, np.float64)
    if np.isinf(found).any():
        raise FormatError(f"{what} has infinite values; what is redacted is not a number")
    return found


def _total(dataset: xr.Dataset, name: str, uri: str) -> Values | None:
    if name not in dataset.data_vars:
        return None
    if dataset[name].dims != _TOTALS[name]:
        raise FormatError(f"{uri}: {name} has dimensions {dataset[name].dims}, not {_TOTALS[name]}")
    return _numbers(dataset[name].values, f"{uri}: {name}")


def _coordinate(array: xr.DataArray, dim: str) -> NDArray[Any] | None:
    return array[dim].values if dim in array.coords else None


def _names(rois: NDArray[Any] | None) -> tuple[str, ...] | None:
    """Return the names of ROIs, also where they are bytes; None where they are no text."""
    if rois is None or rois.dtype.kind not in "OSUT":
        return None
    told = (each.decode(errors="replace") if isinstance(each, bytes) else each for each in rois)
    return tuple(map(str, told))


def _describe(attributes: Mapping[str, Any], uri: str) -> ReleaseMetadata:
    known = {
        name: _plain(attributes[name])
        for name in ReleaseMetadata.model_fields
        if name in attributes
    }
    # NetCDF has no flags but numbers, and a list of one is a number there.
    if isinstance(known.get("null_roi"), int) and known["null_roi"] in (0, 1):
        known["null_roi"] = bool(known["null_roi"])
    if isinstance(known.get("observed"), int):
        known["observed"] = (known["observed"],)
    try:
        return ReleaseMetadata.model_validate(known)
    except ValidationError as error:
        lines = explain(error, ReleaseMetadata).splitlines()
        raise ConfigError("\n".join(f"{uri}: attribute {line}" for line in lines)) from None


def _plain(value: Any) -> Any:
    """Return an attribute as Python has it; text may be JSON, for NetCDF has no mappings."""
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return tuple(value) if isinstance(value, list) else value
