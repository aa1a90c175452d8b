"""Columns as written into columns as meant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from loops import for_each

pytest.importorskip("dask")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from clusterscale.reading import decode

pytestmark = pytest.mark.dask

MOMENT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def times(raw: Any, timezone: str | None = None) -> list[float]:
    return decode.times("t", raw, timezone=timezone, where="F").values.tolist()


@for_each(
    "text",
    [
        "1700000000",
        "1.7e9",
        " 1700000000.0 ",
        "2023-11-14T22:13:20Z",
        "2023-11-14 22:13:20Z",
        "2023-11-14T22:13:20.000000000Z",
        "2023-11-14T23:13:20+01:00",
        "2023-11-15T03:43:20+0530",
        "2023-11-14T12:13:20 -10",
    ],
)
def test_text_that_is_a_time(text: str) -> None:
    assert times(pa.array([text])) == [1.7e9]
    assert times(pa.array([text.encode()])) == [1.7e9]
    assert times(pa.array([text, "x"]).dictionary_encode())[0] == 1.7e9


@for_each(
    "text",
    ["", "noon", "nan", "inf", "2023-11-14", "2023-11-14T22:13:20", "2023-13-14T22:13:20Z", "1_0"],
)
def test_text_that_is_no_time(text: str) -> None:
    column = decode.times("t", pa.array([text, None]), timezone=None, where="F")
    assert column.bad.tolist() == [True, True]
    assert column.fault(1) == "is missing"


def test_times_without_a_zone_are_told_in_the_zone_given() -> None:
    raw = pa.array(["2023-07-01T00:00", "2023-07-01T00:00Z", "2023-01-01 00:00:00.5"])
    summer, utc, winter = times(raw, "Europe/Paris")
    assert summer == datetime(2023, 6, 30, 22, tzinfo=UTC).timestamp()
    assert utc == datetime(2023, 7, 1, tzinfo=UTC).timestamp()
    assert winter == datetime(2022, 12, 31, 23, tzinfo=UTC).timestamp() + 0.5


def test_the_repeated_hour_is_its_first_and_the_skipped_hour_is_no_time() -> None:
    raw = ["2008-11-02T01:30", "2008-03-09T02:30"]
    naive = pa.array([datetime.fromisoformat(text) for text in raw], pa.timestamp("ms"))
    for column in (pa.array(raw), naive):
        repeated, skipped = times(column, "America/Los_Angeles")
        assert repeated == datetime(2008, 11, 2, 8, 30, tzinfo=UTC).timestamp()
        assert np.isnan(skipped)


@for_each("unit", ["s", "ms", "us", "ns"])
@for_each("zone", ["UTC", "America/Los_Angeles", "+05:30"])
def test_timestamps_are_moments_whatever_their_zone(unit: str, zone: str) -> None:
    values = times(pa.array([MOMENT, None], pa.timestamp(unit, zone)))
    assert values[0] == MOMENT.timestamp()
    assert np.isnan(values[1])


@given(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), st.integers(-720, 720))
def test_iso_text_is_read_as_python_reads_it(moment: datetime, offset: int) -> None:
    sign, minutes = "-" if offset < 0 else "+", abs(offset)
    text = f"{moment.isoformat()}{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    assert times(pa.array([text]))[0] == pytest.approx(
        datetime.fromisoformat(text).timestamp(), abs=2e-6
    )


@given(st.lists(st.floats(-180, 180, width=32), max_size=30))
def test_a_float32_is_read_as_the_shortest_decimal_that_rounds_to_it(values: list[float]) -> None:
    single = np.array(values, np.float32)
    column = decode.numbers("lat", pa.array(single, pa.float32()), where="F")
    assert column.values.tolist() == [float(str(value)) for value in single]


@given(st.integers(-18_000_000, 18_000_000))
def test_a_decimal_of_five_places_survives_float32(hundred_thousandths: int) -> None:
    decimal = hundred_thousandths / 1e5
    read = decode.numbers("lon", pa.array(np.array([decimal], np.float32)), where="F").values[0]
    if abs(decimal) < 128:
        assert read == decimal
    else:  # float32 is coarser there
        assert read == pytest.approx(decimal, abs=2e-5)


@given(st.lists(st.one_of(st.floats(), st.integers()), min_size=1))
def test_numbers_written_by_python_are_read(values: list[float]) -> None:
    column = decode.numbers("x", pa.array([repr(value) for value in values] + ["x"]), where="F")
    finite = [float(v) if abs(float(v)) < np.inf else np.nan for v in values]
    np.testing.assert_array_equal(column.values, [*finite, np.nan])


def test_ids_that_are_missing_or_no_text_are_bad_and_the_others_keep_their_names() -> None:
    raw = pa.array([b"ann", b"", None, b"\xff", "zoë".encode(), b"ann"])
    column = decode.ids("user", raw, where="F")
    assert column.bad.tolist() == [False, True, True, True, False, False]
    names = column.names.to_pylist()
    assert [names[code] for code in column.codes[~column.bad]] == ["ann", "zoë", "ann"]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.int64()])
def test_ids_that_are_integers_become_their_decimal_text(kind: Any) -> None:
    plain = pa.array([7, None, 10], kind)
    for raw in (plain, plain.dictionary_encode().cast(pa.dictionary(pa.uint8(), kind))):
        column = decode.ids("user", raw, where="F")
        assert column.bad.tolist() == [False, True, False]
        assert [column.names[int(code)].as_py() for code in column.codes[[0, 2]]] == ["7", "10"]
