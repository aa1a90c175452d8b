"""Releases written as publishers do, cell by cell."""

from __future__ import annotations

import json
import warnings

import numpy as np
import xarray as xr
import zarr

FORMS = ("zarr3", "zarr2", "netcdf4", "netcdf3")
_ENDINGS = {"zarr3": "zarr", "zarr2": "zarr", "netcdf4": "nc", "netcdf3": "nc"}


def dataset(values, rois=None, epochs=None, dims=("roi", "epoch"), name="counts", **others):
    """Return a release as a dataset; ``others`` are further variables, as (dimensions, values)."""
    coordinates = {"roi": rois, "epoch": epochs}
    return xr.Dataset(
        {name: (dims, np.array(values)), **others},
        {dim: each for dim, each in coordinates.items() if each is not None},
    )


def write(told, folder, form="zarr3", name="week-1", **options):
    """Write a dataset in one of the forms, and return its address."""
    uri = f"{folder}/{name}.{_ENDINGS[form]}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # texts are not in the specification of Zarr v3 yet
        if form.startswith("zarr"):
            version = int(form[-1])
            told.to_zarr(uri, zarr_format=version, consolidated=False, **options)
        elif form == "netcdf4":
            told.to_netcdf(uri, engine="h5netcdf", **options)
        else:
            told.to_netcdf(uri, engine="scipy", format="NETCDF3_64BIT", **options)
    return uri


def describe(form, **attributes):
    """Return attributes as a form can hold them: NetCDF has no mappings, and no booleans."""
    if form.startswith("zarr"):
        return attributes
    return {
        key: json.dumps(each) if isinstance(each, dict) else np.int32(each)
        if isinstance(each, (bool, int)) else each
        for key, each in attributes.items()
    }  # fmt: skip


def touch(uri, values, name="counts"):
    """Write other values into a Zarr release that is there."""
    zarr.open_group(uri, mode="r+")[name][:] = values
