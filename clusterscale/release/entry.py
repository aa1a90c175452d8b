"""One release of a catalogue."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, model_validator

from clusterscale.contracts import Address
from clusterscale.release import (
    TABLE_FORMATS,
    URI_FIELDS,
    ReleaseMetadata,
    TableFormat,
    choose_format,
)

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
    whose membership is known. In both, ``{name}`` is replaced by the name of the release. All other
    fields default to the attributes of the store.

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
    """

    counts: Address
    format: Format | None = None
    name: Name | None = None
    variable: str | None = None
    cube: Address | None = None
    members: Address | None = None

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
