"""Attributes of a cube: what they are called, their types and their seal."""

import json
import re
from hashlib import blake2b
from typing import Annotated, Any, Literal

import zarr
from pydantic import BaseModel, Field, ValidationError

from clusterscale.cube.calendar import Calendar, Unit
from clusterscale.errors import DamagedError, FormatError
from clusterscale.schema import CUBE_FORMAT, CUBE_VERSION

PSEUDONYMS = "ids_are_pseudonyms"
"""Attribute that is true if user ids are keyed hashes or synthetic, else false or absent."""

FILES = "files"
"""Attribute with the digest of every file of the store, by its path in it."""

PUBLIC = "public"
"""Attribute with the parts of a cube that were stated, and not taken from its records."""

WEIGHTS, WEIGHT = "weights", "user_weight"
"""Attribute with the mean and the ends of the users' weights, and the array of them, if any."""

ROW_NAME = re.compile(r"row (0|[1-9][0-9]{0,17})", re.ASCII)
"""What names a user by row; a stored id of this form names nobody."""


class _Calendar(BaseModel, strict=True):
    start: int
    step: int
    n_epochs: int
    timezone: str
    unit: Unit = "second"


class _Weights(BaseModel, strict=True):
    mean: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    smallest: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    largest: Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Attributes(BaseModel, strict=True):
    """Types of the attributes of a cube."""

    n_users: Annotated[int, Field(ge=0, lt=2**63)]
    n_rois: Annotated[int, Field(ge=1, lt=2**63)]
    n_events: Annotated[int, Field(ge=0, lt=2**63)]
    calendar: _Calendar
    fingerprint: str
    provenance: dict[str, Any]
    files: dict[str, str]
    weights: _Weights | None = None
    public: list[Literal["places", "calendar"]] | None = None


def digest(attributes: dict[str, Any]) -> str:
    """Return the seal of a cube's attributes: a hash of their canonical JSON."""
    return blake2b(canonical(attributes), digest_size=16).hexdigest()


def canonical(value: Any) -> bytes:
    """Return plain values as canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def check_format(group: zarr.Group, uri: str) -> dict[str, Any]:
    """Return the attributes of the cube in ``group``, after checking its format and their digest.

    Raises FormatError if it is not a cube of this version, and DamagedError if the attributes
    are corrupt.
    """
    attributes = dict(group.attrs)
    if attributes.get("format") != CUBE_FORMAT:
        raise FormatError(f"{uri} is not a complete clusterscale cube{_hint_dense(group)}")
    if attributes.get("version") != CUBE_VERSION:
        raise FormatError(
            f"{uri} is a cube of version {attributes.get('version')}; "
            f"this clusterscale reads version {CUBE_VERSION}: ingest it again"
        )
    if attributes.pop("digest", None) != digest(attributes):
        raise DamagedError(f"{uri}: the attributes in zarr.json are corrupt")
    try:
        _Attributes.model_validate(attributes)
    except ValidationError as error:
        key = ".".join(map(str, error.errors()[0]["loc"]))
        raise DamagedError(f"{uri}: the attribute {key} is not what a cube has") from None
    if group.metadata.consolidated_metadata is not None:
        raise DamagedError(f"{uri}: zarr.json has metadata of arrays, which a cube keeps apart")
    return attributes


def public_parts(attributes: dict[str, Any]) -> frozenset[str]:
    """Return the parts of a cube that were stated, and not taken from its records.

    Cubes of earlier versions do not record them. Their provenance may tell: an ingest always states
    the calendar, and places unless they are the names in the records.
    """
    about = attributes["provenance"]
    if PUBLIC in attributes:
        return frozenset(attributes[PUBLIC])
    if "preset" in about:
        return frozenset({"places", "calendar"})
    places = about.get("regions", {}).get("kind") in {"grid", "points", "h3", "geohash", "inspire"}
    return frozenset({"calendar"} if "reader" in about else ()) | ({"places"} if places else set())


def describe_sizes(attributes: dict[str, Any]) -> dict[str, str]:
    """Return the numbers of users, ROIs, epochs and events, and the time span."""
    calendar = Calendar.from_attributes(attributes["calendar"])
    weights, weighed = attributes.get(WEIGHTS), ""
    if weights:
        weighed = "  (weights {smallest:,.3g} to {largest:,.3g}, mean {mean:,.3g})".format(
            **weights
        )
    places = "" if "places" in public_parts(attributes) else "  (taken from the records)"
    return {
        "users": f"{attributes['n_users']:,}{weighed}",
        "ROIs": f"{attributes['n_rois']:,}{places}",
        "epochs": f"{calendar.n_epochs:,}  ({calendar.describe()})",
        **calendar.describe_clock_change((0, calendar.n_epochs)),
        "events": f"{attributes['n_events']:,}",
    }


def describe_origins(attributes: dict[str, Any]) -> dict[str, str]:
    """Return the fingerprint and the provenance of the records, from the attributes of a cube."""
    origins = {"fingerprint": str(attributes["fingerprint"])}
    for key, value in attributes["provenance"].items():
        if text := _plain(value):
            origins[key.replace("_", " ")] = text
    return origins


def _plain(value: Any) -> str:
    """Return a provenance value as readable text; empty for an absent, false or zero value."""
    if isinstance(value, dict):
        texts = {key: text for key, part in value.items() if (text := _plain(part))}
        return ", ".join(f"{key.replace('_', ' ')} {text}" for key, text in texts.items())
    if isinstance(value, list):
        return " ".join(_plain(part) for part in value)
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:,}" if value and isinstance(value, int) else str(value or "")


def _hint_dense(group: zarr.Group) -> str:
    try:
        dense = sorted(name for name, array in group.arrays() if array.ndim == 3)
    except Exception:  # a failed hint must not raise
        return ""
    if not dense:
        return ""
    return (
        f"; its array {dense[0]} has three dimensions: "
        "`clusterscale pack` turns a dense cube into an event cube"
    )
