"""What a published table means, in words of those who use it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import floor
from typing import Any

import numpy as np

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


def explain_values(release: RawRelease) -> Iterator[str]:
    """Yield how values were published, what an empty one and a 0 mean, and how sure values are."""
    mechanism, accuracy = release.metadata.mechanism, release.metadata.accuracy
    if mechanism is None:
        return
    yield f"published as: {mechanism.heading}"
    if mechanism.trace_steps:
        yield "what was left out or merged before counting is not in the margin"
    yield from _hidden(release)
    if accuracy is None:
        yield "how far values are from what was counted is not stated"
        return
    step = last_suppression(mechanism)
    shown = "a value above 0" if step is not None and step.hidden == "zero" else "a value"
    within = f"is within {exact_number(accuracy.margin)} of the number that was counted"
    if accuracy.share == 1:
        exact = "is the number that was counted"
        yield f"{shown} that is shown {exact if accuracy.margin == 0 else within}"
        return
    yield (
        f"noise with a standard deviation of {accuracy.noise:.3g} was added: with a probability of "
        f"{exact_percent(floor(1000 * accuracy.share) / 1000)} the noisy value {within}"
    )
    if step is not None:
        yield (
            "small values were hidden after the noise was added, so values just above "
            f"{step.least_shown:,} are more often too high than too low"
        )


def _hidden(release: RawRelease) -> Iterator[str]:
    """Yield what an empty value and a 0 mean, where all steps are known."""
    mechanism, accuracy = release.metadata.mechanism, release.metadata.accuracy
    assert mechanism is not None
    step = last_suppression(mechanism)
    if step is None:
        if accuracy is not None:
            yield "no value is hidden"
        return
    least, is_last = f"{step.least_shown:,}", steps_of(mechanism)[-1] == step
    value = "the value" if is_last else "the value before the last steps"
    if step.hidden == "zero":
        yield f"0: {value} is below {least}, or 0"
    elif step.hidden == "hidden":
        yield f"empty: hidden, because {value} is below {least}, or 0"
    else:
        yield f"empty: hidden, because {value} is above 0 and below {least}"
        if accuracy is not None and accuracy.share == 1:
            yield "0: nobody was counted"


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
    about, columns = release.metadata, explain_columns(release)
    lines = [f"# {name}", ""]
    n_places, n_epochs = release.values.shape
    lines += [f"{plural(n_places, 'place')} at {plural(n_epochs, 'time')}.", ""]
    columns["count"] = _COUNTED
    lines += [f"- **{column}**: {words}." for column, words in columns.items()]
    if about.mechanism is not None:
        lines += ["", "The values of `count`:", ""]
        lines += [f"- {words}." for words in explain_values(release)]
    lines += [""]
    if about.group_size:
        lines += [f"The number of people counted is stated as {about.group_size:,}.", ""]
    if about.guarantee:
        lines += [f"What is guaranteed to a person: {about.guarantee}.", ""]
    if about.rows:
        lines += [
            "Places and times are a public list, with a row for each."
            if about.rows == "public"
            else "Places and times are those at which somebody was counted.",
            "",
        ]
    if about.ledger is not None:
        lines += [f"It is release {about.ledger.number:,} of the series {about.series}.", ""]
    return "\n".join(lines)


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
