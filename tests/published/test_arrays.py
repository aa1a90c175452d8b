"""Releases are read as they were written, in any form; what cannot be one is named."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import xarray as xr
import zarr
from oracles.releases import FORMS, dataset, describe, write

from clusterscale.errors import ConfigError, DamagedError, FormatError, MissingError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.release import TABLE_FORMATS, read_table

VALUES = np.array([[3.0, 0.0, 7.5, np.nan], [-2.25, 1e6, 0.0, 4.0], [0.0, 9.0, 1.0, 2.0]])
ROIS = ["a", "b", "ç"]
EPOCHS = np.arange(5, 9)
TEXT, PICKLE = {"id": "vlen-utf8"}, {"id": "pickle", "protocol": 5}
LAPLACE = {"name": "laplace", "epsilon": 1.0}


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


def test_what_was_written_is_read(tmp_path, form):
    totals = {"roi_total": ("roi", np.nansum(VALUES, 1)), "epoch_total": ("epoch", [1.0, 2, 3, 4])}
    told = dataset(VALUES, ROIS, EPOCHS, **totals)
    told.attrs = describe(
        form, group_size=50, mechanism=LAPLACE, first=5, null_roi=True, series="daily", other="text"
    )
    written = read_table(write(told, tmp_path, form))
    np.testing.assert_array_equal(written.values, VALUES)
    assert written.values.dtype == np.float64
    assert written.rois == tuple(ROIS)
    np.testing.assert_array_equal(written.epochs, EPOCHS)
    np.testing.assert_array_equal(written.totals.roi, np.nansum(VALUES, 1))
    np.testing.assert_array_equal(written.totals.epoch, [1, 2, 3, 4])
    said = written.metadata
    assert (said.group_size, said.first, said.null_roi, said.series) == (50, 5, True, "daily")
    assert said.mechanism == MECHANISMS.create(**LAPLACE)
    assert written.uris == {}


def test_next_to_nothing_need_be_said(tmp_path, form):
    written = read_table(write(dataset(VALUES), tmp_path, form))
    np.testing.assert_array_equal(written.values, VALUES)
    assert (written.rois, written.epochs, written.totals.roi, written.totals.epoch) == (None,) * 4
    assert not written.metadata.model_fields_set


def test_dimensions_in_another_order(tmp_path, form):
    told = dataset(VALUES.T, ROIS, EPOCHS, dims=("epoch", "roi"))
    written = read_table(write(told, tmp_path, form))
    np.testing.assert_array_equal(written.values, VALUES)
    assert written.values.flags.c_contiguous


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "float32", "float64"])
def test_any_kind_of_number(tmp_path, form, kind):
    values = np.arange(12).reshape(3, 4).astype(kind)
    written = read_table(write(dataset(values), tmp_path, form))
    np.testing.assert_array_equal(written.values, values.astype(np.float64))


def test_what_is_masked_or_packed_is_unpacked(tmp_path, form):
    encoding = {"counts": {"dtype": "int16", "_FillValue": -9999, "scale_factor": 0.25}}
    values = np.where(np.isnan(VALUES) | (VALUES > 1e5), np.nan, VALUES)
    written = read_table(write(dataset(values), tmp_path, form, encoding=encoding))
    np.testing.assert_array_equal(written.values, values)


def test_times(tmp_path, form):
    times = np.datetime64("2024-01-01T05", "ns") + np.arange(4) * np.timedelta64(3600, "s")
    written = read_table(write(dataset(VALUES, ROIS, times), tmp_path, form))
    np.testing.assert_array_equal(written.epochs.astype("datetime64[ns]"), times)


def test_names_as_bytes(tmp_path):
    """As in NetCDF 3 of those who do not say that it is UTF-8."""
    told = dataset(VALUES, np.array([each.encode() for each in ROIS]))
    assert read_table(write(told, tmp_path, "netcdf3")).rois == tuple(ROIS)


def test_attributes_of_the_variable_win(tmp_path, form):
    told = dataset(VALUES)
    told.attrs = describe(form, group_size=50, first=1)
    told["counts"].attrs = describe(form, group_size=60, observed=[3, 9])
    said = read_table(write(told, tmp_path, form)).metadata
    assert (said.group_size, said.first, said.observed) == (60, 1, (3, 9))
    told["counts"].attrs = describe(form, observed=[3])
    assert read_table(write(told, tmp_path, form, mode="w")).metadata.observed == (3,)


def test_one_of_several(tmp_path, form):
    told = dataset(VALUES, noisy=(("epoch", "roi"), VALUES.T + 1), depth=("roi", [1.0, 2, 3]))
    uri = write(told, tmp_path, form)
    np.testing.assert_array_equal(
        read_table(uri, TABLE_FORMATS.create("arrays", variable="noisy")).values, VALUES + 1
    )
    with pytest.raises(FormatError, match=r"has 2 variables .* \(counts, noisy\): choose one with"):
        read_table(uri)
    for wrong in ("depth", "count"):
        with pytest.raises(FormatError, match=f"no variable '{wrong}' .*it has: counts, noisy$"):
            read_table(uri, TABLE_FORMATS.create("arrays", variable=wrong))


def test_none_that_fits(tmp_path, form):
    uri = write(dataset(VALUES, dims=("place", "time")), tmp_path, form)
    with pytest.raises(FormatError, match=r"has no variables of dimensions roi and epoch$") as told:
        read_table(uri)
    assert str(told.value).startswith(uri)


@pytest.mark.parametrize("which", ["counts", "roi_total", "epoch_total"])
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinities(tmp_path, form, which, bad):
    told = dataset(VALUES, roi_total=("roi", [1.0, 2, 3]), epoch_total=("epoch", [1.0, 2, 3, 4]))
    told[which][-1] = bad
    with pytest.raises(FormatError, match=f": {which} has infinite values"):
        read_table(write(told, tmp_path, form))


def test_text_is_no_number(tmp_path, form):
    uri = write(dataset(np.full((3, 4), "many")), tmp_path, form)
    with pytest.raises(FormatError, match=r": counts has values of type .* not numeric"):
        read_table(uri)


def test_times_are_no_numbers(tmp_path):
    told = dataset(np.zeros((3, 4), "datetime64[ns]"))
    with pytest.raises(FormatError, match="not numeric"):
        read_table(write(told, tmp_path))


def test_totals_of_other_dimensions(tmp_path, form):
    uri = write(dataset(VALUES, roi_total=("epoch", [1.0, 2, 3, 4])), tmp_path, form)
    with pytest.raises(FormatError, match=r"roi_total has dimensions \('epoch',\), not \('roi',\)"):
        read_table(uri)


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"group_size": 1}, "attribute group_size: "),
        ({"group_size": "many"}, "attribute group_size: is 'many'"),
        ({"mechanism": {"name": "laplac", "epsilon": 1.0}}, "did you mean 'laplace'"),
        ({"mechanism": {"name": "laplace", "epsilon": -1.0}}, "epsilon: is -1.0"),
        ({"mechanism": "{not json"}, "attribute mechanism"),
        ({"first": -1}, "attribute first: is -1"),
        ({"first": 0, "start": "2024-01-01"}, "give first or start, not both"),
        ({"null_roi": "perhaps"}, "attribute null_roi: is 'perhaps'"),
        ({"observed": [3, 3]}, "3 is listed twice"),
    ],
)
@pytest.mark.parametrize("form", ["zarr3", "netcdf4"])
def test_attributes_that_are_wrong_are_named(tmp_path, form, attributes, told):
    release = dataset(VALUES)
    release.attrs = describe(form, **attributes)
    uri = write(release, tmp_path, form)
    with pytest.raises(ConfigError) as caught:
        read_table(uri)
    assert str(caught.value).startswith(f"{uri}: attribute")
    assert told in str(caught.value)


def test_attributes_that_name_places_are_set_aside(tmp_path, form):
    release = dataset(VALUES)
    release.attrs = describe(form, group_size=50, members="a.csv")
    release["counts"].attrs = describe(form, cube="s3://b/cube", path="b.csv")
    written = read_table(write(release, tmp_path, form))
    assert written.uris == {"cube": "s3://b/cube", "members": "a.csv"}
    assert written.metadata.model_fields_set == {"group_size"}


def test_a_flag_of_a_netcdf_file_is_a_number(tmp_path):
    for number, flag in ((0, False), (1, True)):
        told = dataset(VALUES)
        told.attrs = {"null_roi": np.int8(number)}
        assert read_table(write(told, tmp_path, "netcdf4")).metadata.null_roi is flag
    told.attrs = {"null_roi": np.int8(2)}
    with pytest.raises(ConfigError, match="attribute null_roi: is 2"):
        read_table(write(told, tmp_path, "netcdf4"))


@pytest.mark.parametrize("name", ["week.zarr", "week.nc", "week"])
def test_nothing_there(tmp_path, name):
    with pytest.raises(MissingError, match="there is no release"):
        read_table(f"{tmp_path}/{name}")


@pytest.mark.parametrize("name", ["week.nc", "week.netcdf", "week.zarr", "week"])
@pytest.mark.parametrize("content", [b"", b"\x89HDF and no more", b"CDF\x01", b"roi,epoch,count"])
def test_a_file_that_is_neither(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((FormatError, DamagedError)) as caught:
        read_table(f"{tmp_path}/{name}")
    assert str(caught.value).startswith(f"{tmp_path}/{name}")


def test_a_folder_that_is_no_group(tmp_path):
    with pytest.raises(FormatError, match="is not a readable Zarr group"):
        read_table(str(tmp_path))


@pytest.mark.parametrize("form", ["zarr3", "zarr2"])
def test_a_chunk_that_is_damaged(tmp_path, form):
    uri = write(dataset(VALUES), tmp_path, form)
    (chunk,) = (
        path for path in (tmp_path / "week-1.zarr" / "counts").rglob("*")
        if path.is_file() and path.name not in ("zarr.json", ".zarray", ".zattrs")
    )  # fmt: skip
    chunk.write_bytes(b"nothing that was packed")
    with pytest.raises(DamagedError, match="cannot be read"):
        read_table(uri)


@pytest.mark.parametrize("consolidated", [True, False])
@pytest.mark.parametrize("codecs", [
    {"filters": [TEXT, PICKLE], "compressor": None},
    {"filters": [TEXT], "compressor": PICKLE},
])  # fmt: skip
def test_a_store_that_would_run_code_is_refused_unread(tmp_path, monkeypatch, codecs, consolidated):
    pickles = pytest.importorskip("numcodecs.pickles")
    decoded = []
    monkeypatch.setattr(pickles.Pickle, "decode", lambda *args, **options: decoded.append(args))
    uri = write(dataset(VALUES, ROIS), tmp_path, "zarr2")
    about = tmp_path / "week-1.zarr" / "roi" / ".zarray"
    changed = {"dtype": "|O", "fill_value": None, **codecs}
    about.write_text(json.dumps(json.loads(about.read_text()) | changed))
    if consolidated:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(uri)
    message = "array roi is stored with the codec pickle, which can run arbitrary code"
    with pytest.raises(FormatError, match=message):
        read_table(uri)
    assert not decoded


def test_an_address_of_an_object_store():
    told = dataset(VALUES, ROIS)
    told.to_zarr("memory://values/week.zarr", zarr_format=2, consolidated=False)
    np.testing.assert_array_equal(read_table("memory://values/week.zarr").values, VALUES)
    xr.open_zarr("memory://values/week.zarr", consolidated=False).close()


@pytest.mark.parametrize("way", ["raw", "virtual", "link", "deep"])
def test_a_netcdf_file_names_no_other_files(tmp_path, way):
    """HDF5 would open them by itself, wherever they are."""
    import h5py

    raw, other = tmp_path / "secret", str(tmp_path / "other.nc")
    raw.write_bytes(bytes(range(12)))
    with h5py.File(other, "w") as file:
        file["counts"] = np.arange(12.0).reshape(3, 4)
    uri = write(dataset(VALUES, name="zeros"), tmp_path, "netcdf4")
    with h5py.File(uri, "a") as file:
        if way == "raw":
            file.create_dataset("counts", (3, 4), "u1", external=[(str(raw), 0, 12)])
        elif way == "virtual":
            layout = h5py.VirtualLayout((3, 4), "f8")
            layout[:] = h5py.VirtualSource(other, "counts", shape=(3, 4))
            file.create_virtual_dataset("counts", layout)
        else:
            file["counts" if way == "link" else "deep/counts"] = h5py.ExternalLink(other, "counts")
    name = "deep/counts" if way == "deep" else "counts"
    with pytest.raises(FormatError, match=f"{name} is stored in another file, which is not opened"):
        read_table(uri)
