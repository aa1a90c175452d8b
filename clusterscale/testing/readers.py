"""Checks of readers of records."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from clusterscale.ingestion import Reader
from clusterscale.testing.checks import Check, expect, named, run

__all__ = ["check_reader", "checks_of_reader"]

_WHOLE, _SMALL = 1 << 30, 40  # bytes of a piece: all records in one, and about one in each


def check_reader(reader: Reader | type[Reader], source: str) -> None:
    """Check a reader of records.

    Parameters
    ----------
    reader
        An object, or a class that needs no settings.
    source
        Path or URL of valid records of the format, at least two.

    Raises
    ------
    AssertionError
        Naming the first failed check, what is wrong and what would be right.
    """
    run(checks_of_reader(), reader, source)


def checks_of_reader() -> Iterator[tuple[str, Check]]:
    """List the checks of a reader, which also take a source.

    Yields
    ------
    tuple[str, Callable[..., None]]
        Name and function; the function takes a class or an object, and raises AssertionError.
    """
    yield from named(Reader, globals())


def _records(reader: Reader, source: str, size: int) -> list[Any]:
    return [records for piece in reader.pieces(source, size) for records in reader.read(piece)]


def _rows(reader: Reader, source: str, size: int) -> list[tuple[Any, ...]]:
    """Return user, time and place of all records, sorted."""
    rows: list[tuple[Any, ...]] = []
    for records in _records(reader, source, size):
        columns = [
            column.names.take(column.codes).to_pylist()
            if hasattr(column, "codes")
            else column.values.tolist()
            for column in records.columns
        ]
        rows += zip(*columns, strict=True)
    return sorted(rows)


def describes_itself(reader: Reader, source: str) -> None:
    """``accepts`` says which files it reads, ``settings`` which fields are no columns.

    ``events_per_row`` is the number of events of a row.
    """
    expect(reader.accepts, "accepts is empty")
    fields = set(type(reader).model_fields)
    unknown = [name for name in reader.settings if name not in fields]
    expect(not unknown, f"settings names {unknown}, which are no fields")
    expect(reader.events_per_row >= 1, f"events_per_row is {reader.events_per_row}")


def reads_records(reader: Reader, source: str) -> None:
    """Records of the source have a user, a time and a place each, all readable."""
    batches = _records(reader, source, _WHOLE)
    expect(sum(map(len, batches)) >= 2, "fewer than two records are read")
    for records in batches:
        lengths = {len(column.bad) for column in records.columns}
        expect(lengths == {len(records)}, f"columns of one run have lengths {sorted(lengths)}")
        bad = [column.name for column in records.columns if column.bad.any()]
        expect(not bad, f"values of {bad} cannot be read")
        expect(records.malformed.count == 0, "lines of a valid source are called malformed")


def names_rois_as_announced(reader: Reader, source: str) -> None:
    """The place of a record is the name of a ROI if ``gives_rois``, otherwise a position."""
    for records in _records(reader, source, _WHOLE):
        named_roi = hasattr(records.place, "codes")
        expect(named_roi == reader.gives_rois, f"gives_rois is {reader.gives_rois}")
        if not named_roi:
            place = records.place
            within = (np.abs(place.lat.values) <= 90) & (np.abs(place.lon.values) <= 180)
            expect(within.all(), "a latitude is beyond 90 or a longitude beyond 180 degrees")


def reads_the_same_twice(reader: Reader, source: str) -> None:
    """Reading a source twice gives the same records."""
    expect(_rows(reader, source, _WHOLE) == _rows(reader, source, _WHOLE), "records differ")


def reads_the_same_in_pieces(reader: Reader, source: str) -> None:
    """Small and large pieces together give the same records, each once."""
    whole, parts = (_rows(reader, source, size) for size in (_WHOLE, _SMALL))
    expect(
        whole == parts, f"{len(parts)} records in small pieces, {len(whole)} in one: they differ"
    )
