"""Reader of tables with one trip per row: stations and times of its beginning and end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from clusterscale.contracts import ConfigModel
from clusterscale.ingest import decode, tables
from clusterscale.ingest.fields import Delimiter, Zone
from clusterscale.ingest.records import Records
from clusterscale.ingest.sources import Piece

__all__ = ["Trips"]


class Trips(ConfigModel):
    """Parquet or CSV, a file or a folder of one kind: one trip per row, which is two events.

    A trip with one end missing (an unfinished journey) still gives the other event.

    Attributes
    ----------
    user
        Name of the column.
    start, start_time, end, end_time
        Names of the columns with the stations (the ROIs) and the times.
    timezone
        Time zone of times without one; if not set, such times are refused.
    delimiter
        Field separator of a CSV file.
    """

    name: Literal["trips"] = "trips"
    user: str = "user"
    start: str = "start_station"
    start_time: str = "start_time"
    end: str = "end_station"
    end_time: str = "end_time"
    timezone: Zone | None = None
    delimiter: Delimiter = ","

    events_per_row: ClassVar[int] = 2
    accepts: ClassVar[str] = f"{tables.ACCEPTS}; {decode.TIMES}"
    settings: ClassVar[tuple[str, ...]] = ("timezone", "delimiter")

    @property
    def gives_rois(self) -> bool:
        """True: stations are named."""
        return True

    def pieces(self, source: str, size: int) -> list[Piece]:
        """Return row groups, or runs of lines."""
        return tables.pieces(source, size)

    def read(self, piece: Piece) -> Iterator[Records]:
        """Yield the beginnings of trips, then their ends, batch by batch."""
        file = piece.file.name
        ends = ((self.start, self.start_time), (self.end, self.end_time))
        columns = list(dict.fromkeys((self.user, *ends[0], *ends[1])))
        for batch in tables.batches(piece, columns, delimiter=self.delimiter):
            raw = batch.columns
            user = decode.ids(self.user, raw[self.user], where=file)
            for station, time in ends:
                yield Records(
                    user,
                    decode.times(time, raw[time], timezone=self.timezone, where=file),
                    decode.ids(station, raw[station], where=file),
                    batch.malformed,
                )
