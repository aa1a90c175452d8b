"""What a published table means, in words of those who use it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import floor
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from clusterscale.contracts import hash_of
from clusterscale.cube.calendar import Step
from clusterscale.mechanisms.chain import last_suppression, steps_of
from clusterscale.release.content import RawRelease
from clusterscale.validation_messages import exact_number, exact_percent, plural

UNCERTAIN = "u"
"""Flag of values that are not above their margin."""

CENTRE = ("lat", "lon")
"""Columns or variables with the centres of places."""

_COUNTED = "people who were there, each once in an epoch"  # of what clusterscale has published


def explain_columns(release: RawRelease) -> dict[str, str]:
    """Return what ``place``, ``time``, ``count`` and ``flag`` of a table mean."""
    accuracy, stated = release.metadata.accuracy, release.metadata.ledger
    counted = "published value" if stated is None else _COUNTED
    words = {
        "place": "name of the place",
        "time": f"beginning of the epoch{_length(release)}, in UTC unless a difference from it is "
        f"stated; the zone of the places is {release.timezone}",
        "count": "; ".join([counted, *explain_values(release)]),
    }
    if release.centres is not None:
        for name, word in zip(CENTRE, ("latitude", "longitude"), strict=True):
            words[name] = f"{word} of the centre of the place in degrees, WGS 84"
    if accuracy is not None:
        words["flag"] = (
            f"{UNCERTAIN}: the value is not above its margin of {exact_number(accuracy.margin)}, "
            "so that nobody may have been there"
        )
    return words


def explain_values(release: RawRelease) -> list[str]:
    """Return how values were published, what an empty one and a 0 mean, and how sure values are."""
    mechanism, accuracy = release.metadata.mechanism, release.metadata.accuracy
    if mechanism is None:
        return []
    step = last_suppression(mechanism)
    text = _templates().get_template("values.txt.j2")
    return text.render(
        mechanism=mechanism,
        accuracy=accuracy,
        step=step,
        clipped=any(getattr(one, "clip", False) for one in steps_of(mechanism)),
        least="" if step is None else f"{step.least_shown:,}",
        is_last=steps_of(mechanism)[-1] == step,
        margin="" if accuracy is None else exact_number(accuracy.margin),
        share="" if accuracy is None else exact_percent(floor(1000 * accuracy.share) / 1000),
    ).splitlines()


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("clusterscale.release"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _length(release: RawRelease) -> str:
    """Return how long an epoch lasts, in words; empty if that is not known."""
    times = release.epochs
    if times is None or times.dtype.kind != "M" or len(times) < 2:
        return ""
    mechanism = release.metadata.mechanism
    if mechanism is not None and mechanism.trace_steps:
        return ""  # epochs may have been merged, and not only with the next ones
    step = Step.between(times.astype("datetime64[s]").astype(np.int64), release.timezone)
    length = str(step)
    for seconds, unit in ((60, "minute"), (3600, "hour")):
        if step.unit == "second" and step.seconds % seconds == 0:
            length = plural(step.seconds // seconds, unit)
    return f", which lasts {length}"


def explain_release(name: str, release: RawRelease) -> str:
    """Return a page in Markdown on the release in a file, for those who use it."""
    n_places, n_epochs = release.values.shape
    return (
        _templates()
        .get_template("release.md.j2")
        .render(
            name=name,
            size=f"{plural(n_places, 'place')} at {plural(n_epochs, 'time')}",
            columns=explain_columns(release) | {"count": _COUNTED},
            values=explain_values(release),
            about=release.metadata,
        )
    )


def digest_texts(name: str, release: RawRelease) -> tuple[str, ...]:
    """Return the digests of all texts that explain the release in a file."""
    texts = [explain_release(name, release), *explain_columns(release).values()]
    if release.centres is not None:
        texts.append(list_centres(release.rois or (), *release.centres.T))
    return tuple(map(hash_of, texts))


def list_centres(names: Iterable[str], lat: Iterable[Any], lon: Iterable[Any]) -> str:
    """Return the names of places, sorted, and their centres, as one text."""
    rows = zip(names, lat, lon, strict=False)  # others than were written in a damaged file
    return "\n".join(sorted(f"{name} {float(y)} {float(x)}" for name, y, x in rows))
