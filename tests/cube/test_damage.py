"""Stores that are damaged, of another kind or not there: each with its error, word by word."""

from __future__ import annotations

import json
import shutil
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr
from cube import crowd
from loops import mostly_slow

from clusterscale.cube import TraceCube
from clusterscale.cube.attributes import digest
from clusterscale.cube.describe import summarise
from clusterscale.errors import (
    ClusterscaleError,
    DamagedError,
    FormatError,
    InputError,
    MissingError,
)

DENSE = crowd.draw(20, 5, 6, seed=3)
N_EVENTS = int(DENSE.sum())
COMPLETE = "{uri} is not a complete clusterscale cube"
SEAL = "{uri}: the attributes in zarr.json are corrupt"
BYTES = "is damaged: it is not the one that was written"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A cube of many chunks, and one whose arrays fit one chunk each."""
    root = tmp_path_factory.mktemp("sound")
    crowd.write(root / "whole", DENSE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clusterscale.cube.writer.CHUNK", 8)
        crowd.write(root / "chunked", DENSE)
    return root


def flip(name, at=-9):
    def damage(cube):
        raw = bytearray((cube / name).read_bytes())
        raw[at] ^= 1
        (cube / name).write_bytes(raw)

    return damage


def put(name, content):
    return lambda cube: (cube / name).write_bytes(content)


def truncate(name):
    return lambda cube: (cube / name).write_bytes((cube / name).read_bytes()[:-5])


def lose(name):
    def damage(cube):
        path = cube / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


def edit(name, *path_and_value, seal=False):
    """Set a value deep in a JSON file; with ``seal``, as somebody who knows the digest."""
    *path, last, value = path_and_value

    def damage(cube):
        content = json.loads((cube / name).read_text())
        inner = content
        for key in path:
            inner = inner[key]
        inner[last] = value
        if seal:
            content["attributes"].pop("digest")
            content["attributes"]["digest"] = digest(content["attributes"])
        (cube / name).write_text(json.dumps(content))

    return damage


def crafted(damage):
    """Damage a cube as somebody who knows all digests and writes them anew."""

    def craft(cube):
        damage(cube)
        content = json.loads((cube / "zarr.json").read_text())
        attributes = content["attributes"]
        attributes["files"] = {
            str(path.relative_to(cube)): blake2b(path.read_bytes(), digest_size=16).hexdigest()
            for path in cube.rglob("*")
            if path.is_file() and path != cube / "zarr.json"
        }
        attributes.pop("digest")
        attributes["digest"] = digest(attributes)
        (cube / "zarr.json").write_text(json.dumps(content))

    return craft


def instead(make):
    def damage(cube):
        shutil.rmtree(cube)
        make(cube)

    return damage


def dense_store(zarr_format):
    trace = xr.DataArray(DENSE, dims=("user", "roi", "epoch"), name="seen")
    return lambda cube: trace.to_zarr(cube, zarr_format=zarr_format, consolidated=False)


def swap_for_group(cube):
    shutil.rmtree(cube / "roi")
    zarr.create_group(cube / "roi")


def shorter_offsets(cube):
    array = zarr.open_array(cube / "user_offset", mode="r+")
    values = array[:]
    values[3:5] = values[3:5][::-1]
    array[:] = values


HINT = (
    "; its array seen has three dimensions: "
    "`clusterscale pack` turns a dense cube into an event cube"
)


def unsorted_events(cube):
    array = zarr.open_array(cube / "event_cell", mode="r+")
    values = array[:]
    values[:2] = values[:2][::-1]
    array[:] = values


def events_nowhere(cube):
    zarr.open_array(cube / "event_cell", mode="r+")[:] = 30


def renamed_chunk(cube):
    (cube / "event_cell/c/2").rename(cube / "event_cell/c/200")


CORPUS = {
    "events beyond the cells": (
        crafted(events_nowhere),
        DamagedError,
        "{uri}: cells from 30 to 30 are not within 0 to 29: 5 ROIs and 6 epochs",
    ),
    "events that do not increase": (
        crafted(unsorted_events),
        DamagedError,
        "{uri}: the cells of row 0 do not increase",
    ),
    "byte of events": (
        flip("event_cell/c/4"),
        DamagedError,
        f"{{uri}}: chunk 4 of event_cell {BYTES}",
    ),
    "byte of the first events": (
        flip("event_cell/c/0", 2),
        DamagedError,
        f"{{uri}}: chunk 0 of event_cell {BYTES}",
    ),
    "byte of offsets": (
        flip("user_offset/c/1"),
        DamagedError,
        f"{{uri}}: chunk 1 of user_offset {BYTES}",
    ),
    "byte of pseudonyms": (flip("user/c/2"), DamagedError, f"{{uri}}: chunk 2 of user {BYTES}"),
    "byte of region names": (flip("roi/c/0"), DamagedError, f"{{uri}}: chunk 0 of roi {BYTES}"),
    "byte of latitudes": (
        flip("roi_lat/c/0"),
        DamagedError,
        f"{{uri}}: chunk 0 of roi_lat {BYTES}",
    ),
    "chunk of events lost": (
        lose("event_cell/c/3"),
        DamagedError,
        "{uri}: chunk 3 of event_cell is missing",
    ),
    "chunk of offsets lost": (
        lose("user_offset/c/0"),
        DamagedError,
        "{uri}: chunk 0 of user_offset is missing",
    ),
    "chunk of pseudonyms lost": (
        lose("user/c/1"),
        DamagedError,
        "{uri}: chunk 1 of user is missing",
    ),
    "chunk of longitudes lost": (
        lose("roi_lon/c"),
        DamagedError,
        "{uri}: chunk 0 of roi_lon is missing",
    ),
    "chunk truncated": (
        truncate("event_cell/c/5"),
        DamagedError,
        f"{{uri}}: chunk 5 of event_cell {BYTES}",
    ),
    "chunk empty": (
        put("event_cell/c/1", b""),
        DamagedError,
        f"{{uri}}: chunk 1 of event_cell {BYTES}",
    ),
    "chunk of another array": (
        lambda cube: shutil.copy(cube / "roi/c/0", cube / "event_cell/c/2"),
        DamagedError,
        f"{{uri}}: chunk 2 of event_cell {BYTES}",
    ),
    "chunk that cannot be decoded": (
        crafted(flip("event_cell/c/4")),
        DamagedError,
        f"{{uri}}: values 0 to {N_EVENTS} of event_cell cannot be decoded",
    ),
    "chunk of another name": (
        crafted(renamed_chunk),
        DamagedError,
        f"{{uri}}: array event_cell has {-(-N_EVENTS // 8)} chunks of 8 for {N_EVENTS} values",
    ),
    "chunks by another name": (
        crafted(edit("roi/zarr.json", "chunk_key_encoding", {"name": "v2"})),
        DamagedError,
        "{uri}: array roi has 1 chunks of 5 for 5 values",
    ),
    "chunk lost, and its digest": (
        crafted(lose("event_cell/c/3")),
        DamagedError,
        f"{{uri}}: array event_cell has {-(-N_EVENTS // 8) - 1} chunks of 8 for {N_EVENTS} values",
    ),
    "offsets that fall": (
        crafted(shorter_offsets),
        DamagedError,
        "{uri}: user_offset does not increase from 0 to n_events",
    ),
    "array lost": (lose("event_cell"), DamagedError, "{uri}/event_cell/zarr.json is missing"),
    "array lost, and its digests": (
        crafted(lose("event_cell")),
        DamagedError,
        "{uri}: array event_cell is missing",
    ),
    "array without metadata": (
        lose("user/zarr.json"),
        DamagedError,
        "{uri}/user/zarr.json is missing",
    ),
    "metadata of an array no JSON": (
        crafted(put("roi/zarr.json", b"{")),
        DamagedError,
        "{uri}: the metadata of array roi is damaged",
    ),
    "array with another codec": (
        crafted(edit("roi/zarr.json", "codecs", 0, "name", "rot13")),
        DamagedError,
        "{uri}: the metadata of array roi is damaged",
    ),
    "array of another shape": (
        crafted(edit("user_offset/zarr.json", "shape", [3, 7])),
        DamagedError,
        "{uri}: the metadata of array user_offset is damaged",
    ),
    "array of another size": (
        crafted(edit("event_cell/zarr.json", "shape", [N_EVENTS + 1])),
        DamagedError,
        f"{{uri}}: array event_cell has shape ({N_EVENTS + 1},), not ({N_EVENTS},)",
    ),
    "array of another chunk size": (
        crafted(edit("event_cell/zarr.json", "chunk_grid", "configuration", "chunk_shape", [16])),
        DamagedError,
        f"{{uri}}: array event_cell has {-(-N_EVENTS // 8)} chunks of 16 for {N_EVENTS} values",
    ),
    "array that is a group": (
        crafted(swap_for_group),
        DamagedError,
        "{uri}: roi is a group, not an array",
    ),
    "attribute edited": (edit("zarr.json", "attributes", "n_users", 19), DamagedError, SEAL),
    "calendar edited": (
        edit("zarr.json", "attributes", "calendar", "start", 0),
        DamagedError,
        SEAL,
    ),
    "attribute edited and sealed": (
        edit("zarr.json", "attributes", "n_users", 19, seal=True),
        DamagedError,
        "{uri}: array user has shape (20,), not (19,)",
    ),
    "fingerprint of another cube": (
        edit("zarr.json", "attributes", "fingerprint", "0" * 32, seal=True),
        DamagedError,
        "{uri}: the content does not match the stored fingerprint",
    ),
    "version of the future": (
        edit("zarr.json", "attributes", "version", 3),
        FormatError,
        "{uri} is a cube of version 3; this clusterscale reads version 2: ingest it again",
    ),
    "format absent": (edit("zarr.json", "attributes", "format", None), FormatError, COMPLETE),
    "never sealed": (edit("zarr.json", "attributes", {}), FormatError, COMPLETE),
    "root no JSON": (
        put("zarr.json", b'{"zarr'),
        FormatError,
        "{uri} is not a readable Zarr group",
    ),
    "root no text": (put("zarr.json", b"\xff"), FormatError, "{uri} is not a readable Zarr group"),
    "root empty": (put("zarr.json", b""), FormatError, "{uri} is not a readable Zarr group"),
    "root a list": (put("zarr.json", b"[1]"), FormatError, "{uri} is not a readable Zarr group"),
    "root lost": (lose("zarr.json"), FormatError, "{uri} is not a readable Zarr group"),
    "an array, not a group": (
        lambda cube: shutil.copy(cube / "roi/zarr.json", cube / "zarr.json"),
        FormatError,
        "{uri} is not a readable Zarr group",
    ),
    "file": (
        instead(lambda cube: cube.write_text("ann,1,2")),
        FormatError,
        "{uri} is not a readable Zarr group",
    ),
    "empty folder": (instead(Path.mkdir), FormatError, "{uri} is not a readable Zarr group"),
    "nothing": (instead(lambda cube: None), MissingError, "{uri}: nothing is stored there"),
    "old Zarr": (
        instead(lambda cube: zarr.create_group(cube, zarr_format=2)),
        FormatError,
        COMPLETE,
    ),
    "dense cube": (instead(dense_store(3)), FormatError, COMPLETE + HINT),
    "dense cube, old Zarr": (instead(dense_store(2)), FormatError, COMPLETE + HINT),
}


@mostly_slow(("damage", "error", "message"), CORPUS.values(), n_quick=15, ids=CORPUS)
def test_corpus(sound, tmp_path, damage, error, message):
    shutil.copytree(sound / "chunked", tmp_path / "cube")
    damage(tmp_path / "cube")
    with pytest.raises(ClusterscaleError) as caught:
        summarise(TraceCube(tmp_path / "cube"))
    assert (type(caught.value), str(caught.value)) == (
        error,
        message.format(uri=tmp_path / "cube"),
    )


def test_unknown_protocol(monkeypatch):
    monkeypatch.setenv("CLUSTERSCALE_PROTOCOLS", "foo")
    with pytest.raises(InputError) as caught:
        TraceCube("foo://x")
    assert str(caught.value) == "foo://x: Protocol not known: foo"


def content(uri):
    cube = TraceCube(uri)
    summarise(cube)
    traces = cube.traces()
    return (
        cube.attributes,
        cube.user_ids().tolist(),
        cube.regions.names,
        cube.regions.lat.tolist(),
        cube.regions.lon.tolist(),
        traces.offsets.tolist(),
        traces.cells.tolist(),
        traces.cells.dtype,
    )


def _is_told_or_harmless(cube, path, raw, before):
    path.write_bytes(raw)
    try:
        return content(cube) == before
    except ClusterscaleError:
        return True


@mostly_slow("kind", ["whole", "chunked"])
def test_any_flipped_or_lost_byte_is_told_or_harmless(sound, tmp_path, kind):
    """In any file, at any place: an error of ours, or exactly what was written."""
    cube = shutil.copytree(sound / kind, tmp_path / "cube")
    before = content(cube)
    rng = np.random.default_rng(7)
    files = sorted(path for path in cube.rglob("*") if path.is_file())
    paths = [cube / "zarr.json"] * 20 + [files[i] for i in rng.permutation(len(files))[:12]] * 4
    for path in paths:
        raw = path.read_bytes()
        at = int(rng.integers(len(raw)))
        flipped = bytearray(raw)
        flipped[at] ^= 1 << int(rng.integers(8))
        assert _is_told_or_harmless(cube, path, flipped, before), (path.name, at)
        if rng.random() < 0.25:
            assert _is_told_or_harmless(cube, path, raw[:at], before), (path.name, "cut", at)
        path.write_bytes(raw)
    assert content(cube) == before
