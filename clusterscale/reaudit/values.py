"""Read the published values of a release from Zarr or NetCDF."""

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
from clusterscale.reaudit.entry import URI_FIELDS, ReleaseMetadata
from clusterscale.validation_messages import explain

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["ENDINGS", "PublishedTotals", "RawRelease", "read_values"]

ENDINGS = (".zarr", ".nc", ".nc4", ".netcdf")
"""Endings of the names of releases in a folder."""

_DIMS = ("roi", "epoch")
_TOTALS = {"roi_total": ("roi",), "epoch_total": ("epoch",)}


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTotals:
    """Totals that were published with the values, else None.

    ``roi``, shape (roi,), over all epochs; ``epoch``, shape (epoch,), over all ROIs; float64, NaN
    where redacted.
    """

    roi: Values | None = None
    epoch: Values | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RawRelease:
    """Content of the store of a release.

    Attributes
    ----------
    values
        float64, shape (roi, epoch), NaN where redacted.
    rois
        Names of the ROIs, None if there are none.
    epochs
        Coordinate of the epochs: numbers of the cube's epochs or datetime64 in UTC; None if none.
    totals
        Totals that were published with the values.
    metadata
        Metadata from the attributes of the store.
    uris
        URIs in attributes, by name of the attribute; they are never opened.
    """

    values: Values
    rois: tuple[str, ...] | None
    epochs: NDArray[Any] | None
    totals: PublishedTotals
    metadata: ReleaseMetadata
    uris: Mapping[str, str] = field(default_factory=dict)


def read_values(uri: str, variable: str | None = None) -> RawRelease:
    """Read a release.

    Parameters
    ----------
    uri
        A Zarr group (v2 or v3) or a NetCDF file, a local path or fsspec URL.
    variable
        Name of the variable; by default the only one of dimensions roi and epoch.

    Raises
    ------
    MissingError
        If there is no release.
    FormatError
        If it is neither, has no such variable or several, has values that are not numeric, or
        parts of it are stored in other files.
    ConfigError
        If an attribute with metadata is invalid.
    DamagedError, StoreError
        If it cannot be read.
    """
    if not storage.exists(uri):
        raise MissingError(f"{uri}: there is no release")
    try:
        with _open(uri) as dataset:
            name = _find(dataset, variable, uri)
            array = dataset[name].load().transpose(*_DIMS)  # not every backend transposes lazily
            values = _numbers(array.values, f"{uri}: {name}")
            totals = PublishedTotals(*(_total(dataset, total, uri) for total in _TOTALS))
            rois, epochs = (_coordinate(array, dim) for dim in _DIMS)
            attributes = {**dataset.attrs, **array.attrs}
            metadata = _read_metadata(attributes, uri)
            uris = {key: str(attributes[key]) for key in URI_FIELDS if key in attributes}
    except (MemoryError, FormatError, InputError, StoreError):
        raise
    except Exception as error:
        raise DamagedError(f"{uri}: this release cannot be read: {error}") from error
    return RawRelease(values, _names(rois), epochs, totals, metadata, uris)


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
        dataset: xr.Dataset = xr.open_zarr(  # with the metadata that was just checked
            storage.open_store(uri),
            zarr_format=group.metadata.zarr_format,
            consolidated=group.metadata.consolidated_metadata is not None,
            chunks=None,
        )
        return dataset
    except (MemoryError, FormatError, InputError, StoreError):
        raise
    except Exception as error:  # the libraries' messages advise to install others
        raise FormatError(f"{uri} is not a readable NetCDF file, or Zarr group") from error


def _refuse_other_files(content: io.BytesIO, uri: str) -> None:
    """Refuse HDF5 links and datasets that would make the library open other files."""
    import h5py

    external: list[str] = []

    def check_link(name: str, link: object) -> None:
        if isinstance(link, h5py.ExternalLink):
            external.append(name)

    def check_object(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and (item.is_virtual or item.external):
            external.append(name)

    with h5py.File(content, "r") as file:
        file.visititems_links(check_link)
        file.visititems(check_object)
    if external:
        raise FormatError(f"{uri}: {external[0]} is stored in another file, which is not opened")


def _find(dataset: xr.Dataset, variable: str | None, uri: str) -> str:
    dims = {*_DIMS}
    fitting = sorted(str(name) for name, var in dataset.data_vars.items() if {*var.dims} == dims)
    if variable is not None:
        if variable not in fitting:
            raise FormatError(
                f"{uri} has no variable {variable!r} of dimensions roi and epoch; "
                f"it has: {', '.join(fitting) or 'none'}"
            )
        return variable
    if len(fitting) != 1:
        raise FormatError(
            f"{uri} has {len(fitting) or 'no'} variables of dimensions roi and epoch"
            + (f" ({', '.join(fitting)}): choose one with `variable`" if fitting else "")
        )
    return fitting[0]


def _numbers(values: NDArray[Any], what: str) -> Values:
    if values.dtype.kind not in "iufb":
        raise FormatError(f"{what} has values of type {values.dtype}, which is not numeric")
    numbers = np.ascontiguousarray(values, np.float64)
    if np.isinf(numbers).any():
        raise FormatError(f"{what} has infinite values; redacted values must be NaN")
    return numbers


def _total(dataset: xr.Dataset, name: str, uri: str) -> Values | None:
    if name not in dataset.data_vars:
        return None
    if dataset[name].dims != _TOTALS[name]:
        raise FormatError(f"{uri}: {name} has dimensions {dataset[name].dims}, not {_TOTALS[name]}")
    return _numbers(dataset[name].values, f"{uri}: {name}")


def _coordinate(array: xr.DataArray, dim: str) -> NDArray[Any] | None:
    return array[dim].values if dim in array.coords else None


def _names(rois: NDArray[Any] | None) -> tuple[str, ...] | None:
    """Return the names of ROIs, decoded if they are bytes; None if they are not text."""
    if rois is None or rois.dtype.kind not in "OSUT":
        return None
    names = (roi.decode(errors="replace") if isinstance(roi, bytes) else roi for roi in rois)
    return tuple(map(str, names))


def _read_metadata(attributes: Mapping[str, Any], uri: str) -> ReleaseMetadata:
    fields = {
        name: _plain(attributes[name])
        for name in ReleaseMetadata.model_fields
        if name in attributes
    }
    # NetCDF has numbers instead of booleans and of lists with one item.
    if isinstance(fields.get("null_roi"), int) and fields["null_roi"] in (0, 1):
        fields["null_roi"] = bool(fields["null_roi"])
    if isinstance(fields.get("observed"), int):
        fields["observed"] = (fields["observed"],)
    try:
        return ReleaseMetadata.model_validate(fields)
    except ValidationError as error:
        lines = explain(error, ReleaseMetadata).splitlines()
        raise ConfigError("\n".join(f"{uri}: attribute {line}" for line in lines)) from None


def _plain(value: Any) -> Any:
    """Return an attribute as a Python value; text may be JSON, because NetCDF has no mappings."""
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
