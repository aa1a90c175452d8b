"""Read a table of any format, which its name suggests unless it is given."""

from __future__ import annotations

from clusterscale.tables.content import TABLE_FORMATS, RawRelease, TableFormat

__all__ = ["ENDINGS", "choose_format", "read_table"]

ENDINGS = (".zarr", ".nc", ".nc4", ".netcdf")
"""Endings of the names of releases in a folder."""

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
    DamagedError, StoreError
        If it cannot be read.
    """
    return (form or choose_format(uri)).read(uri)
