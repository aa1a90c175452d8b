"""Reader of tables with one event per row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from clusterscale.contracts import ConfigModel
from clusterscale.ingest import decode, tables
from clusterscale.ingest.fields import Delimiter, Zone
from clusterscale.ingest.records import Place, Position, Records
from clusterscale.ingest.sources import Piece
from clusterscale.ingest.tables import ColumnBatch

__all__ = ["Events"]


class Events(ConfigModel):
    """Parquet or CSV, a file or a folder of one kind: one event per row.

    Attributes
    ----------
    user, time
        Names of the columns. Times are epoch seconds, timestamps or ISO 8601 text.
    lat, lon
        Names of the columns with the position in degrees; not read if ``roi`` is set.
    roi
        Name of the column with the name of the ROI.
    timezone
        Time zone of times without one; if not set, such times are refused.
    delimiter
        Field separator of a CSV file.
    """

    name: Literal["events"] = "events"
    user: str = "user"
    time: str = "timestamp"
    lat: str = "lat"
    lon: str = "lon"
    roi: str | None = None
    timezone: Zone | None = None
    delimiter: Delimiter = ","

    events_per_row: ClassVar[int] = 1
    accepts: ClassVar[str] = f"{tables.ACCEPTS}; {decode.TIMES}; positions in decimal degrees"
    settings: ClassVar[tuple[str, ...]] = ("timezone", "delimiter")

    @property
    def gives_rois(self) -> bool:
        """Whether a column contains the ROI."""
        return self.roi is not None

    def pieces(self, source: str, size: int) -> list[Piece]:
        """Return row groups, or runs of lines."""
        return tables.pieces(source, size)

    def read(self, piece: Piece) -> Iterator[Records]:
        """Yield the events of a piece."""
        place = [self.lat, self.lon] if self.roi is None else [self.roi]
        file = piece.file.name
        for batch in tables.batches(
            piece, [self.user, self.time, *place], delimiter=self.delimiter
        ):
            yield Records(
                decode.ids(self.user, batch.columns[self.user], where=file),
                decode.times(
                    self.time, batch.columns[self.time], timezone=self.timezone, where=file
                ),
                self._place(batch, file),
                batch.malformed,
            )

    def _place(self, batch: ColumnBatch, file: str) -> Place:
        if self.roi is not None:
            return decode.ids(self.roi, batch.columns[self.roi], where=file)
        return Position(
            decode.numbers(self.lat, batch.columns[self.lat], where=file),
            decode.numbers(self.lon, batch.columns[self.lon], where=file),
        )
