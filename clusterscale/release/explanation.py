"""What a published table means, in words of those who use it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Mechanism
from clusterscale.cube.calendar import Step
from clusterscale.mechanisms.chain import Chain
from clusterscale.mechanisms.suppression import Suppression
from clusterscale.release.content import RawRelease
from clusterscale.validation_messages import exact_number, exact_percent, plural

UNCERTAIN = "u"
"""Flag of values that are smaller than their margin."""

_COUNTED = "people who were there, each once in an epoch"


def uncertain(release: RawRelease) -> NDArray[np.bool_] | None:
    """Return which values are smaller than their margin, (roi, epoch); None if not known."""
    accuracy = release.metadata.accuracy
    return None if accuracy is None else np.asarray(np.abs(release.values) < accuracy.margin)


def explain_columns(release: RawRelease) -> dict[str, str]:
    """Return what ``place``, ``time``, ``count`` and ``flag`` of a table mean."""
    accuracy = release.metadata.accuracy
    words = {
        "place": "name of the place",
        "time": f"beginning of the epoch{_length(release)}; in the zone {release.timezone}, with "
        "the difference from UTC",
        "count": "; ".join([_COUNTED, *explain_values(release)]),
    }
    if accuracy is not None:
        words["flag"] = (
            f"{UNCERTAIN}: the value is below its margin of {exact_number(accuracy.margin)}, so "
            "that nobody may have been there"
        )
    return words


def explain_values(release: RawRelease) -> Iterator[str]:
    """Yield how values were published, what an empty one and a 0 mean, and how sure values are."""
    mechanism, accuracy = release.metadata.mechanism, release.metadata.accuracy
    if mechanism is None:
        return
    yield f"published as: {mechanism.heading}"
    yield from _hidden(mechanism)
    if accuracy is None:
        return
    if accuracy.margin == 0:
        yield "a value that is shown is the exact number"
        return
    within = f"is within {exact_number(accuracy.margin)} of the number that was counted"
    if accuracy.share == 1:
        yield f"a value that is shown {within}"
        return
    yield (
        f"noise with a standard deviation of {accuracy.noise:.3g} was added: with a probability of "
        f"{exact_percent(round(accuracy.share, 3))} the noisy value {within}"
    )
    if (step := _suppression(mechanism)) is not None:
        yield (
            "small values were hidden after the noise was added, so values just above "
            f"{step.least_shown:,} are more often too high than too low"
        )


def _suppression(mechanism: Mechanism) -> Suppression | None:
    """Return the last step that hides small values, None without one."""
    steps = mechanism.steps if isinstance(mechanism, Chain) else (mechanism,)
    return next((step for step in reversed(steps) if isinstance(step, Suppression)), None)


def _hidden(mechanism: Mechanism) -> Iterator[str]:
    step = _suppression(mechanism)
    if step is None:
        yield "no value is hidden"
    elif step.hidden == "zero":
        yield f"0: fewer than {step.least_shown:,}, or nobody"
    elif step.hidden == "hidden":
        yield f"empty: hidden, because the value is below {step.least_shown:,}, or 0"
    else:
        yield f"empty: hidden, because the value is from 1 to {step.least_shown - 1:,}; 0: nobody"


def _length(release: RawRelease) -> str:
    """Return how long an epoch lasts, in words; empty if that is not known."""
    times = release.epochs
    if times is None or times.dtype.kind != "M" or len(times) < 2:
        return ""
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
