"""What a published table means, in words of those who use it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from math import ceil, exp, floor, log, prod, tau
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from clusterscale.contracts import Ints, hash_of
from clusterscale.cube.calendar import Step
from clusterscale.mechanisms.chain import steps_of
from clusterscale.mechanisms.coarsening import CoarsenSpace
from clusterscale.mechanisms.noise import AdditiveNoise
from clusterscale.mechanisms.sampling import CapContributions, SampleTraces
from clusterscale.mechanisms.scaling import Expand
from clusterscale.mechanisms.suppression import Suppression
from clusterscale.phrases import privacy_unit
from clusterscale.redaction import in_markdown, one_line
from clusterscale.release.content import RawRelease
from clusterscale.validation_messages import exact_number, exact_percent, plural

UNCERTAIN = "u"
"""Flag of values that are not above their margin."""

CENTRE = ("lat", "lon")
"""Columns or variables with the centres of places."""

_EXCESS = {"laplace": 8**-0.5, "gaussian": tau**-0.5}
"""Mean of noise whose negative values are set to 0, in its standard deviations."""

_KEEP_EPOCHS = {CapContributions, CoarsenSpace, SampleTraces}  # other trace steps may merge them


def explain_columns(release: RawRelease) -> dict[str, str]:
    """Return what ``place``, ``time``, ``count`` and ``flag`` of a table mean."""
    counted = "published value" if release.metadata.ledger is None else _counted(release)
    words = {
        "place": "name of the place",
        "time": f"beginning of the epoch{_length(release)}, in UTC unless a difference from it is "
        f"stated; the zone of the places is {release.timezone}",
        "count": "; ".join([counted, *explain_values(release)]),
    }
    if release.centres is not None:
        for name, word in zip(CENTRE, ("latitude", "longitude"), strict=True):
            words[name] = f"{word} of the centre of the place in degrees, WGS 84"
    if release.metadata.accuracy is not None:
        words["flag"] = _fill("flag.txt.j2", release).strip()
    return words


def explain_values(release: RawRelease) -> list[str]:
    """Return how values were published, what an empty one and a 0 mean, and how sure values are."""
    known = release.metadata.mechanism is not None
    return _fill("values.txt.j2", release).splitlines() if known else []


def _counted(release: RawRelease) -> str:
    """Return what a value is of a release that clusterscale has published."""
    users = release.metadata.counted or "users of the records (people, cards or devices)"
    return f"how many {one_line(users)} were counted, each once in an epoch"


def _fill(template: str, release: RawRelease, **others: Any) -> str:
    """Return a text on a release."""
    about, mechanism = release.metadata, release.metadata.mechanism
    steps, before = ((), ()) if mechanism is None else (steps_of(mechanism), mechanism.trace_steps)
    noises = [one for one in steps if isinstance(one, AdditiveNoise) and one.integers == "none"]
    hiding = [one for one in steps if isinstance(one, Suppression)]
    factors = [one.factor for one in steps if isinstance(one, Expand) and not one.uses_weights]
    rest = [one for one in steps if one not in (*before, *noises)]
    text = _templates().get_template(template)
    return text.render(
        about=about,
        accuracy=about.accuracy,
        mechanism=mechanism,
        hiding=hiding,
        ends=bool(hiding) and steps[-1] is hiding[-1],
        alone=len(hiding) == 1 and {*map(type, rest)} <= {Expand, type(hiding[0])},
        times="" if not factors else f"{prod(map(float, factors)):.12g} times ",
        clipped=any(getattr(one, "clip", False) for one in steps),
        n_noises=len(noises) if {*map(type, rest)} <= {Expand} else None,
        excess=None if rest or len(noises) != 1 else _EXCESS.get(noises[0].name),
        flag=UNCERTAIN,
        n_values=release.values.size,
        **others,
    )


@cache
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("clusterscale.release"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=one_line,
    )
    percent = {"percent": lambda share: exact_percent(floor(1000 * share) / 1000)}
    templates.filters.update({"exact": exact_number, "privacy_unit": privacy_unit, **percent})
    templates.filters["text"] = in_markdown
    return templates


def _length(release: RawRelease) -> str:
    """Return how long an epoch lasts, in words; empty if that is not known."""
    mechanism, seconds = release.metadata.mechanism, _seconds(release)
    merged = mechanism is not None and not {*map(type, mechanism.trace_steps)} <= _KEEP_EPOCHS
    if len(seconds) < 2 or merged:
        return ""  # epochs may have been merged, and not only with the next ones
    step = Step.between(seconds, release.timezone)
    length = str(step)
    for size, unit in ((60, "minute"), (3600, "hour")):
        if step.unit == "second" and step.seconds % size == 0:
            length = plural(step.seconds // size, unit)
    return f", which lasts {length}"


def _seconds(release: RawRelease) -> Ints:
    """Return when epochs begin, UTC seconds, int64, shape (epoch,); empty if that is not known."""
    times = release.epochs
    if times is None or times.dtype.kind != "M":
        return np.empty(0, np.int64)
    return times.astype("datetime64[s]").astype(np.int64)


def explain_release(name: str, release: RawRelease) -> str:
    """Return a page in Markdown on the release in a file, for those who use it."""
    (n_places, n_epochs), zone = release.values.shape, ZoneInfo(release.timezone)
    times = [datetime.fromtimestamp(second, zone) for second in _seconds(release).tolist()]
    ledger = release.metadata.ledger
    size = f"{plural(n_places, 'place')} at {plural(n_epochs, 'time')}"
    if times:
        size += f", from {min(times):%Y-%m-%d %H:%M} to {max(times):%Y-%m-%d %H:%M}, {zone.key}"
    return _fill(
        "release.md.j2",
        release,
        name=name,
        size=size,
        zone=zone.key,
        factor=_factor(ledger.epsilon) if ledger and ledger.epsilon else "",
        columns=explain_columns(release) | {"count": _counted(release)},
        values=explain_values(release),
        clocks_change=len({time.utcoffset() for time in times}) > 1,
    )


def _factor(epsilon: float) -> str:
    """Return e^ε, rounded up; empty above a million, which is next to no guarantee."""
    if epsilon > log(1e6):
        return ""
    factor = exp(epsilon)
    return f"{ceil(factor):,}" if factor > 100 else f"{ceil(100 * factor) / 100:.2f}"


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
