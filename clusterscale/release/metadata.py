"""Metadata of a published table: what it counts, when, and how it was published."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, Strict, ValidationError, model_validator

from clusterscale.contracts import ConfigModel, Count, Mechanism, OptionalUnique
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.release.ledger_entry import LedgerEntry
from clusterscale.validation_messages import explain

URI_FIELDS = ("cube", "members")
"""Fields with URIs: a catalogue may set them, the attributes of a release may not."""

First = Annotated[int, Strict(), Field(ge=0, lt=2**63)]
Size = Annotated[int, Strict(), Field(ge=2, lt=2**63)]


def _as_several(names: Any) -> Any:
    return (names,) if isinstance(names, str) else names


if TYPE_CHECKING:
    DeclaredMechanism = Mechanism
else:
    DeclaredMechanism = MECHANISMS.field()


class ReleaseMetadata(ConfigModel):
    """Metadata of a release; each field may also be an attribute of its store.

    ``group_size``: number of users counted. ``population``: number of people among whom they were;
    an estimate is enough. If the cube has fewer, it has traces of only some of them. By default
    all are in the cube; if these are too few for the groups, twice as many as are counted, or more
    if an adversary needs them.
    ``mechanism``: how counts were published, as in an audit. ``first``: the first epoch of the
    release, in the cube; or ``start``, its ISO date and time in the time zone of the cube.
    ``epochs``: number of epochs of the cube, needed if the mechanism merges some. ``observed``:
    first epochs of past windows that adversaries have seen. ``null_roi``: whether users without an
    event are counted in a last ROI. ``series``: consecutive releases of one series are compared.
    ``rows``: whether places and epochs are public, or those of the records, so that a single visit
    may add one. ``subset_of``: tables that count everyone whom this one counts, and others.
    ``ledger``: what ``clusterscale publish`` has entered in the budget ledger.

    Attributes
    ----------
    group_size
        Number of users counted, e.g. ``300``.
    population
        Number of people among whom these were, e.g. ``5000``.
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
    guarantee
        ε and δ of a unit and what they mean for a person, in words, as ``clusterscale publish``
        writes them; nothing follows from it, e.g. ``ε 1 per user``.
    rows
        What places and epochs follow from: ``public`` lists, or ``records``, e.g. ``public``.
    subset_of
        Names of tables that count everyone whom this one counts, e.g. ``[all.csv]``.
    ledger
        Entry of the budget ledger, which ``clusterscale publish`` writes, e.g. ``{number: 1,
        period: week-01, start: 1267401600, stop: 1268006400, first_day: 733832, last_day: 733838,
        unit: none, content: 4c00, run: c1b8, rules: 92ce}``.
    """

    group_size: Size | None = None
    population: Size | None = None
    mechanism: DeclaredMechanism | None = None
    first: First | None = None
    start: str | None = None
    epochs: Count | None = None
    observed: Annotated[tuple[First, ...], *OptionalUnique] = ()
    null_roi: bool | None = None
    series: str = ""
    guarantee: str = ""
    rows: Literal["public", "records"] | None = None
    subset_of: Annotated[tuple[str, ...], BeforeValidator(_as_several), *OptionalUnique] = ()
    ledger: LedgerEntry | None = None

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


def read_metadata(
    attributes: Mapping[str, Any], uri: str
) -> tuple[ReleaseMetadata, dict[str, str]]:
    """Return the metadata, and the URIs by field, among the attributes that are beside values.

    Raises
    ------
    ConfigError
        If an attribute is invalid.
    """
    fields = {
        name: _plain(attributes[name])
        for name in ReleaseMetadata.model_fields
        if name in attributes
    }
    # NetCDF has numbers instead of booleans and of lists with one item.
    if isinstance(fields.get("null_roi"), int) and fields["null_roi"] in (0, 1):
        fields["null_roi"] = bool(fields["null_roi"])
    if isinstance(fields.get("observed"), int):
        fields["observed"] = (fields["observed"],)
    uris = {key: str(attributes[key]) for key in URI_FIELDS if key in attributes}
    try:
        return ReleaseMetadata.model_validate(fields), uris
    except ValidationError as error:
        lines = explain(error, ReleaseMetadata).splitlines()
        raise ConfigError("\n".join(f"{uri}: attribute {line}" for line in lines)) from None


def _plain(value: Any) -> Any:
    """Return an attribute as a Python value; text may be JSON, because NetCDF has no mappings."""
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return tuple(value) if isinstance(value, list) else value
