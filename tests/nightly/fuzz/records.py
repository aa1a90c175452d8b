"""Sound records in every format."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import zipfile
from pathlib import Path
from typing import Any

from fuzz.runner import ID

__all__ = ["CALENDAR", "GRID", "draw", "in_every_format", "ingest_events"]

START = 1_704_067_200  # 2024-01-01, UTC
GRID = ("--grid", "0,0,1,1/3x3")
CALENDAR = ("--start", "2024-01-01T00:00", "--epochs", "24")


def draw(rng: random.Random, n_rows: int) -> list[dict[str, Any]]:
    """Return records of a few users."""
    return [
        {
            "user": ID.format(rng.randrange(7)),
            "timestamp": START + rng.randrange(86_400),
            "lat": round(rng.random(), 6),
            "lon": round(rng.random(), 6),
        }
        for _ in range(n_rows)
    ]


def in_every_format(table: list[dict[str, Any]]) -> dict[str, bytes]:
    """Return the content of a file of each format, by its ending."""
    import pandas as pd

    frame = pd.DataFrame(table)
    csv = frame.to_csv(index=False).encode()
    plain, pages = io.BytesIO(), io.BytesIO()
    frame.to_parquet(plain, write_page_checksum=True)
    frame.to_parquet(pages, write_page_checksum=True, compression=None, use_dictionary=False,
                     row_group_size=9, data_page_size=64)  # fmt: skip
    features = [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": [row["lon"], row["lat"]]},
            "properties": {"user": row["user"], "timestamp": row["timestamp"]},
        }
        for row in table
    ]
    with zipfile.ZipFile(packed := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sound.csv", csv)
    cabs = "".join(f"{row['lat']} {row['lon']} 0 {row['timestamp']}\n" for row in table)
    return {
        ".csv": csv,
        ".csv.gz": gzip.compress(csv),
        ".csv.bz2": bz2.compress(csv),
        ".csv.xz": lzma.compress(csv),
        ".csv.zip": packed.getvalue(),
        ".parquet": plain.getvalue(),
        ".pages.parquet": pages.getvalue(),
        ".geojson": json.dumps({"type": "FeatureCollection", "features": features}).encode(),
        ".geojsonl": "".join(f"{json.dumps(feature)}\n" for feature in features).encode(),
        ".cabs": cabs.encode(),
    }


def ingest_events(source: Path, cube: Path) -> str:
    """Return the fingerprint of the cube of sound records."""
    from clusterscale.cube import Calendar, Grid, TraceCube
    from clusterscale.ingestion import READERS, IngestOptions, ingest

    options = IngestOptions(
        reader=READERS.create("events"),
        locator=Grid.parse(GRID[1]),
        calendar=Calendar.parse(CALENDAR[1], "1h", int(CALENDAR[3]), "UTC"),
    )
    ingest(str(source), str(cube), options, force=True)
    return TraceCube(str(cube)).fingerprint
