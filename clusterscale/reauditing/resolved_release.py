"""A release that can be audited: with complete metadata, on the cells of a cube."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from clusterscale.analyses.audit import AuditPlan, AuditTemplate, Period
from clusterscale.contracts import Address, Bounds, ConfigModel, Count
from clusterscale.cube import TraceCube
from clusterscale.cube.calendar import Calendar
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.reading.places import describe_mismatch, match_codes
from clusterscale.release import DeclaredMechanism, PublishedTotals, RawRelease
from clusterscale.release.checks.table import doubt_bands
from clusterscale.release.entry import Name, ReleaseEntry
from clusterscale.release.metadata import STATED, First, Size
from clusterscale.validation_messages import explain

MARKS = ("not_covered", "secondary")
"""Names of the flags of cells without a value that are not hidden as small ones."""
TOTALS = ("roi_total", "epoch_total", "grand_total")
LISTED = ("roi_listed", "epoch_listed", "grand_listed")
"""Names of arrays of totals, and of which of these are listed."""

# What attributes may name, and what the audit does if the catalogue sets null instead.
_URI_REMEDIES = {
    "cube": ("a cube", "use the cube of the whole catalogue"),
    "members": ("a `members` file", "audit the release without known members"),
}


class ResolvedRelease(ConfigModel):
    """Complete metadata of a release, without its values.

    Attributes
    ----------
    name
        Name of the release.
    series, group_size, population, mechanism, first, epochs, observed, null_roi
        As in a :class:`~clusterscale.reauditing.ReleaseEntry`.
    counts, variable, cube, members
        As in a :class:`~clusterscale.reauditing.ReleaseEntry`.
    content
        Hash of all values, totals and known members.
    subset_of
        As in the metadata; names of other releases.
    stated_size
        The group size by the release's own attributes, if the catalogue sets another one.
    changes
        What reading has added up or merged, a clause for each.
    notes
        What else should be known of how it was read.
    """

    name: Name
    series: str = ""
    counts: Address
    variable: str | None = None
    group_size: Size
    population: Size | None = None
    mechanism: DeclaredMechanism
    first: First
    epochs: Count
    observed: Annotated[tuple[First, ...], Field(strict=False)] = ()
    null_roi: bool
    cube: Address | None = None
    members: Address | None = None
    content: str
    stated_size: Size | None = None
    changes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    notes: Annotated[tuple[str, ...], Field(strict=False)] = ()
    subset_of: Annotated[tuple[str, ...], Field(strict=False)] = ()

    @property
    def span(self) -> tuple[int, int]:
        """First epoch and the one after the last."""
        return self.first, self.first + self.epochs

    def identity(self) -> dict[str, Any]:
        """Return the fields that decide results of the audit, as plain values."""
        names = {"name", "series", "counts", "variable", "cube", "members", "changes", "notes"}
        # as releases had none of these at first
        added = ("population", "stated_size", "subset_of")
        names |= {name for name in added if not getattr(self, name)}
        return self.model_dump(mode="json", exclude=names)

    @property
    def sizes(self) -> dict[str, int | None]:
        """How many people it counts, by who says so."""
        who = "the catalogue" if self.stated_size else "the release"
        return {who: self.group_size, "the release": self.stated_size or self.group_size}

    def n_people(self, n_users: int) -> int:
        """Return the number of people among whom the group is, for a cube of ``n_users``."""
        if self.population is not None:
            return self.population
        return n_users if self.group_size <= n_users else 2 * self.group_size

    @property
    def needs_largest_contribution(self) -> bool:
        """Whether its mechanism depends on the largest contribution of all people."""
        few, many = (Bounds(1, n, n, n, n, self.null_roi) for n in (1, 2))
        return bool(self.mechanism.bind(few) != self.mechanism.bind(many))

    def plan(self, template: AuditTemplate) -> AuditPlan:
        """Return the audit of this release: of raw counts, and of its mechanism.

        Raises ConfigError if the template and the release are not compatible.
        """
        raw = MECHANISMS.create("exact")
        mechanisms = (raw,) if self.mechanism == raw else (raw, self.mechanism)
        period = Period(
            name="release", first=self.first, epochs=self.epochs, observed=self.observed
        )
        fields = {name: getattr(template, name) for name in AuditTemplate.model_fields}
        fields |= {"null_roi": self.null_roi, "group_sizes": (self.group_size,)}
        fields |= {"periods": (period,), "mechanisms": mechanisms}
        try:
            return AuditPlan.model_validate(fields)
        except ValidationError as error:
            raise ConfigError(explain(error, AuditPlan, prefix=(self.name,))) from None


def resolve_release(
    entry: ReleaseEntry, raw: RawRelease, cube: TraceCube, members: bytes
) -> tuple[ResolvedRelease, RawRelease]:
    """Resolve a release from its catalogue entry, its table and the cube of its traces.

    ``members`` are bytes of the table of known members, empty without one. Raises ConfigError if
    metadata is missing, or does not fit the cube; the message names a remedy.
    """
    fields, where = entry.or_else(raw.metadata), f"{entry.label} ({entry.counts})"
    if not raw.values.size:
        raise ConfigError(f"{where}: shape {raw.values.shape} has no ROIs or no epochs")
    if cube.n_known < cube.n_users:
        raise ConfigError(f"{where}: {cube.uri} has simulated people: name the cube of known ones")
    _refuse_uris(entry, raw, cube, where)
    content = _in_cube_order(raw, cube, where, entry.absent_places)
    for key in ("group_size", "mechanism"):
        if fields.get(key) is None:
            raise ConfigError(
                f"{where}: {key} is missing; set it in the catalogue or as an attribute"
            )
    # for readers; they decide nothing here
    for key in ("ledger", "rows", "guarantee", "accuracy", "time_zone", *STATED):
        fields.pop(key, None)
    first, start = fields.pop("first", None), fields.pop("start", None)
    if first is None:
        first = _find_first_epoch(start, raw, cube.calendar, where)
    n_rows, n_epochs = content.values.shape
    if fields.get("null_roi") is None:
        if n_rows - cube.n_rois not in (0, 1):
            raise ConfigError(
                f"{where}: {n_rows} ROIs, but the cube has {cube.n_rois}: if the mechanism merges "
                "ROIs, set null_roi: whether users without an event are counted in a last ROI"
            )
        fields["null_roi"] = n_rows > cube.n_rois
    if fields.get("epochs") is None:
        fields["epochs"] = n_epochs
    fields |= {"name": entry.label, "counts": entry.counts, "variable": entry.variable}
    fields |= {"cube": entry.cube}
    if raw.metadata.group_size not in (None, fields["group_size"]):
        fields["stated_size"] = raw.metadata.group_size
    try:
        release = ResolvedRelease.model_validate(
            fields | {"first": first, "content": _hash(content, members)}
        )
    except ValidationError as error:
        raise ConfigError(explain(error, ResolvedRelease, prefix=(where,))) from None
    doubts = tuple(doubt_bands(raw.bands, release.mechanism))
    if raw.secondary is not None:
        doubts += ("values that were hidden to protect others are audited as small ones",)
    if raw.not_covered is not None or entry.absent_places == "not_covered":
        doubts += ("values that are not covered are audited as hidden",)
    release = release.model_copy(update={"changes": raw.changes + doubts, "notes": content.notes})
    n_least, whose = max((release.group_size, "group"), (cube.n_users, "cube"))
    if release.population is not None and release.population < n_least:
        raise ConfigError(
            f"{where}: population is {release.population:,}, but there are {n_least:,} people in "
            f"the {whose}"
        )
    return release, content


def _refuse_uris(entry: ReleaseEntry, raw: RawRelease, cube: TraceCube, where: str) -> None:
    """Refuse attributes with URIs, unless the catalogue sets what to use instead."""
    for key, uri in raw.uris.items():
        if key in entry.model_fields_set or (key == "cube" and uri.rstrip("/") == cube.uri):
            continue
        what, without = _URI_REMEDIES[key]
        raise ConfigError(
            f"{where}: the release's own attributes name {what}; it is not opened. Set it in the "
            f"catalogue as `{key}:`, or write `{key}: null` to {without}"
        )


def _in_cube_order(
    raw: RawRelease, cube: TraceCube, where: str, absent: str | None = None
) -> RawRelease:
    """Return rows in the order of the cube, by their names; by position only if they have none.

    ``absent`` says what the counts of places without a row are: zero, hidden, or an error.
    """
    names, rois, values, roi = cube.regions.names, raw.rois, raw.values, raw.totals.roi
    if rois is None:
        return raw
    rois, note = match_codes(rois, names)
    named, marks = set(rois) - {"null"}, {key: getattr(raw, key) for key in MARKS}
    if absent is not None and named < set(names):
        others = tuple(name for name in names if name not in named)
        filled = np.full((len(others), values.shape[1]), 0.0 if absent == "zero" else np.nan)
        if absent == "not_covered" and marks[absent] is None:
            marks[absent] = np.zeros(values.shape, np.bool_)
        marks = {
            key: None if one is None else np.r_[one, np.full(filled.shape, key == absent)]
            for key, one in marks.items()
        }
        rois, values = rois + others, np.concatenate([values, filled])
        roi = None if roi is None else np.concatenate([roi, filled.sum(axis=1)])
    elif named != set(names):
        if _are_positions(rois):
            return raw
        told = describe_mismatch(named, names, "the cube")
        if named < set(names):
            told += "; set `absent_places` of the release to zero, hidden or not_covered"
        raise ConfigError(f"{where}: {told}")
    if len(set(rois)) < len(rois):
        raise ConfigError(f"{where}: a ROI is listed twice")
    index = {name: i for i, name in enumerate(rois)}
    ordered = [*names, "null"] if "null" in index and "null" not in names else list(names)
    rows = np.array([index[name] for name in ordered])
    roi = None if roi is None else roi[rows]
    listed = raw.totals.listed
    if listed:
        own = np.append(listed[0], np.ones(len(rois) - len(listed[0]), np.bool_))
        listed = own[rows], *listed[1:]
    totals = PublishedTotals(roi, *raw.totals.each[1:], listed)
    notes = (*raw.notes, *([note] if note else []))
    marks = {key: None if one is None else one[rows] for key, one in marks.items()}
    shown: dict[str, Any] = {"values": values[rows], "rois": tuple(ordered), "band_ends": None}
    shown |= {"totals": totals, "notes": notes}
    return replace(raw, **shown, **marks)


def _are_positions(names: Sequence[str]) -> bool:
    """Return whether names are only the numbers of the rows, in their order, as if unnamed."""
    places = names[:-1] if names[-1] == "null" else names
    return all(name.isdecimal() and int(name) == row for row, name in enumerate(places))


def _find_first_epoch(start: str | None, raw: RawRelease, calendar: Calendar, where: str) -> int:
    """Return the first epoch, from its start, or from the epoch coordinate of the store."""
    if start is not None:
        try:
            seconds = Calendar.parse(start, "1s", 1, calendar.timezone).start
        except InputError as error:
            raise ConfigError(f"{where}: {error}") from None
        return _find_epoch(seconds, calendar, where)
    if raw.epochs is not None and raw.epochs.dtype.kind == "M":
        times = raw.epochs.astype("datetime64[s]").astype(np.int64)
        first = _find_epoch(int(times[0]), calendar, where)
        if (calendar.begins(first, len(times)) != times).any():
            wrong = f"its epochs are not {calendar.length} apart, as the cube's"
            if len(np.unique(np.diff(times))) > 1:
                wrong += "; if they are local days, set `timezone` of the format"
            raise ConfigError(f"{where}: {wrong}")
        return first
    if raw.epochs is not None and raw.epochs.dtype.kind in "iu":
        numbers = raw.epochs.astype(np.int64)
        if (np.diff(numbers) != 1).any() or numbers[0] < 0:
            raise ConfigError(f"{where}: its epochs are not consecutive numbers")
        return int(numbers[0])
    raise ConfigError(
        f"{where}: its epochs are not known; set first or start in the catalogue or as an attribute"
    )


def _find_epoch(seconds: int, calendar: Calendar, where: str) -> int:
    number = int(calendar.locate(np.array([seconds]))[0])
    if number < 0 or calendar.begins(number, 1)[0] != seconds:
        raise ConfigError(f"{where}: no epoch of the cube begins at its start")
    return number


def _hash(content: RawRelease, members: bytes) -> str:
    digest = blake2b(digest_size=16)
    *totals, grand = content.totals.each
    if grand is not None and not np.isnan(grand).all():  # else as before there was such a total
        totals.append(grand)
    for values in (content.values, *totals):
        array = np.zeros(0) if values is None else np.where(np.isnan(values), np.nan, values) + 0.0
        digest.update(repr(array.shape).encode())
        digest.update(array.astype("<f8").tobytes())
    digest.update(members)
    return digest.hexdigest()
