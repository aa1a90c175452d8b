"""Entries of catalogues, and reading of the table of any format that one names."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from clusterscale import storage
from clusterscale.contracts import Address, hash_of
from clusterscale.errors import DamagedError, FormatError, SourceError
from clusterscale.reading.tables import is_parquet
from clusterscale.release.content import TABLE_FORMATS, RawRelease, TableFormat
from clusterscale.release.metadata import (
    README,
    RULES,
    URI_FIELDS,
    LedgerEntry,
    ReleaseMetadata,
    beside,
    digest_files,
    entry_address,
)
from clusterscale.storage.manifest import read_mapping, to_sealed

ENDINGS = (".zarr", ".nc", ".nc4", ".netcdf")
"""Endings of the names of releases in a folder."""

_RELEASE = re.compile(r"(?P<series>.+)-(?P<number>\d{4,})\.\w+")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_FORMATS = {
    "long": (".csv", ".tsv", ".txt", ".parquet", ".parq", ".pq"),
    "geojson": (".geojson", ".json", ".geoparquet"),
}


def choose_format(uri: str) -> TableFormat:
    """Return the format that the ending of an address suggests: ``arrays`` if none is known."""
    name = uri.rstrip("/").lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    for kind, endings in _FORMATS.items():
        if name.endswith(endings):
            return TABLE_FORMATS.create(kind)
    return TABLE_FORMATS.create("arrays")


def read_table(uri: str, form: TableFormat | None = None) -> RawRelease:
    """Read a published table in a format, by default the one that the ending of its URI suggests.

    It is a file, a folder of files or a Zarr group. Raises MissingError if nothing is there;
    InputError, FormatError or ConfigError, naming file, row and column, if it does not fit the
    format; StoreError or DamagedError if it cannot be read, or is a release of a series whose
    values or metadata are not those that were published.
    """
    try:
        release = (form or choose_format(uri)).read(uri)
    except MemoryError as error:
        raise FormatError(f"{uri}: there is too little memory to read it") from error
    except SourceError as error:
        if form is not None:
            raise
        hint = f"`clusterscale init format.yaml --table {uri}` finds out how it is read"
        raise SourceError(f"{error}; {hint}") from error
    _check_published(uri, release)
    return release


def _check_published(uri: str, release: RawRelease) -> None:
    """Raise :class:`DamagedError` if a release of a series is not what was published."""
    entry = release.metadata.ledger
    folder, _, name = uri.rstrip("/").rpartition("/")
    found = _RELEASE.fullmatch(name)
    where = f"{folder or '.'}/{RULES}"
    rules = {} if found is None else read_mapping(where)
    in_series = found is not None and rules.get("series") == found["series"]
    # Only `publish` writes both: without the entry nothing would seal such a table.
    is_ours = in_series or bool(release.metadata.series and release.metadata.rows)
    if entry is None and not is_ours:
        return
    if entry is None:
        raise DamagedError(
            f"{uri}: its metadata with its ledger entry are missing: put them back, as they were "
            f"published{', or take the table out of the folder of the series' * in_series}"
        )
    changed = not release.is_as_published or not release.flags_fit
    changed |= bool(entry.stored) and digest_files(files_of(uri), entry) != entry.stored
    if entry.explained:
        page = f"{uri.rstrip('/')}{README}"
        texts = [storage.read(page).decode(errors="replace")] if storage.exists(page) else []
        changed |= not {*map(hash_of, [*texts, *release.texts])} <= {*entry.explained}
    ours = in_series or "digest" in rules or not rules
    if found is not None and ours and storage.exists(where):
        stated = {key: value for key, value in rules.items() if key != "digest"}
        other = in_series and hash_of(stated) != entry.rules
        if other or to_sealed(stated) != storage.read(where):
            raise DamagedError(f"{where} is not what was written when the series began: restore it")
    if found is not None and in_series:
        kept = _kept_entry(entry_address(folder or ".", int(found["number"])))
        changed |= kept is not None and kept != entry
    if changed:
        raise DamagedError(
            f"{uri} is not what was published: its values or metadata were changed, or flags or "
            "texts that explain them, in it or beside it; or it is read with other settings of its "
            "format: restore what was published"
        )


def inputs_of(uri: str) -> list[str]:
    """Return the addresses that are read with a table: its description, page and series."""
    table = uri.rstrip("/")
    folder = table.rpartition("/")[0] or "."
    entries = entry_address(folder, 0).rpartition("/")[0]
    return [uri, beside(table), f"{table}{README}", f"{folder}/{RULES}", entries]


def files_of(uri: str) -> dict[str, bytes]:
    """Return the content of each file of a table and its description, by its path from ``uri``."""
    filesystem, root = storage.connect(uri.rstrip("/"))
    if filesystem.isdir(root):
        names = (str(path)[len(str(root)) :] for path in filesystem.find(root))
        return {name: storage.read(f"{uri.rstrip('/')}{name}") for name in names}
    described = [] if is_parquet(uri) or not storage.exists(beside(uri)) else [beside(uri)]
    return {one[len(uri) :]: storage.read_file(one) for one in (uri, *described)}


def _kept_entry(uri: str) -> LedgerEntry | None:
    """Return the copy of an entry; None if it was not written yet."""
    try:
        entry = LedgerEntry.model_validate_json(content := storage.read(uri))
        if entry.model_dump_json(indent=1, exclude_unset=True).encode() != content:
            raise ValueError("it is not as it was written")
        return entry
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedError(f"{uri} is not an entry of the ledger: {error}") from None


Name = Annotated[str, Field(min_length=1, max_length=200)]

if TYPE_CHECKING:
    Format = TableFormat
else:
    Format = TABLE_FORMATS.field()


class ReleaseEntry(ReleaseMetadata):
    """One release of a catalogue: the URI of its ``counts``, and metadata.

    ``counts``: a published table; or a pattern for the names in a folder, as in
    ``releases/week-*.csv``. The ending of its name suggests its ``format``: a Zarr group or NetCDF
    file with a ``variable`` of dimensions (roi, epoch), or a CSV or Parquet file with a row per
    place and time.
    ``cube``: the cube that it was computed from, if not the catalogue's. ``members``: a table,
    Parquet or CSV, with columns ``user`` (as in the cube) and ``inside`` (true or false) for users
    whose membership is known. In both, ``{name}`` is replaced by the name of the release.
    ``absent_places``: what the counts of places of the cube are that the table leaves out. All
    other fields default to the attributes of the store.

    Attributes
    ----------
    counts
        Published table, or pattern, e.g. ``releases/week-01.zarr``.
    format
        Format of the table, if its name does not suggest it, e.g. ``{name: wide}``.
    name
        Name of the release, e.g. ``week-01``; by default that of ``counts``.
    variable
        Variable with the counts, e.g. ``counts``.
    cube
        Cube, if not the catalogue's, e.g. ``trams.zarr``.
    members
        Table of users whose membership is known, e.g. ``members/week-01.csv``.
    absent_places
        Counts of places that the table leaves out, e.g. ``zero``, ``hidden`` or ``not_covered``;
        by default an error.
    """

    counts: Address
    format: Format | None = None
    name: Name | None = None
    variable: str | None = None
    cube: Address | None = None
    members: Address | None = None
    absent_places: Literal["zero", "hidden", "not_covered"] | None = None

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if self.name is not None and self.is_pattern:
            raise ValueError(f"name: counts is a pattern ({self.counts}) that may match several")
        if self.ledger is not None:
            raise ValueError("ledger: only `clusterscale publish` writes it")
        if self.format is not None and self.variable is not None:
            raise ValueError("variable: give it in format, {name: arrays, variable: …}")
        return self

    @property
    def table_format(self) -> TableFormat:
        """The format that is set, or that the name suggests."""
        if self.variable is not None:
            return TABLE_FORMATS.create("arrays", variable=self.variable)
        return self.format or choose_format(self.counts)

    @property
    def is_pattern(self) -> bool:
        """Whether ``counts`` is a pattern for names."""
        return any(sign in self.counts.rstrip("/").rpartition("/")[2] for sign in "*?[")

    def with_uris(self, members: str | None) -> ReleaseEntry:
        """Return the entry with ``{name}`` replaced, and ``members`` if it does not set them."""
        fields = {key: getattr(self, key) for key in URI_FIELDS if key in self.model_fields_set}
        if members is not None:
            fields = {"members": members} | fields
        filled = {key: uri and uri.replace("{name}", self.label) for key, uri in fields.items()}
        return self.model_copy(update=filled)

    @property
    def label(self) -> str:
        """The name; by default that of the store without its ending."""
        return self.name or PurePosixPath(self.counts.rstrip("/")).stem
