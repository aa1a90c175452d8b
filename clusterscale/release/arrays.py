"""Tables as arrays over (roi, epoch): Zarr groups and NetCDF files."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import Values
from clusterscale.cube import arrays
from clusterscale.errors import DamagedError, FormatError, MissingError
from clusterscale.release.content import PublishedTotals, RawRelease, TableFormat
from clusterscale.release.explanation import CENTRE, explain_columns, explain_release, list_centres
from clusterscale.release.metadata import describe, read_metadata
from clusterscale.storage.address import check_memory
from clusterscale.storage.atomic import staged
from clusterscale.storage.chunk_store import decoded_size
from clusterscale.storage.groups import errors_as, open_with_xarray
from clusterscale.storage.result_table import TIME_ATTRIBUTES

if TYPE_CHECKING:
    import xarray as xr


_NETCDF = (".nc", ".nc4", ".netcdf")
_DIMS = ("roi", "epoch")
_DEFLATE, _SHUFFLE, _FLETCHER = 1, 2, 3  # filters of HDF5

_FLAG, _TEXTS = "flag", ("comment", "long_name")
_TOTALS = {"roi_total": ("roi",), "epoch_total": ("epoch",), "grand_total": ()}


class ArrayStore(TableFormat):
    """A Zarr group (v2 or v3) or a NetCDF file with a variable of dimensions roi and epoch.

    Attributes
    ----------
    variable
        Name of the variable; by default the only one of these dimensions, e.g. ``counts``.
    """

    name: Literal["arrays"] = "arrays"
    variable: str | None = None

    accepts: ClassVar[str] = "a Zarr group or a NetCDF file"

    def read(self, uri: str) -> RawRelease:
        """Return the table; its metadata are the attributes of the store."""
        if not storage.exists(uri):
            raise MissingError(f"{uri}: there is no release")
        what = f"{uri}: this release cannot be read"
        with errors_as(DamagedError, what, detailed=True), _open(uri) as dataset:
            name = _find(dataset, self.variable, uri)
            array = dataset[name].load().transpose(*_DIMS)  # some backends are not lazy
            values = _numbers(array.values, f"{uri}: {name}")
            roi, epoch, grand = (_total(dataset, total, uri) for total in _TOTALS)
            rois, epochs = (array[dim].values if dim in array.coords else None for dim in _DIMS)
            metadata, uris = read_metadata({**dataset.attrs, **array.attrs}, uri)
            ours: Any = {} if metadata.ledger is None else dataset
            flags: Any = ours[_FLAG].values if _FLAG in ours else None
            centres = [ours[key].values for key in CENTRE if key in ours]
            about = [dataset.attrs, *(each.attrs for each in dataset.variables.values())]
            texts = [str(each[key]) for each in about for key in _TEXTS if key in each]
        release = RawRelease(
            values, _names(rois), epochs, PublishedTotals(roi, epoch, grand), metadata, uris
        )
        if len(centres) == len(CENTRE):
            texts.append(list_centres(release.rois or (), *centres))
        accuracy = None if metadata.ledger is None else metadata.accuracy
        fit = accuracy is None or np.array_equal(flags, accuracy.is_uncertain(values))
        zone = metadata.time_zone or "UTC"
        return replace(release, texts=tuple(texts), flags_fit=fit, timezone=zone)

    def write(self, uri: str, release: RawRelease) -> None:
        """Write a Zarr group, or a NetCDF file if the address ends like one."""
        words, accuracy = explain_columns(release), release.metadata.accuracy
        count = {"long_name": words["count"], "units": "1"}
        variables: dict[str, tuple[tuple[str, ...], Any, dict[str, Any]]] = {
            self.variable or "counts": (_DIMS, release.values, count)
        }
        if accuracy is not None:
            flags = accuracy.is_uncertain(release.values)
            count["ancillary_variables"] = _FLAG
            meanings = {"flag_values": [0, 1], "flag_meanings": "sure uncertain"}
            about = {"long_name": words["flag"], **meanings}
            variables[_FLAG] = (_DIMS, flags.astype(np.int8), about)
        if release.rois is not None:
            names = np.array(release.rois, object)
            variables["roi"] = (("roi",), names, {"long_name": words["place"]})
        if release.epochs is not None:
            variables["epoch"] = (("epoch",), release.epochs, {"long_name": words["time"]})
        if release.centres is not None:
            count["coordinates"] = " ".join(CENTRE)
            for name, unit, at in zip(CENTRE, ("north", "east"), release.centres.T, strict=True):
                about = {"long_name": words[name], "units": f"degrees_{unit}"}
                variables[name] = (("roi",), at, about)
        for (name, dims), total in zip(_TOTALS.items(), release.totals.each, strict=True):
            if total is not None:
                variables[name] = (dims, total.reshape(total.shape[: len(dims)]), {})
        attributes = {"Conventions": "CF-1.11", **describe(release.metadata)}
        if release.metadata.licence:  # as in Attribute Conventions for Data Discovery
            attributes["license"] = release.metadata.licence
        if release.metadata.ledger is not None:
            attributes["comment"] = explain_release(uri.rstrip("/").rpartition("/")[2], release)
        _write(uri, variables, attributes)


def _write(uri: str, variables: dict[str, Any], attributes: dict[str, Any]) -> None:
    import xarray as xr

    if uri.rstrip("/").endswith(_NETCDF):
        plain = {
            key: json.dumps(value) if isinstance(value, dict) else np.int32(value)
            if isinstance(value, bool) else value
            for key, value in attributes.items()
        }  # fmt: skip
        storage.put(uri, bytes(xr.Dataset(variables, attrs=plain).to_netcdf(engine="h5netcdf")))
        return
    dataset = xr.Dataset(variables, attrs=attributes)
    encoding: dict[str, dict[str, Any]] = {name: {"_FillValue": None} for name in variables}
    if "epoch" in dataset.coords and dataset["epoch"].dtype.kind == "M":
        encoding["epoch"] |= {**TIME_ATTRIBUTES, "dtype": "int64"}
    with staged(uri, force=True) as staging:
        store = storage.create_group(staging).store
        dataset.to_zarr(store, mode="a", consolidated=False, encoding=encoding)


def _open(uri: str) -> xr.Dataset:
    import xarray as xr

    # without the libraries' messages, which advise to install others
    with errors_as(FormatError, f"{uri} is not a readable NetCDF file, or Zarr group"):
        if uri.rstrip("/").endswith(_NETCDF):
            content = io.BytesIO(storage.read(uri))
            engine = "h5netcdf" if content.getvalue()[:4] == b"\x89HDF" else "scipy"
            if engine == "h5netcdf":
                _refuse_other_files(content, uri)
            return xr.open_dataset(content, engine=engine)
        group = storage.open_group(uri)
        arrays.refuse_pickles(group, where=uri)
        for name, array in group.arrays():
            _check_sizes(uri, name, array.shape, array.chunks, array.dtype)
        return open_with_xarray(group)


def _refuse_other_files(content: io.BytesIO, uri: str) -> None:
    """Refuse HDF5 links and datasets that are in other files, or larger than memory."""
    import h5py

    external: list[str] = []

    def check_link(name: str, link: object) -> None:
        if isinstance(link, h5py.ExternalLink):
            external.append(name)

    def check_object(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            _check_sizes(uri, name, item.shape or (), item.chunks or (), item.dtype)
            if item.is_virtual or item.external:
                external.append(name)
            _check_chunks(f"{uri}: variable {name}", item)

    with h5py.File(content, "r") as file:
        file.visititems_links(check_link)
        file.visititems(check_object)
    if external:
        raise FormatError(f"{uri}: {external[0]} is stored in another file, which is not opened")


def _check_chunks(what: str, item: Any) -> None:
    """Refuse a dataset of HDF5 with a chunk that decodes to more than its metadata state."""
    about = item.id.get_create_plist()
    kinds = [about.get_filter(i)[0] for i in range(about.get_nfilters())]
    checked = 4 * kinds.count(_FLETCHER)
    if {*kinds} - {_DEFLATE, _SHUFFLE, _FLETCHER} or kinds.count(_DEFLATE) > 1:
        raise FormatError(f"{what} is not compressed with gzip alone, once: write it so")
    chunks: list[Any] = []
    if _DEFLATE in kinds:
        item.id.chunk_iter(chunks.append)
    size = max(item.dtype.itemsize, 16)  # of a reference to a text
    most = math.prod(item.chunks or ()) * size + checked
    for chunk in chunks:
        mask, raw = item.id.read_direct_chunk(chunk.chunk_offset)
        raw = raw[: len(raw) - checked * (kinds[-1] == _FLETCHER)]
        if not mask >> kinds.index(_DEFLATE) & 1 and decoded_size("zlib", raw, most) > most:
            raise DamagedError(f"{what} has a chunk that decodes to more than {most:,} bytes")


def _check_sizes(
    uri: str, name: str, shape: tuple[int, ...], chunks: tuple[int, ...], dtype: Any
) -> None:
    """Check that an array and one of its chunks fit into memory, by what their metadata state."""
    for what, sizes in (("shape", shape), ("chunks of", chunks)):
        n_bytes = 2 * max(np.dtype(dtype).itemsize, 8) * math.prod(sizes)
        check_memory(n_bytes, f"{uri}: variable {name} with {what} {sizes}")


def _find(dataset: xr.Dataset, variable: str | None, uri: str) -> str:
    dims = {*_DIMS}
    others = " ".join(str(var.attrs.get("ancillary_variables", "")) for var in dataset.values())
    fitting = sorted(
        str(name)
        for name, var in dataset.data_vars.items()
        if {*var.dims} == dims and name not in others.split()
    )
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
    return np.atleast_1d(_numbers(dataset[name].values, f"{uri}: {name}"))


def _names(rois: NDArray[Any] | None) -> tuple[str, ...] | None:
    """Return the names of ROIs, decoded if they are bytes; None if they are not text."""
    if rois is None or rois.dtype.kind not in "OSUT":
        return None
    names = (roi.decode(errors="replace") if isinstance(roi, bytes) else roi for roi in rois)
    return tuple(map(str, names))
