"""Whether results are of a release: of the same data, days, people, group size and mechanism.

It is stated here for ``publish --from``, ``gate``, ``publish --gate``, ``reaudit`` and the page to
sign. Data are compared by fingerprints, never by sizes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any, Literal, NamedTuple

import numpy as np
import xarray as xr
import yaml

from clusterscale.cube.calendar import Calendar
from clusterscale.mechanisms import MECHANISMS
from clusterscale.phrases import option
from clusterscale.reporting.run import Run
from clusterscale.reporting.section import json_attribute
from clusterscale.validation_messages import plural

Span = tuple[int, int]
_SPAN = re.compile(r"(\d+)-(\d+)")  # of epochs, in the id of a period


@dataclass(frozen=True, slots=True)
class ReleaseScope:
    """What a release is of.

    Attributes
    ----------
    cube
        Fingerprint of the cube of its people.
    span
        First epoch and the one after the last.
    mechanism
        Id of its mechanism.
    null_roi
        Whether users without an event are counted in a last ROI.
    n_people, group_size
        How many people are counted, and how many the release states; None: others say so.
    changes
        What else is not as in an audit of this cube and mechanism, a clause by aspect.
    """

    cube: str
    span: Span
    mechanism: str
    null_roi: bool
    n_people: int | None = None
    group_size: int | None = None
    changes: Mapping[str, str] = field(default_factory=dict)


class Aspect(NamedTuple):
    """An aspect of a release: whether results cover it, and why, as a clause.

    ``number``: of people whom it counts.
    """

    name: str
    level: Literal["covered", "not covered", "not known"]
    text: str
    number: float = nan


def state_coverage(
    results: xr.Dataset, release: ReleaseScope | None, stated: Mapping[str, int | None]
) -> Iterator[Aspect]:
    """Yield for each aspect of a release whether the results of an audit or of advice cover it.

    Parameters
    ----------
    results
        The dataset.
    release
        The release; None if it is not named.
    stated
        How many people it counts, by who says so; None: not said.
    """
    yield _compare_sizes(results, release, stated)
    if release is None:
        why = f"the release is not named: give its config, {option('release')}"
        yield from (Aspect(name, "not known", why) for name in ("data", "people"))
        some = len(examined_spans(results)) < len(spans_of(results))
        yield (
            _aspect("days", "in a period, nobody who was attacked has an event")
            if some
            else Aspect("days", "not known", why)
        )
        return
    about, change = json_attribute(results, "cube"), release.changes
    other = "" if release.cube == _cube_of(results) else "of another cube than the audited one"
    null_roi = "it counts users without an event (null_roi) where the audit does not, or vice versa"
    alike = "" if about.get("null_roi") is release.null_roi else null_roi
    unlike = "" if release.mechanism in _mechanisms_of(results) else "it was not audited"
    days = f"none is examined, being {other}" if other else _missing_days(results, release.span)
    yield _aspect("data", other, alike, change.get("data"))
    yield _aspect("days", days, good="all examined")
    yield _aspect("people", other)
    yield _aspect("mechanism", unlike, change.get("mechanism"))


def _aspect(name: str, *faults: str | None, good: str = "as audited", n: float = nan) -> Aspect:
    wrong = "; ".join(filter(None, faults))
    return Aspect(name, "not covered" if wrong else "covered", wrong or good, n)


def leave_out_others(run: Run) -> tuple[Run, list[str]]:
    """Return a run without results that are not of the releases of its audit, and what is left out.

    A screen and certificates must have all of its periods and group sizes, counted alike.
    """

    def settings(data: Any) -> tuple[set[Span], set[int], Any]:
        return {*spans_of(data)}, {*_sizes_of(data)}, json_attribute(data, "cube").get("null_roi")

    spans, sizes, null_roi = settings(run.audit)
    others: dict[str, Any] = {}
    for kind, data in (("screen", run.screen), ("certify", run.certify)):
        own = (spans, sizes, null_roi) if data is None else settings(data)
        if not (spans <= own[0] and sizes <= own[1] and own[2] == null_roi):
            others[kind] = None
    texts = [f"its {kind} is of other periods or group sizes, and left out" for kind in others]
    return replace(run, **others), texts


def spans_of(results: xr.Dataset) -> Sequence[Span]:
    """Return the first epoch of each period and the one after the last; none if not recorded."""
    if "period_id" in results:
        found = [_SPAN.match(str(one)) for one in results["period_id"].values]
        return [(int(at[1]), int(at[2])) for at in found if at] if all(found) else []
    plan: Any = json_attribute(results, "plan")
    periods = plan.get("audit", plan).get("periods", ())
    if periods and isinstance(periods[0], Mapping):
        return [(one["first"], one["first"] + one["epochs"]) for one in periods]
    return [(first, stop) for _, first, stop in periods]


def examined_spans(results: xr.Dataset) -> Sequence[Span]:
    """Return the spans of the periods in which somebody with an event was attacked."""
    spans = spans_of(results)
    if "status" not in results:
        return spans
    done = (results["status"] == "done").transpose("period", ...).values
    return [span for span, some in zip(spans, done, strict=True) if some.any()] if spans else []


def days_outside(results: xr.Dataset, span: Span | None = None) -> tuple[int, int, str]:
    """Return the number of days of a cube or of some epochs, how many are in no period, the unit.

    A day is in a period only with all of its epochs. Without a calendar, epochs are counted.
    """
    about: Any = json_attribute(results, "cube")
    outside = np.ones(about["n_epochs"], np.bool_)
    for first, stop in examined_spans(results):
        outside[first:stop] = False
    first, stop = span or (0, len(outside))
    if "calendar" not in about:
        return stop - first, int(outside[first:stop].sum()), "epoch"
    calendar = Calendar.from_attributes(about["calendar"])
    begins, ends = (calendar.days(ends=which).tolist() for which in (False, True))
    touched = (range(begins[i], ends[i] + 1) for i in np.flatnonzero(outside))
    missing = {day for some in touched for day in some}
    own = set(range(begins[first], ends[stop - 1] + 1))
    return len(own), len(own & missing), "day"


def _missing_days(results: xr.Dataset, span: Span) -> str:
    """Return which days of a release are not examined; empty if a period is this release."""
    if span in examined_spans(results):
        return ""
    if "n_epochs" not in json_attribute(results, "cube"):
        return "whether they are examined is not recorded"
    n, n_outside, unit = days_outside(results, span)
    if n_outside:
        these = f"this {unit}" if n == 1 else f"these {plural(n, unit)}"
        return f"{n_outside:,} of {these} {'is' if n_outside == 1 else 'are'} not examined"
    together = f"no audited period is this release: what its {unit}s tell together is not examined"
    return f"each is in an audited period, but {together}"


def _cube_of(results: xr.Dataset) -> str:
    """Return the fingerprint of the cube of the audited users, without simulated people."""
    own = json_attribute(results, "cube").get("known_fingerprint")
    return str(results.attrs.get("confirmed_on") or own or results.attrs.get("cube_fingerprint"))


def _mechanisms_of(results: xr.Dataset) -> set[str]:
    """Return the ids of audited mechanisms; of advice, that of the advised one."""
    if "yaml" in results.attrs:
        advised = yaml.safe_load(str(results.attrs["yaml"])) or ()
        return {MECHANISMS.create(**settings).id for settings in advised}
    return set(map(str, results.get("mechanism_id", results["mechanism"]).values))


def _sizes_of(results: xr.Dataset) -> list[int]:
    listed = results.get("group_size", results.attrs.get("group_size", ()))
    return [int(size) for size in np.atleast_1d(np.asarray(listed))]


def _compare_sizes(
    results: xr.Dataset, release: ReleaseScope | None, stated: Mapping[str, int | None]
) -> Aspect:
    """Return whether groups have the size of a release, by all who say how many it counts.

    Exposure at one size says nothing about another, because it is not monotone in the size. One of
    the numbers stated is the number audited; others may be that number rounded.
    """
    audited = _sizes_of(results)
    said = {who: size for who, size in stated.items() if size}
    if release is not None and (exact := release.n_people):
        number = release.group_size or exact
        said["the release"] = exact if exact in audited or not is_rounded(number, exact) else number
    of = f"the audit is of groups of {', '.join(f'{size:,}' for size in audited)}"
    texts = [f"{size:,} people by {who}" for who, size in said.items()]
    size = next((n for n in said.values() if n in audited), next(iter(said.values()), nan))
    wrong = ""
    if not said:
        wrong = (
            f"it is not stated how many people the release counts ({of}): state it by "
            "`--group-size`, or as `group_size` in the policy"
        )
    elif not all(is_rounded(number, size) for number in said.values()):
        wrong = f"how many people the release counts is not clear: {', '.join(texts)}"
    elif size not in audited:
        wrong = (
            f"the release counts {size:,} people, but {of}; exposure at one size says nothing "
            f"about another: audit with `group_sizes: [{size}]`"
        )
    text = f"the release counts {size:,} people, and so do the audited groups"
    return _aspect("group size", wrong, good=text, n=size)


def is_rounded(number: int, exact: float) -> bool:
    """Return whether a number is an exact one, rounded to two or more of its digits."""
    digits = str(number)
    unit = int(10 ** min(len(digits) - len(digits.rstrip("0")), max(0, len(digits) - 2)))
    return abs(number - exact) < unit
