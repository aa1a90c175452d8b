"""A release that can be audited: its description complete, its cells those of a cube."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from clusterscale.audit import AuditPlan, AuditTemplate, Period
from clusterscale.contracts import Address, ConfigModel, Count, Values
from clusterscale.cube import TraceCube
from clusterscale.cube.calendar import Calendar
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.reaudit.entry import Declared, First, Name, ReleaseEntry, Size
from clusterscale.reaudit.values import PublishedTotals, RawRelease
from clusterscale.validation_messages import explain

__all__ = ["Content", "ResolvedRelease", "settle"]

# What attributes may name, and what the audit does if the catalogue says null instead.
_POINTING = {
    "cube": ("a cube", "use the cube of the whole catalogue"),
    "members": ("a `members` file", "audit the release without known members"),
}


class ResolvedRelease(ConfigModel):
    """What was released, in full, but for the values; as a catalogue lists it.

    The fields are those of a :class:`~clusterscale.reaudit.ReleaseEntry`; ``content`` is the hash
    of all values, totals and known members.
    """

    name: Name
    series: str = ""
    counts: Address
    variable: str | None = None
    group_size: Size
    mechanism: Declared
    first: First
    epochs: Count
    observed: Annotated[tuple[First, ...], Field(strict=False)] = ()
    null_roi: bool
    cube: Address | None = None
    members: Address | None = None
    content: str

    @property
    def span(self) -> tuple[int, int]:
        """First epoch and the one after the last."""
        return self.first, self.first + self.epochs

    def identity(self) -> dict[str, Any]:
        """Return plain values that tell what is audited, whatever it is called."""
        kept = {"name", "series", "counts", "variable", "cube", "members"}
        return self.model_dump(mode="json", exclude=kept)

    def plan(self, template: AuditTemplate) -> AuditPlan:
        """Return the audit of this release: of bare counts, and as they were published.

        Raises
        ------
        ConfigError
            If they do not go together.
        """
        bare = MECHANISMS.create("exact")
        both = (bare,) if self.mechanism == bare else (bare, self.mechanism)
        period = Period(
            name="release", first=self.first, epochs=self.epochs, observed=self.observed
        )
        fields = {name: getattr(template, name) for name in AuditTemplate.model_fields}
        try:
            return AuditPlan.model_validate(
                fields
                | {
                    "null_roi": self.null_roi,
                    "group_sizes": (self.group_size,),
                    "periods": (period,),
                    "mechanisms": both,
                }
            )
        except ValidationError as error:
            raise ConfigError(explain(error, AuditPlan, prefix=(self.name,))) from None


@dataclass(frozen=True, slots=True, eq=False)
class Content:
    """What was published, on the cells of the cube: ``values``, float64, shape (roi, epoch)."""

    values: Values
    totals: PublishedTotals


def settle(
    entry: ReleaseEntry, written: RawRelease, cube: TraceCube, members: bytes
) -> tuple[ResolvedRelease, Content]:
    """Bring together what a catalogue, a store and a cube say of a release.

    Parameters
    ----------
    entry, written
        The release in its catalogue, and what its store holds.
    cube
        Of whom it is made.
    members
        The table of whom it is known, as stored; empty where there is none.

    Raises
    ------
    ConfigError
        If something is not said, or does not fit the cube; the message says what would.
    """
    said, where = entry.or_else(written.described), f"{entry.label} ({entry.counts})"
    if not written.values.size:
        raise ConfigError(f"{where}: it has shape {written.values.shape}: no epochs or no ROIs")
    _refuse_places(entry, written, cube, where)
    content = _order(written, cube, where)
    for key in ("group_size", "mechanism"):
        if said.get(key) is None:
            raise ConfigError(
                f"{where}: {key} is missing; say it in the catalogue or as an attribute"
            )
    first, start = said.pop("first", None), said.pop("start", None)
    if first is None:
        first = _begin(start, written, cube.calendar, where)
    n_rows, n_epochs = content.values.shape
    if said.get("null_roi") is None:
        if n_rows - cube.n_rois not in (0, 1):
            raise ConfigError(
                f"{where}: {n_rows} ROIs, but the cube has {cube.n_rois}: if the mechanism merges "
                "ROIs, say by null_roi whether being nowhere is counted as a last one"
            )
        said["null_roi"] = n_rows > cube.n_rois
    if said.get("epochs") is None:
        said["epochs"] = n_epochs
    said |= {"name": entry.label, "counts": entry.counts, "variable": entry.variable}
    try:
        listed = ResolvedRelease.model_validate(
            said | {"first": first, "content": _hash(content, members)}
        )
    except ValidationError as error:
        raise ConfigError(explain(error, ResolvedRelease, prefix=(where,))) from None
    return listed, content


def _refuse_places(entry: ReleaseEntry, written: RawRelease, cube: TraceCube, where: str) -> None:
    """Refuse attributes that point elsewhere, unless the catalogue says what to use instead."""
    for key, place in written.places.items():
        if key in entry.model_fields_set or (key == "cube" and place.rstrip("/") == cube.uri):
            continue
        what, without = _POINTING[key]
        raise ConfigError(
            f"{where}: the release's own attributes name {what}; it is not opened. Give it in the "
            f"catalogue as `{key}:`, or write `{key}: null` to {without}"
        )


def _order(written: RawRelease, cube: TraceCube, where: str) -> Content:
    """Return rows in the order of the cube, where they are named as its ROIs are."""
    names = cube.regions.names
    if written.rois is None:
        return Content(written.values, written.totals)
    told = set(written.rois) - {"null"}
    if told != set(names):
        if len(told) >= len(names) and told & set(names):
            strange = ", ".join(sorted(told - set(names))[:3])
            raise ConfigError(f"{where}: some ROIs are named as in the cube, but not {strange}")
        return Content(written.values, written.totals)
    if len(set(written.rois)) < len(written.rois):
        raise ConfigError(f"{where}: a ROI is listed twice")
    place = {name: i for i, name in enumerate(written.rois)}
    wanted = [*names, "null"] if "null" in place and "null" not in names else list(names)
    rows = np.array([place[name] for name in wanted])
    totals, roi = written.totals, written.totals.roi
    return Content(
        written.values[rows], PublishedTotals(None if roi is None else roi[rows], totals.epoch)
    )


def _begin(start: str | None, written: RawRelease, calendar: Calendar, where: str) -> int:
    """Return the first epoch, from when it begins, or from the epochs that the store names."""
    if start is not None:
        try:
            seconds = Calendar.parse(start, "1s", 1, calendar.timezone).start
        except InputError as error:
            raise ConfigError(f"{where}: {error}") from None
        return _which(seconds, calendar, where)
    if written.epochs is not None and written.epochs.dtype.kind == "M":
        times = written.epochs.astype("datetime64[s]").astype(np.int64)
        if (np.diff(times) != calendar.step).any():
            raise ConfigError(f"{where}: its epochs are not {calendar.step} s apart, as the cube's")
        return _which(int(times[0]), calendar, where)
    if written.epochs is not None and written.epochs.dtype.kind in "iu":
        numbers = written.epochs.astype(np.int64)
        if (np.diff(numbers) != 1).any() or numbers[0] < 0:
            raise ConfigError(f"{where}: its epochs are not numbered one after the other")
        return int(numbers[0])
    raise ConfigError(
        f"{where}: which epochs are these? Say first or start in the catalogue, or as an attribute"
    )


def _which(seconds: int, calendar: Calendar, where: str) -> int:
    number, rest = divmod(seconds - calendar.start, calendar.step)
    if rest or not 0 <= number < calendar.n_epochs:
        raise ConfigError(f"{where}: no epoch of the cube begins when it does")
    return int(number)


def _hash(content: Content, members: bytes) -> str:
    found = blake2b(digest_size=16)
    for each in (content.values, content.totals.roi, content.totals.epoch):
        array = np.zeros(0) if each is None else np.where(np.isnan(each), np.nan, each) + 0.0
        found.update(repr(array.shape).encode())
        found.update(array.astype("<f8").tobytes())
    found.update(members)
    return found.hexdigest()
