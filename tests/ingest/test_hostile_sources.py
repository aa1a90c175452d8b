"""Damaged and absurd sources; `nightly/fuzz/sources.py` damages others at random."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("dask")

from clusterscale.cube import TraceCube
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Box, Grid, Hexagons
from clusterscale.errors import InputError, SourceError
from clusterscale.ingestion import READERS, IngestOptions, ingest

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


def fingerprint(source, folder):
    options = IngestOptions(
        reader=READERS.create("events"), locator=Grid(BOX, 3, 3), calendar=CALENDAR
    )
    ingest(str(source), f"{folder}/cube.zarr", options, force=True, scheduler="synchronous")
    return TraceCube(f"{folder}/cube.zarr").fingerprint


def test_a_moved_event_in_a_page_of_parquet_is_found(tmp_path):
    table().to_parquet(tmp_path / "plain.parquet", write_page_checksum=True, compression=None,
                       use_dictionary=False)  # fmt: skip
    content = (tmp_path / "plain.parquet").read_bytes()
    at = content.find(np.float64(table()["lat"][5]).tobytes())
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
