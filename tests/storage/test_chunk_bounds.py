"""A chunk decodes to at most what its array declares; bombs are scaled down, as the arrays are."""

import json
import zlib
from pathlib import Path

import h5py
import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from loops import for_each
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from clusterscale.errors import ClusterscaleError, DamagedError, FormatError
from clusterscale.release import TABLE_FORMATS
from clusterscale.storage import chunk_store
from clusterscale.storage.chunk_store import BoundedPipeline

ARRAYS = TABLE_FORMATS.create("arrays")
OLD = ("Zlib", "GZip", "BZ2", "LZMA", "LZ4", "Zstd", "Blosc")
COMPRESSORS = [
    *((3, one) for one in (GzipCodec(), ZstdCodec(), BloscCodec(), [BloscCodec(), Crc32cCodec()])),
    (3, [GzipCodec(), Crc32cCodec()]),
    *((2, getattr(numcodecs, name)()) for name in OLD),
]


def write(uri, version, compressor, shape, values=None, **options):
    group = zarr.create_group(uri, zarr_format=version, overwrite=True)
    options = {"chunks": shape} | options
    names = {"dimension_names": ["roi", "epoch"]} if version == 3 else {}
    array = group.create_array(
        "counts", shape=shape, dtype="i8", compressors=compressor, **options, **names
    )
    array[:] = np.ones(shape) if values is None else values
    array.attrs["_ARRAY_DIMENSIONS"] = ["roi", "epoch"]


def shrink(uri, version, **sizes):
    """Declare an array of 8 × 8 in place of the one that was written."""
    file = Path(uri) / "counts" / ("zarr.json" if version == 3 else ".zarray")
    about = json.loads(file.read_text())
    about["shape"] = [8, 8]
    if version == 2:
        about["chunks"] = [8, 8]
    else:
        about["chunk_grid"]["configuration"]["chunk_shape"] = [8, 8]
        for codec in about["codecs"]:
            if codec["name"] == "sharding_indexed":
                codec["configuration"]["chunk_shape"] = [8, 8]
    file.write_text(json.dumps(about))


@pytest.mark.filterwarnings("ignore:.*Zarr format 3 specification")
@for_each(("version", "compressor"), COMPRESSORS)
def test_a_chunk_that_decodes_to_more_is_refused(version, compressor, tmp_path, monkeypatch):
    rng, uri = np.random.default_rng(1), str(tmp_path / "a.zarr")
    values = rng.integers(1, 9, (16, 12))
    write(uri, version, compressor, (16, 12), values, chunks=(8, 8))
    np.testing.assert_array_equal(ARRAYS.read(uri).values, values)
    write(uri, version, compressor, (512, 256))
    shrink(uri, version)
    decoded = []
    with monkeypatch.context() as patch:
        patch.setattr(
            chunk_store.BatchedCodecPipeline, "decode_batch", lambda *_: decoded.append(1)
        )
        with pytest.raises(DamagedError, match=r"a chunk of .* decodes to more than the 66,048"):
            ARRAYS.read(uri)
    assert decoded == []


def test_a_part_of_a_shard_that_decodes_to_more_is_refused(tmp_path):
    uri = str(tmp_path / "a.zarr")
    write(uri, 3, ZstdCodec(), (512, 256), chunks=(512, 256), shards=(512, 256))
    shrink(uri, 3)
    with pytest.raises(DamagedError, match="decodes to more than"):
        ARRAYS.read(uri)


def test_a_chunk_that_is_compressed_twice_is_refused(tmp_path):
    uri = str(tmp_path / "a.zarr")
    write(uri, 3, [GzipCodec(), GzipCodec()], (8, 8))
    with pytest.raises(DamagedError, match="or is compressed twice"):
        ARRAYS.read(uri)


def test_only_what_may_be_decoded_is_decoded():
    bomb = zlib.compress(bytes(1 << 24))
    assert chunk_store.decoded_size("zlib", bomb, 1000) == 1001
    assert chunk_store.decoded_size("zlib", zlib.compress(bytes(1000)), 1000) == 1000
    two = numcodecs.GZip().encode(bytes(600)) * 2  # members of one file
    assert chunk_store.decoded_size("gzip", two, 1000) == 1001


def test_zarr_uses_it_for_any_store(tmp_path):
    write(str(tmp_path / "a.zarr"), 3, "auto", (8, 8))
    array = zarr.open_group(tmp_path / "a.zarr")["counts"]
    assert isinstance(array.async_array.codec_pipeline, BoundedPipeline)


def netcdf(path, values, chunk, raw=None, **filters):
    with h5py.File(path, "w") as file:
        counts = file.create_dataset("counts", values.shape, "f8", chunks=chunk, **filters)
        counts[:] = values
        if raw is not None:
            counts.id.write_direct_chunk((0, 0), raw)
        for i, name in enumerate(("roi", "epoch")):
            axis = file.create_dataset(name, data=np.arange(values.shape[i]))
            axis.make_scale(name)
            counts.dims[i].attach_scale(axis)


@for_each(
    "filters",
    [
        {},
        {"compression": "gzip"},
        {"compression": "gzip", "shuffle": True, "fletcher32": True},
    ],
)
def test_netcdf_of_the_usual_filters_is_read(filters, tmp_path):
    values = np.random.default_rng(1).integers(0, 9, (16, 12)).astype(float)
    netcdf(tmp_path / "a.nc", values, (8, 8) if filters else None, **filters)
    np.testing.assert_array_equal(ARRAYS.read(str(tmp_path / "a.nc")).values, values)


@pytest.mark.parametrize("more", [513, 1 << 20])
def test_a_chunk_of_netcdf_that_decodes_to_more_is_refused(more, tmp_path):
    path, raw = tmp_path / "a.nc", zlib.compress(bytes(8 * 8 * 8 + more))
    netcdf(path, np.zeros((8, 8)), (8, 8), raw, compression="gzip")
    with xr.open_dataset(path) as dataset:  # HDF5 itself reads it as valid
        assert dataset["counts"].shape == (8, 8)
    with pytest.raises(DamagedError, match="counts has a chunk that decodes to more than 1,024"):
        ARRAYS.read(str(path))


def test_other_compression_of_netcdf_is_refused(tmp_path):
    netcdf(tmp_path / "a.nc", np.zeros((8, 8)), (8, 8), compression="lzf")
    with pytest.raises(FormatError, match="counts is not compressed with gzip alone, once"):
        ARRAYS.read(str(tmp_path / "a.nc"))


def test_texts_of_variable_length_are_read(tmp_path):
    names = np.array([f"zone {i}" * 9 for i in range(16)], object)
    table = xr.Dataset(
        {"counts": (("roi", "epoch"), np.ones((16, 2)))}, {"roi": names, "epoch": [0, 1]}
    )
    table.to_netcdf(tmp_path / "a.nc", encoding={"roi": {"zlib": True}}, engine="h5netcdf")
    table.to_zarr(tmp_path / "a.zarr", consolidated=False)
    for name in ("a.nc", "a.zarr"):
        assert ARRAYS.read(str(tmp_path / name)).rois == tuple(names)
        assert issubclass(DamagedError, ClusterscaleError)
