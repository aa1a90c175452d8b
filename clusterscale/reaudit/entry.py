"""Metadata of a release, from a catalogue or from the attributes of its store."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import Field, Strict, model_validator

from clusterscale.contracts import Address, ConfigModel, Count, Mechanism
from clusterscale.mechanisms import MECHANISMS
from clusterscale.registry import OptionalUnique

__all__ = [
    "URI_FIELDS",
    "DeclaredMechanism",
    "First",
    "Name",
    "ReleaseEntry",
    "ReleaseMetadata",
    "Size",
]

URI_FIELDS = ("cube", "members")
"""Fields with URIs: a catalogue may set them, the attributes of a release may not."""

First = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
Size = Annotated[int, Strict(), Field(ge=2, lt=2**63)]
Name = Annotated[str, Field(min_length=1, max_length=200)]

if TYPE_CHECKING:
    DeclaredMechanism = Mechanism
else:
    DeclaredMechanism = MECHANISMS.field()


class ReleaseMetadata(ConfigModel):
    """Metadata of a release; each field may also be an attribute of its store.

    ``group_size``: number of users counted. ``mechanism``: how counts were published, as in an
    audit. ``first``: the first epoch of the release, in the cube; or ``start``, its ISO date and
    time in the time zone of the cube. ``epochs``: number of epochs of the cube, needed if the
    mechanism merges some. ``observed``: first epochs of past windows that adversaries have seen.
    ``null_roi``: whether users without an event are counted in a last ROI. ``series``: consecutive
    releases of one series are compared.

    Attributes
    ----------
    group_size
        Number of users counted, e.g. ``300``.
    mechanism
        How counts were published, e.g. ``{name: exact}``.
    first
        Number of the first epoch in the cube, e.g. ``0``.
    start
        Date and time of the first epoch, instead, e.g. ``'2010-03-01T00:00'``.
    epochs
        Number of epochs of the cube, e.g. ``168``.
    observed
        First epochs of past windows that were observed, e.g. ``[0, 168]``.
    null_roi
        Whether users without an event are counted in a last ROI, e.g. ``true``.
    series
        Name of the series of releases, e.g. ``stations``.
    """

    group_size: Size | None = None
    mechanism: DeclaredMechanism | None = None
    first: First | None = None
    start: str | None = None
    epochs: Count | None = None
    observed: Annotated[tuple[First, ...], *OptionalUnique] = ()
    null_roi: bool | None = None
    series: str = ""

    @model_validator(mode="after")
    def _one_beginning(self) -> Self:
        if self.first is not None and self.start is not None:
            raise ValueError("give first or start, not both")
        return self

    def or_else(self, other: ReleaseMetadata) -> dict[str, Any]:
        """Return the fields that are set here, and else those that are set in ``other``."""
        fields = set(ReleaseMetadata.model_fields)
        mine = {
            name: getattr(self, name) for name in self.model_fields_set & {*fields, *URI_FIELDS}
        }
        theirs = {name: getattr(other, name) for name in other.model_fields_set & fields}
        if mine.keys() & {"first", "start"}:
            theirs = {key: value for key, value in theirs.items() if key not in ("first", "start")}
        return theirs | mine


class ReleaseEntry(ReleaseMetadata):
    """One release of a catalogue: the URI of its ``counts``, and metadata.

    ``counts``: a Zarr group or NetCDF file with a ``variable`` of dimensions (roi, epoch), by
    default the only one; or a pattern for the names in a folder, as in ``releases/week-*.zarr``.
    ``cube``: the cube that it was computed from, if not the catalogue's. ``members``: a table,
    Parquet or CSV, with columns ``user`` (as in the cube) and ``inside`` (true or false) for users
    whose membership is known. In both, ``{name}`` is replaced by the name of the release. All other
    fields default to the attributes of the store.

    Attributes
    ----------
    counts
        Zarr group, NetCDF file, or pattern, e.g. ``releases/week-01.zarr``.
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
    name: Name | None = None
    variable: str | None = None
    cube: Address | None = None
    members: Address | None = None

    @model_validator(mode="after")
    def _one_name(self) -> Self:
        if self.name is not None and self.is_pattern:
            raise ValueError(f"name: counts is a pattern ({self.counts}) that may match several")
        return self

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
