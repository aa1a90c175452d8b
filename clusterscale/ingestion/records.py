"""Decoded records in the order of their source, and the base of readers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from clusterscale.contracts import ConfigModel
from clusterscale.foreign import Fault, returns
from clusterscale.reading.decode import Ids, Numbers
from clusterscale.reading.sources import Piece
from clusterscale.reading.tables import NONE, Malformed

LIMITS = {"lat": 90.0, "lon": 180.0}
"""Largest degrees of a position."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where an event was, in degrees."""

    lat: Numbers
    lon: Numbers


Place = Position | Ids


@dataclass(frozen=True, slots=True)
class LeftOut:
    """The number of rows that a reader leaves out, and texts that all rows have in the columns.

    ``texts`` are, by column of ``where``, those looked for and the first others in text order.
    """

    count: int = 0
    texts: Mapping[str, Set[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Records:
    """A run of records, one event each; ``malformed`` lines are not included in them.

    ``stratum`` is a category of each event or its user; None if the reader gives none. ``left_out``
    are rows that the reader leaves out, which are not included either.
    """

    user: Ids
    time: Numbers
    place: Place
    malformed: Malformed = NONE
    stratum: Ids | None = None
    left_out: LeftOut = LeftOut()

    def __len__(self) -> int:
        return len(self.user.codes)

    @property
    def columns(self) -> Sequence[Ids | Numbers]:
        """User, time, place and category, in the order in which faults are reported."""
        place = self.place
        positions = (place.lat, place.lon) if isinstance(place, Position) else (place,)
        stratum = () if self.stratum is None else (self.stratum,)
        return (self.user, self.time, *positions, *stratum)


class Reader(ConfigModel):
    """A format of records: finds the pieces of a source and decodes them one by one."""

    _registry: ClassVar[str] = "clusterscale.ingestion:READERS"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {
        "pieces": returns(list),
        "read": returns(Records, has=("__next__",), what="records"),
    }
    if TYPE_CHECKING:
        name: str  # a literal, with itself as its default: the key in the registry

    gives_rois: ClassVar[bool]
    """Whether events name their ROI; otherwise they have a position."""
    events_per_row: ClassVar[int]
    accepts: ClassVar[str]
    """Supported files and values, for messages."""
    settings: ClassVar[tuple[str, ...]]
    """Fields that are settings; all others except ``name`` are column names."""

    @abstractmethod
    def pieces(self, source: str, size: int) -> list[Piece]:
        """Return the pieces of ``source``, each about ``size`` bytes of text."""

    @abstractmethod
    def read(self, piece: Piece) -> Iterator[Records]:
        """Yield the records of one piece; a row of n events contributes to n runs of records."""
