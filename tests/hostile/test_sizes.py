"""Small files that declare large tables: what they need is known before memory is taken."""

import bz2
import gzip
import json
import lzma
import tracemalloc
from itertools import chain, product

import h5py
import numcodecs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from cube import crowd
from loops import for_each

from clusterscale.errors import ClusterscaleError, FormatError, InputError, SourceError
from clusterscale.reading import geojson, sources
from clusterscale.reauditing import Catalogue, ReleaseEntry
from clusterscale.reauditing.resolved_release import ResolvedRelease
from clusterscale.release import TABLE_FORMATS, read_table
from clusterscale.release.propose import propose_format

START, NEXT, LATE = "2000-01-01T00:00:00Z", "2000-01-01T00:00:01Z", "2031-01-01T00:00:00Z"
LONG = f"place,time,count\nA,{START},1\nA,{NEXT},2\nA,{LATE},3\n"
SDMX = LONG.replace("place,time,count", "REF_AREA,TIME_PERIOD,OBS_VALUE")
WIDE = f"place,{START},{NEXT},{LATE}\nA,1,2,3\n"
ZONES = [{"type": "Feature", "id": "A", "properties": {START: 1, NEXT: 2, LATE: 3}}]
GEOJSON = json.dumps({"type": "FeatureCollection", "features": ZONES})
COLUMNS = {"place": ["A"] * 3, "time": [START, NEXT, LATE], "count": [1, 2, 3]}


def write_zarr(path, shape, chunks, version=3):
    group = zarr.open_group(path, mode="w", zarr_format=version)
    dims = ("roi", "epoch")
    named = {"dimension_names": dims} if version == 3 else {}
    attributes = {} if version == 3 else {"_ARRAY_DIMENSIONS": dims}
    group.create_array(
        "counts", shape=shape, chunks=chunks, dtype="i4", attributes=attributes, **named
    )


def write_netcdf(path, name="counts", shape=(10**6, 10**5)):
    with h5py.File(path, "w") as file:
        small = name != "counts"
        data = file.create_dataset("counts", (2, 3) if small else shape, "i4", chunks=(2, 3))
        for axis, (dim, size) in enumerate(zip(("roi", "epoch"), data.shape, strict=True)):
            scale = (size,) if dim != name else shape[:1]
            scale = file.create_dataset(dim, scale, "i8", chunks=(2,))
            scale.make_scale(dim)
            data.dims[axis].attach_scale(scale)


def write_hive(path):
    for name, time in (("a", START), ("b", NEXT), ("c", LATE)):
        (path / name).mkdir(parents=True)
        columns = {"place": ["A"], "time": [time], "count": [1]}
        pq.write_table(pa.table(columns), path / name / "part.parquet")


def write_rows(path):
    """One dictionary entry and many repetitions: few bytes."""
    column = pa.DictionaryArray.from_arrays(np.zeros(10**6, np.int32), ["A"])
    table = pa.table({name: column for name in "abcdefghijklmnopqrstuvwxyz"})
    with pq.ParquetWriter(path, table.schema) as writer:
        for _ in range(3):
            writer.write_table(table)


FILES = {
    "long": (LONG.encode(), "a.csv", None),
    "gzip": (gzip.compress(LONG.encode()), "a.csv.gz", None),
    "sdmx": (SDMX.encode(), "a.csv", TABLE_FORMATS.create("sdmx_csv", status=None)),
    "wide": (WIDE.encode(), "a.csv", TABLE_FORMATS.create("wide")),
    "geojson": (GEOJSON.encode(), "a.geojson", None),
    "slots": (
        b"place,time,count\nA,0,1\nA,9000000000,3\n",
        "a.csv",
        TABLE_FORMATS.create("long", slots=True),
    ),
    "parquet": (lambda path: pq.write_table(pa.table(COLUMNS), path), "a.parquet", None),
    "folder": (write_hive, "a", TABLE_FORMATS.create("long")),
    "geoparquet": (write_rows, "a.geoparquet", TABLE_FORMATS.create("geojson")),
    "zarr": (lambda path: write_zarr(path, (10**6, 10**5), (10, 10)), "a.zarr", None),
    "zarr 2": (lambda path: write_zarr(path, (10**6, 10**5), (10, 10), 2), "a.zarr", None),
    "chunks": (lambda path: write_zarr(path, (2, 3), (10**6, 10**5)), "a.zarr", None),
    "netcdf": (write_netcdf, "a.nc", None),
    "coordinate": (lambda path: write_netcdf(path, "roi", (10**10,)), "a.nc", None),
}  # fmt: skip


def write(folder, name):
    content, file, form = FILES[name]
    if callable(content):
        content(folder / file)
    else:
        (folder / file).write_bytes(content)
    return str(folder / file), form


def peak_of(call):
    tracemalloc.start()
    try:
        call()
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize("name", FILES)
def test_a_small_file_that_declares_a_large_table_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.setenv("CLUSTERSCALE_TABLE_MEMORY", "4e9")
    uri, form = write(tmp_path, name)

    def refused():
        with pytest.raises(
            FormatError, match=r"would take .* GB of memory, but 4.0 GB are allowed"
        ):
            read_table(uri, form)

    assert peak_of(refused) < 100e6


def test_the_message_says_what_was_asked_and_what_to_do(tmp_path):
    uri, _ = write(tmp_path, "long")
    words = (
        r"a\.csv: 1 place at 978,307,201 epochs of 1 s, from 2000-01-01T00:00:00 on would take "
        r"78\.3 GB of memory.*correct a time that is wrong, set `step` if epochs are longer, or "
        r"allow more by the environment variable CLUSTERSCALE_TABLE_MEMORY, as in .*=78\.3e9"
    )
    with pytest.raises(FormatError, match=words):
        read_table(uri)


def test_what_is_allowed_is_read(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text(
        LONG.replace("2031", "2000").replace("01-01T00:00:00Z,3", "02-01T00:00:00Z,3")
    )
    form = TABLE_FORMATS.create("long", absent="zero")
    monkeypatch.setenv("CLUSTERSCALE_TABLE_MEMORY", "1e6")
    with pytest.raises(FormatError, match=r"but 0\.0 GB are allowed"):
        read_table(str(tmp_path / "a.csv"), form)
    monkeypatch.setenv("CLUSTERSCALE_TABLE_MEMORY", "1e9")
    assert read_table(str(tmp_path / "a.csv"), form).values.shape == (1, 31 * 86400 + 1)
    monkeypatch.setenv("CLUSTERSCALE_TABLE_MEMORY", "1 GB")
    with pytest.raises(InputError, match="'1 GB', but should be a number of bytes"):
        read_table(str(tmp_path / "a.csv"), form)


@pytest.fixture
def cube(tmp_path):
    return crowd.write(str(tmp_path / "cube.zarr"), crowd.draw(6, 2, 5))


@pytest.mark.parametrize("name", ["long", "zarr", "chunks", "bomb", "netcdf", "memory", "bug"])
def test_one_such_release_is_a_problem_of_its_own(name, cube, tmp_path, monkeypatch):
    about = {"group_size": 4, "first": 0, "mechanism": {"name": "exact"}}
    good = tmp_path / "good.zarr"
    group = zarr.open_group(good, mode="w")
    group.create_array("counts", data=np.ones((2, 5)), dimension_names=("roi", "epoch"))
    group.attrs.put(about)
    if name == "bomb":  # a chunk of 256 MB, of which the array declares 80 bytes
        group = zarr.open_group(tmp_path / "bomb.zarr", mode="w")
        array = group.create_array("counts", data=np.ones((2, 5)), dimension_names=["roi", "epoch"])
        codec = numcodecs.Zstd().encode(bytes(1 << 28))
        (tmp_path / "bomb.zarr" / "counts" / "c" / "0" / "0").write_bytes(codec)
        assert array.compressors[0].to_dict()["name"] == "zstd"
        bad = ReleaseEntry(counts=str(tmp_path / "bomb.zarr"), **about)
    elif name in FILES:
        uri, form = write(tmp_path, name)
        bad = ReleaseEntry(counts=uri, format=form, **about)
    else:
        wrong = {"memory": MemoryError, "bug": KeyError}[name]
        bad = ReleaseEntry(counts=str(good), name="bad", **about)
        original = Catalogue._resolve

        def resolve(self, entry):
            if entry.label == "bad":
                raise wrong
            return original(self, entry)

        monkeypatch.setattr(Catalogue, "_resolve", resolve)
    entries = (bad, ReleaseEntry(counts=str(good), name="good"))
    problem, listed = Catalogue(entries, cube.uri, str(tmp_path / "cache.json")).scan()
    assert isinstance(problem.error, ClusterscaleError)
    assert isinstance(listed, ResolvedRelease), listed.error


def test_a_file_that_decompresses_to_far_more_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_UNPACKED", 10_000)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"place,time,count\n" + b"\n" * 1_000_000))
    (file,) = sources.find(str(path), ("*",), kind="file")
    (piece,) = sources.slices(file, 100)
    read = sources.text_blocks(piece, 1000)
    with pytest.raises(SourceError, match="when it is decompressed: if that is right, decompress"):
        assert sum(map(len, read)) < 0
    path.write_bytes(gzip.compress(b"place,time,count\n" + b"\n" * 9_000))
    (file,) = sources.find(str(path), ("*",), kind="file")
    assert sum(map(len, sources.text_blocks(*sources.slices(file, 100), 1000))) == 9_017


def read_wide(path):
    return TABLE_FORMATS.create("wide").read(str(path))


def read_feature(path):
    (file,) = sources.find(str(path), ("*",), kind="file")
    return list(geojson.members(file))


ENDS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
TEXTS = {  # how each begins, and a byte of which its one value or its rows have many
    "wide": (read_wide, b"place,2026-03-02\n", b"\n"),
    "feature": (read_feature, b'{"features": [', b"1"),
    "names of columns": (lambda path: TABLE_FORMATS.create("long").read(str(path)), b"", b","),
    "sample": (lambda path: propose_format(str(path), {}), b"place,time,count\n", b","),
}  # fmt: skip


@for_each(("name", "end"), [*product(TEXTS, ENDS)])
def test_every_reader_of_compressed_text_has_this_bound(name, end, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_UNPACKED", 10_000)
    read, start, rest = TEXTS[name]
    path = tmp_path / f"a.csv{end}"
    path.write_bytes(ENDS[end](start + rest * 1_000_000))
    with pytest.raises(SourceError, match="when it is decompressed: if that is right, decompress"):
        read(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(SourceError, match="is damaged: it cannot be decompressed"):
        read(path)


@pytest.mark.parametrize("skip", [10_001, 999_999_999_999])
def test_more_lines_above_the_table_than_any_has_are_refused(skip):
    with pytest.raises(InputError, match="skip"):
        TABLE_FORMATS.create("long", skip=skip)


def test_a_line_without_an_end_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "_LONGEST_LINE", 1000)
    line = b"place,time,count\n" + b"A" * 5000 + b",0,1\n" + b"B,0,1\n" * 300
    for name, content in (("a.csv", line), ("a.csv.gz", gzip.compress(line))):
        (tmp_path / name).write_bytes(content)
        (file,) = sources.find(str(tmp_path / name), ("*",), kind="file")
        pieces = sources.slices(file, 100)
        with pytest.raises(SourceError, match="has a line of more than 1,000 bytes"):
            list(chain.from_iterable(sources.text_blocks(piece, 100) for piece in pieces))


@pytest.mark.slow
def test_pieces_have_each_line_once(tmp_path):
    lines = [f"{'x' * (i % 37)},{i}\n".encode() for i in range(500)]
    (tmp_path / "a.csv").write_bytes(b"".join(lines))
    (file,) = sources.find(str(tmp_path / "a.csv"), ("*",), kind="file")
    for size in (1, 7, 100, 10**6):
        pieces = sources.slices(file, size)
        blocks = [block for piece in pieces for block in sources.text_blocks(piece, 100)]
        assert b"".join(blocks).splitlines(keepends=True) == lines
