"""Files that are damaged at random: the cube of the sound file, or an error of ours."""

import bz2
import gzip
import lzma
import random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("dask")

from clusterscale.cube import TraceCube
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Box, Grid, Hexagons
from clusterscale.errors import ClusterscaleError, InputError, SourceError
from clusterscale.ingest import READERS, IngestOptions, ingest

pytestmark = pytest.mark.dask

START = 1_704_067_200
CALENDAR = Calendar.parse("2024-01-01T00:00", "1h", 24, "UTC")
BOX = Box(0.0, 0.0, 1.0, 1.0)


def table():
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "user": [f"u{i % 7}" for i in range(60)],
            "timestamp": START + rng.integers(0, 86_400, 60),
            "lat": rng.uniform(0, 1, 60),
            "lon": rng.uniform(0, 1, 60),
        }
    )


def sources(folder):
    csv = table().to_csv(index=False).encode()
    files = {
        "csv.gz": gzip.compress(csv),
        "csv.bz2": bz2.compress(csv),
        "csv.xz": lzma.compress(csv),
    }
    for name, content in files.items():
        (folder / f"sound.{name}").write_bytes(content)
    table().to_parquet(folder / "sound.parquet", write_page_checksum=True)


def fingerprint(source, folder):
    options = IngestOptions(
        reader=READERS.create("events"), locator=Grid(BOX, 3, 3), calendar=CALENDAR
    )
    ingest(str(source), f"{folder}/cube.zarr", options, force=True, scheduler="synchronous")
    return TraceCube(f"{folder}/cube.zarr").fingerprint


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    sources(folder)
    prints = {fingerprint(path, folder) for path in folder.glob("sound.*")}
    assert len(prints) == 1
    return folder, prints.pop()


# Zip-like containers have a checksum; Parquet has one for each page, but not for its metadata.
@given(
    st.sampled_from(["csv.gz", "csv.bz2", "csv.xz", "parquet"]),
    st.sampled_from(["flip", "cut", "append", "zero"]),
    st.integers(0, 10**6),
)
def test_damage_is_an_error_or_changes_nothing(sound, tmp_path_factory, ending, kind, seed):
    folder, wanted = sound
    rng = random.Random(seed)
    content = bytearray((folder / f"sound.{ending}").read_bytes())
    position = rng.randrange(len(content))
    if kind == "flip":
        content[position] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del content[position:]
    elif kind == "append":
        content += rng.randbytes(20)
    else:
        content[position : position + 8] = bytes(len(content[position : position + 8]))
    path = tmp_path_factory.mktemp("damaged") / f"sound.{ending}"
    path.write_bytes(content)
    try:
        found, message = fingerprint(path, path.parent), ""
    except ClusterscaleError as error:
        found, message = "", str(error)
    if message:
        assert "u3" not in message
        assert sorted(path.parent.iterdir()) == [path]
    else:
        assert found == wanted


def test_a_moved_event_in_a_page_of_parquet_is_found(sound, tmp_path):
    folder, _wanted = sound
    content = (folder / "sound.parquet").read_bytes()
    lat = np.float64(table()["lat"][5]).tobytes()
    at = content.find(lat)
    if at < 0:
        table().to_parquet(tmp_path / "plain.parquet", write_page_checksum=True, compression=None,
                           use_dictionary=False)  # fmt: skip
        content = (tmp_path / "plain.parquet").read_bytes()
        at = content.find(lat)
    assert at > 0
    (tmp_path / "moved.parquet").write_bytes(
        content[:at] + np.float64(0.01).tobytes() + content[at + 8 :]
    )
    with pytest.raises(SourceError, match=r"moved\.parquet"):
        fingerprint(tmp_path / "moved.parquet", tmp_path)


def test_a_parquet_file_without_row_groups_has_no_records(tmp_path):
    table()[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(InputError, match=r"none\.parquet"):
        fingerprint(tmp_path / "none.parquet", tmp_path)


def test_absurd_regions_are_refused_before_they_are_made():
    for text in ("0,0,1,1/100000x100000", "0,0,1,1/1x99999999999999999999"):
        with pytest.raises(InputError, match="more than 10,000,000 regions"):
            Grid.parse(text)
    with pytest.raises(InputError, match="more than 10,000,000 regions"):
        Hexagons.parse("40,-5,50,10/15")
    assert len(Hexagons.parse("37.7282,-122.4528,37.8021,-122.3637/8").regions) > 50
