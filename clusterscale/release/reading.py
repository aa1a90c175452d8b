"""Read a table of any format, which its name suggests unless it is given."""

from __future__ import annotations

import json
import re

from clusterscale import storage
from clusterscale.errors import DamagedError, FormatError
from clusterscale.release.content import TABLE_FORMATS, RawRelease, TableFormat
from clusterscale.release.ledger_entry import RULES, LedgerEntry, entry_address

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
    """Read a published table.

    Parameters
    ----------
    uri
        A file, a folder of files or a Zarr group, a local path or fsspec URL.
    form
        Its format; by default the one that its ending suggests.

    Returns
    -------
    RawRelease
        Values over (roi, epoch), NaN where hidden.

    Raises
    ------
    MissingError
        If nothing is stored there.
    InputError, FormatError, ConfigError
        If it does not fit the format; names file, row and column.
    DamagedError
        If it is a release of a series whose values or metadata are not those that were published.
    DamagedError, StoreError
        If it cannot be read.
    """
    try:
        release = (form or choose_format(uri)).read(uri)
    except MemoryError as error:
        raise FormatError(f"{uri}: there is too little memory to read it") from error
    _check_published(uri, release)
    return release


def _check_published(uri: str, release: RawRelease) -> None:
    """Raise :class:`DamagedError` if a release of a series is not what was published."""
    entry = release.metadata.ledger
    folder, _, name = uri.rstrip("/").rpartition("/")
    found = _RELEASE.fullmatch(name)
    in_series = found is not None and _is_series(folder or ".", found["series"])
    if entry is None and not in_series:
        return
    if entry is None:
        raise DamagedError(
            f"{uri}: its metadata with its ledger entry are missing: put them back, as they were "
            "published, or take the table out of the folder of the series"
        )
    changed = not release.is_as_published
    if found is not None and in_series:
        kept = _kept_entry(entry_address(folder or ".", int(found["number"])))
        changed |= kept is not None and kept != entry
    if changed:
        raise DamagedError(
            f"{uri} is not what was published: its values or metadata were changed, or it is read "
            "with other settings of its format; restore the published file"
        )


def _is_series(folder: str, series: str) -> bool:
    """Return whether a folder is that of a series."""
    try:
        rules = json.loads(storage.read(f"{folder}/{RULES}"))
    except (FileNotFoundError, ValueError, RecursionError):
        return False
    return isinstance(rules, dict) and rules.get("series") == series


def _kept_entry(uri: str) -> LedgerEntry | None:
    """Return the copy of an entry; None if it was not written yet."""
    try:
        return LedgerEntry.model_validate_json(storage.read(uri))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedError(f"{uri} is not an entry of the ledger: {error}") from None
