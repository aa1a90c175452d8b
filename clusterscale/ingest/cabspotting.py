"""Reader of the San Francisco cabs: a folder with one text file per cab."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from clusterscale.contracts import ConfigModel
from clusterscale.ingest import decode, sources, tables
from clusterscale.ingest.decode import Ids
from clusterscale.ingest.records import Position, Records
from clusterscale.ingest.sources import Piece

__all__ = ["Cabspotting"]

_COLUMNS = {"lat": 0, "lon": 1, "time": 3}


class Cabspotting(ConfigModel):
    """Files ``new_CAB.txt`` of lines ``lat lon occupied unixtime``, in any order.

    The user is the part of the file's name after ``new_``. Source: CRAWDAD epfl/mobility.
    """

    name: Literal["cabspotting"] = "cabspotting"

    events_per_row: ClassVar[int] = 1
    accepts: ClassVar[str] = "files new_CAB.txt of lines: lat lon occupied unixtime"
    settings: ClassVar[tuple[str, ...]] = ()

    @property
    def gives_rois(self) -> bool:
        """False: cabs have positions."""
        return False

    def pieces(self, source: str, size: int) -> list[Piece]:
        """Return runs of lines."""
        files = sources.find(source, ("new_*.txt",), kind="file new_*.txt")
        return [piece for file in files for piece in sources.slices(file, size)]

    def read(self, piece: Piece) -> Iterator[Records]:
        """Yield the fixes of a piece."""
        file = piece.file.name
        cab = posixpath.basename(file).removeprefix("new_").removesuffix(".txt")
        for block in sources.text_blocks(piece, tables.BLOCK):
            for batch in tables.parse_lines(block, _COLUMNS, 4, " "):
                columns = batch.columns
                codes = np.zeros(len(columns["time"]), np.int64)
                yield Records(
                    Ids("user", codes, pa.array([cab])),
                    decode.times("time", columns["time"], timezone=None, where=file),
                    Position(
                        decode.numbers("lat", columns["lat"], where=file),
                        decode.numbers("lon", columns["lon"], where=file),
                    ),
                    batch.malformed,
                )
