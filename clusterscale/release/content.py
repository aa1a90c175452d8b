"""The content of a published table, and the base of the formats in which it is stored."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import ConfigModel, Ints, Values, hash_of
from clusterscale.errors import InputError
from clusterscale.foreign import Fault, returns
from clusterscale.reading.values import Band
from clusterscale.registry import Registry
from clusterscale.release.metadata import ReleaseMetadata

_FIRST_FIELDS = {"group_size", "population", "mechanism", "first", "start", "epochs"}
_FIRST_FIELDS |= {"observed", "null_roi", "series"}

Cell = tuple[str | None, int | None]
"""A place and a time, as UTC seconds or number of an epoch; None for all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTotals:
    """Totals that were published with the values, else None.

    ``roi``, shape (roi,), over all epochs; ``epoch``, shape (epoch,), over all ROIs; ``grand``,
    shape (1,), over both; float64, NaN where redacted. Of each of these, ``listed`` flags those
    that are neither absent nor hidden to protect others, and ``secondary`` the latter; empty: all
    are listed. ``band_ends`` are those of each that is shown as a band, as of a table.
    """

    roi: Values | None = None
    epoch: Values | None = None
    grand: Values | None = None
    listed: tuple[NDArray[np.bool_], ...] = ()
    secondary: tuple[NDArray[np.bool_], ...] = ()
    band_ends: tuple[tuple[Ints, Ints], ...] = ()

    @property
    def each(self) -> tuple[Values | None, Values | None, Values | None]:
        """Totals over epochs, over ROIs, and over both."""
        return self.roi, self.epoch, self.grand

    def placed(self, at: tuple[Ints, Ints], shape: tuple[int, int]) -> Self:
        """Return the same as totals of more ROIs and epochs, among which these have their place."""

        def wider(own: Any, i: int, fill: object) -> Any:
            if own is None or i == len(self.each) - 1:
                return own
            found = np.full(shape[i], fill)
            found[at[i]] = own
            return found

        roi, epoch, grand = (wider(one, i, np.nan) for i, one in enumerate(self.each))
        listed, secondary = (
            tuple([wider(one, i, False) for i, one in enumerate(some)])
            for some in (self.listed, self.secondary)
        )
        ends = [
            (wider(least, i, -1), wider(end, i, -1))
            for i, (least, end) in enumerate(self.band_ends)
        ]
        return type(self)(roi, epoch, grand, listed, secondary, tuple(ends))


@dataclass(frozen=True, slots=True, eq=False)
class RawRelease:
    """A published table, as it was read.

    Attributes
    ----------
    values
        float64, shape (roi, epoch), NaN where redacted.
    rois
        Names of the ROIs, None if there are none.
    epochs
        Coordinate of the epochs: numbers of the cube's epochs or datetime64 in UTC; None if none.
    totals
        Totals that were published with the values.
    metadata
        Metadata from the attributes of the store.
    uris
        URIs in attributes, by name of the attribute; they are never opened.
    changes
        What reading has added up or merged, a clause for each: the table is not as published.
    row_values
        Distinct values of the rows that were added up, float64, shape (value,); else empty.
    not_covered
        Which values were not collected, bool, shape (roi, epoch), NaN in ``values``; they are
        neither hidden nor 0. None if all were.
    secondary
        Which values were hidden so that no other follows from them, bool, shape (roi, epoch), NaN
        in ``values``; None if none was.
    notes
        What should be known of how it was read, a clause for each.
    bands
        Bands in which hidden counts are stated to be, as (1, 5) where the table shows "1-4".
    band_ends
        The least count of the band of each value and the one that all are below, int64, both of
        shape (roi, epoch), −1 where not stated. None if no band is.
    timezone
        Zone of the days and months that its epochs are, if they are.
    texts
        Texts of the file that explain it.
    centres
        Latitude and longitude of the centres of places in degrees (WGS 84), float64, shape (roi,
        2), of a release that is written; else None.
    flags_fit
        Whether flags of uncertain values in the file are those that follow from its margin.
    name
        Name in results of checks.
    blank_beside
        Whether other levels or categories of the same table have redacted values.
    """

    values: Values
    rois: tuple[str, ...] | None
    epochs: NDArray[Any] | None
    totals: PublishedTotals = field(default_factory=PublishedTotals)
    metadata: ReleaseMetadata = field(default_factory=ReleaseMetadata)
    uris: Mapping[str, str] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    row_values: Values = field(default_factory=lambda: np.empty(0))
    not_covered: NDArray[np.bool_] | None = None
    secondary: NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()
    bands: tuple[Band, ...] = ()
    band_ends: tuple[Ints, Ints] | None = None
    timezone: str = "UTC"
    texts: tuple[str, ...] = ()
    centres: Values | None = None
    flags_fit: bool = True
    name: str = ""
    blank_beside: bool = False

    @property
    def has_blank(self) -> bool:
        """Whether values are redacted, other than to protect others."""
        blank = np.isnan(self.values)
        for others in (self.not_covered, self.secondary):
            blank &= True if others is None else ~others
        return bool(blank.any())

    def among(self, rois: Sequence[str], epochs: NDArray[Any], value: float) -> Self:
        """Return the table of more ROIs and epochs, at which it has this value."""
        rows = np.array([rois.index(name) for name in self.rois or ()])
        columns = np.searchsorted(epochs, np.asarray(self.epochs))
        at, shape = (rows, columns), (len(rois), len(epochs))
        arrays: dict[str, Any] = {}
        for name, fill in (("values", value), ("not_covered", False), ("secondary", False)):
            if (own := getattr(self, name)) is not None:
                arrays[name] = np.full(shape, fill)
                arrays[name][np.ix_(*at)] = own
        if self.band_ends is not None:
            arrays["band_ends"] = tuple(np.full(shape, -1) for _ in range(2))
            for wider, ends in zip(arrays["band_ends"], self.band_ends, strict=True):
                wider[np.ix_(*at)] = ends
        totals = self.totals.placed(at, shape)
        return replace(self, rois=tuple(rois), epochs=epochs, totals=totals, **arrays)

    @property
    def digest(self) -> str:
        """Digest of its values, places, epochs, and metadata but the ledger entry."""
        return self._digest(self.metadata.canonical)

    @property
    def is_as_published(self) -> bool:
        """Whether values and metadata are those that its ledger entry has the digest of."""
        entry = self.metadata.ledger
        if entry is None or not entry.is_sealed:
            return False
        if entry.content == self.digest:
            return True
        # Until 0.4, the digest was of all fields that there were, also those with a default.
        first = ReleaseMetadata().model_dump(mode="json", include=_FIRST_FIELDS)
        stored = self.metadata.model_dump(mode="json", exclude_unset=True)
        return entry.content == self._digest(first | stored)

    def _digest(self, metadata: Mapping[str, Any]) -> str:
        digest = blake2b(digest_size=16)
        values = np.where(np.isnan(self.values), np.nan, self.values) + 0.0
        digest.update(repr(values.shape).encode())
        digest.update(values.astype("<f8").tobytes())
        times: Any = self.epochs
        if times is not None and times.dtype.kind == "M":
            times = times.astype("datetime64[s]").astype(np.int64)
        about = [self.rois, None if times is None else times.tolist()]
        others = {key: value for key, value in metadata.items() if key != "ledger"}
        digest.update(hash_of([about, others]).encode())
        return digest.hexdigest()


def with_absent(
    tables: Sequence[RawRelease], levels: Sequence[object], value: float
) -> Iterator[RawRelease]:
    """Yield tables with a value for each row that only another one of the same level has."""
    for table, level in zip(tables, levels, strict=True):
        alike = [one for one, its in zip(tables, levels, strict=True) if its == level]
        places = sorted({place for one in alike for place in one.rois or ()})
        epochs = np.unique(np.concatenate([np.asarray(one.epochs) for one in alike]))
        yield table.among(places, epochs, value)


class TableFormat(ConfigModel):
    """A format of published tables: reads the table at an address, and writes one."""

    _registry: ClassVar[str] = "clusterscale.release:TABLE_FORMATS"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {"read": returns(RawRelease)}
    if TYPE_CHECKING:
        name: str  # a literal, with itself as its default: the key in the registry

    accepts: ClassVar[str]
    """Supported files, for messages."""

    @abstractmethod
    def read(self, uri: str) -> RawRelease:
        """Return the table at an address, a local path or fsspec URL.

        Raises
        ------
        MissingError
            If nothing is stored there.
        InputError
            If it does not fit; names file, row and column.
        DamagedError, StoreError
            If it cannot be read.
        """

    def write(self, uri: str, release: RawRelease) -> None:
        """Write a table that :meth:`read` returns the same; ``uri`` is replaced.

        Raises
        ------
        InputError
            If this format is only read, or cannot contain the table.
        """
        raise InputError(f"tables are not written as {self.name}: {uri}")


TABLE_FORMATS: Registry[TableFormat] = Registry.of_package(
    "table format", "clusterscale.release", TableFormat, plugins="clusterscale.table_formats"
)
