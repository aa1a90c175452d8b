"""Whatever the records, the cube is what counting by hand gives, and no row is lost."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("dask")

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st
from ingest.oracle import (
    N_EPOCHS,
    START,
    STEP,
    Row,
    content,
    expected,
    ingest_records,
)

from clusterscale.cube.store import TraceCube
from clusterscale.errors import SourceError
from clusterscale.ingestion import IngestReport

pytestmark = [pytest.mark.dask, pytest.mark.usefixtures("small_chunks")]

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0")
USERS = st.one_of(
    st.sampled_from(["ann", "bob", "zoë", "Ω", '"', "a,b", "10", "9"]), st.text(LETTERS)
)
SECONDS = st.integers(START - STEP, START + STEP * (N_EPOCHS + 1))
ISO = ["2023-11-14T22:13:20Z", "2023-11-15T03:45:00+05:30", "2023-02-30T00:00:00Z"]
TIMES = st.one_of(
    SECONDS.map(str),
    SECONDS.map(lambda second: f"{second}.5"),
    st.sampled_from([*ISO, "2023-11-14T22:13:20", "soon", "", "nan", "1e999", "0x10"]),
)
# Quarters, so that edges of cells are met and arithmetic is exact.
DEGREES = st.integers(-2, 34).map(lambda quarters: str(quarters / 4))
PLACES = st.one_of(DEGREES, DEGREES, st.sampled_from(["95", "-190.5", "x", "", "inf"]))
ROWS = st.lists(st.builds(Row, USERS, TIMES, PLACES, PLACES), max_size=40)
GOOD = st.builds(Row, st.just("ann"), st.just(str(START)), st.just("1"), st.just("1"))


def ingest_bytes(
    body: bytes, folder: str, *, block_bytes: int, name: str = "records.csv"
) -> tuple[IngestReport, str]:
    source, cube = Path(folder, name), f"{folder}/cube-{block_bytes}.zarr"
    source.write_bytes(body)
    report = ingest_records(str(source), cube, block_bytes=block_bytes, scheduler="synchronous")
    return report, cube


def as_csv(rows: list[Row], *, quoting: int = csv.QUOTE_MINIMAL) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=quoting)
    writer.writerow(["user", "timestamp", "lat", "lon"])
    writer.writerows([row.user, row.time, row.lat, row.lon] for row in rows)
    return text.getvalue().encode()


def check(report: IngestReport, cube: str, rows: list[Row], n_lost: int = 0) -> None:
    cells, dropped = expected(rows)
    assert content(cube) == cells
    assert report.n_rows == len(rows) + n_lost
    assert report.n_users == len(cells)
    assert report.n_events == sum(map(len, cells.values()))
    dropped["unparsable"] += n_lost
    assert {reason: n for reason, n in report.dropped.items() if n} == {
        reason: n for reason, n in dropped.items() if n
    }
    assert report.n_rows == report.n_events + sum(report.dropped.values())


@pytest.mark.slow
@given(rows=ROWS, first=GOOD, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_csv_gives_what_counting_by_hand_gives_however_it_is_cut(
    rows: list[Row], first: Row, quoting: int
) -> None:
    rows = [first, *rows]
    with tempfile.TemporaryDirectory() as folder:
        fingerprints = set()
        for block_bytes in (1 << 20, 150, 37):
            report, cube = ingest_bytes(
                as_csv(rows, quoting=quoting), folder, block_bytes=block_bytes
            )
            check(report, cube, rows)
            fingerprints.add(TraceCube(cube).fingerprint)
        assert len(fingerprints) == 1


@given(
    rows=ROWS,
    first=GOOD,
    lost=st.lists(
        st.tuples(
            st.integers(0, 40), st.sampled_from(["a,b", "1,2,3,4,5", 'x,"1,2,3', ",,,,", '"'])
        ),
        max_size=6,
    ),
    blank=st.integers(0, 3),
    ending=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
def test_lines_that_are_no_rows_are_counted_and_swallow_nothing(
    rows: list[Row],
    first: Row,
    lost: list[tuple[int, str]],
    blank: int,
    ending: str,
    last: bool,
) -> None:
    rows = [first, *rows]
    head, *lines = as_csv(rows).decode().removesuffix("\n").split("\n")
    for place, line in lost:
        lines.insert(place % (len(lines) + 1), line)
    for place in range(blank):
        lines.insert(place * 3 % (len(lines) + 1), "")
    body = ending.join([head, *lines]) + (ending if last else "")
    with tempfile.TemporaryDirectory() as folder:
        for block_bytes in (1 << 20, 64):
            report, cube = ingest_bytes(body.encode(), folder, block_bytes=block_bytes)
            check(report, cube, rows, len(lost))


def _parquet(rows: list[Row], kind: str) -> tuple[Any, list[Row]]:
    """Return a table with typed columns and the rows that it means."""
    users = pa.array([row.user for row in rows], pa.string())
    numbers = {
        name: pa.array([_typed(getattr(row, name)) for row in rows], pa.float64())
        for name in ("time", "lat", "lon")
    }
    table = pa.table(
        {
            "user": users.dictionary_encode() if kind == "dictionary" else users.cast(kind),
            "timestamp": numbers["time"],
            "lat": numbers["lat"],
            "lon": numbers["lon"],
        }
    )
    typed = [
        Row(row.user, *(_written(_typed(value)) for value in (row.time, row.lat, row.lon)))
        for row in rows
    ]
    return table, typed


def _typed(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _written(value: float | None) -> str | None:
    return None if value is None else repr(value)


@given(
    rows=ROWS,
    first=GOOD,
    kind=st.sampled_from(["dictionary", "string", "large_string"]),
    group=st.integers(1, 50),
)
def test_parquet_gives_what_counting_by_hand_gives_however_it_is_cut(
    rows: list[Row], first: Row, kind: str, group: int
) -> None:
    table, typed = _parquet([first, *rows], kind)
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=group)
    with tempfile.TemporaryDirectory() as folder:
        fingerprints = set()
        for block_bytes in (1 << 20, 80):
            report, cube = ingest_bytes(
                sink.getvalue(), folder, block_bytes=block_bytes, name="records.parquet"
            )
            check(report, cube, typed)
            fingerprints.add(TraceCube(cube).fingerprint)
        assert len(fingerprints) == 1


@given(rows=st.lists(st.builds(Row, USERS, st.just("soon"), PLACES, PLACES), max_size=5))
def test_nothing_usable_is_an_error_and_leaves_nothing(rows: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(SourceError):
            ingest_bytes(as_csv(rows), folder, block_bytes=1 << 20)
        assert [path.name for path in Path(folder).iterdir()] == ["records.csv"]
