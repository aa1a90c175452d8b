"""A reader of records."""

from typing import ClassVar, Literal

from clusterscale.ingestion import Reader, decode, sources, tables
from clusterscale.ingestion.records import Position, Records


class Pings(Reader):
    """Files ``*.ping`` of lines ``user lat lon unixtime``."""

    name: Literal["pings"] = "pings"
    events_per_row = 1
    accepts = "files *.ping of lines: user lat lon unixtime"
    settings = ()
    gives_rois: ClassVar[bool] = False

    def pieces(self, source, size):
        files = sources.find(source, ("*.ping",), kind="file *.ping")
        return [piece for file in files for piece in sources.slices(file, size)]

    def read(self, piece):
        columns = {"user": 0, "lat": 1, "lon": 2, "time": 3}
        for block in sources.text_blocks(piece, tables.BLOCK):
            for batch in tables.parse_lines(block, columns, 4, " "):
                raw, file = batch.columns, piece.file.name
                lat, lon = (decode.numbers(name, raw[name], where=file) for name in ("lat", "lon"))
                user = decode.ids("user", raw["user"], where=file)
                time = decode.times("time", raw["time"], timezone=None, where=file)
                yield Records(user, time, Position(lat, lon), batch.malformed)
