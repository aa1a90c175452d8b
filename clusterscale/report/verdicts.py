"""What each mechanism comes to, in a line: the first thing that a reader looks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.bargains import least_gains, price_of
from clusterscale.report.defences import BARE, BROKEN, Defences, tried
from clusterscale.report.section import (
    Column,
    Table,
    breakable,
    fill,
    interval,
    number,
    percent,
    quantity,
)
from clusterscale.report.summary import Row

__all__ = ["exposure", "verdicts"]

_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("People are", number=False, hint="By the 95 % interval of the mean AUC; see below"),
    Column("Mean AUC", hint="Of the strongest attack, where it does best"),
    Column("95 % interval"),
    Column("Targets above 0.75"),
    Column("Gain", hint="Mean privacy gain where bare counts expose most, least over priors"),
    Column("Utility lost", hint="Of what a random guess loses, by the worst measure"),
    Column(
        "Promise", number=False, hint="Differential privacy: what is hidden, and what trials say"
    ),
)
_UNITS = {"event": "an event", "user_day": "a day", "user": "a user", "roi_series": "a place"}
_EXPOSED, _CHANCE = 0.75, 0.5


def exposure(row: Row) -> str:
    """Return how exposed people are, by the interval of the mean AUC (or the mean if none).

    ``exposed`` where all of it is above .75, ``partly exposed`` where all of it is above .5, else
    ``not seen to be exposed``.
    """
    low = row.low if np.isfinite(row.low) else row.mean
    if low > _EXPOSED:
        return "exposed"
    return "partly exposed" if low > _CHANCE else "not seen to be exposed"


def verdicts(results: xr.Dataset, found: Defences, lines: Sequence[Row]) -> Markup:
    """Return a table with a line for each mechanism, at its worst over all settings.

    ``lines`` are the strongest attacks of all settings. Empty where there is one mechanism only.
    """
    worst: dict[str, Row] = {}
    for line in lines:
        name = line.setting.mechanism
        if name not in worst or line.mean > worst[name].mean:
            worst[name] = line
    if len(worst) < 2:
        return Markup("")
    gains, promises = least_gains(found), _promises(results)
    rows: list[list[str | Markup]] = [
        [
            breakable(name),
            fill("exposure.html.j2", word=exposure(line)),
            number(line.mean),
            interval(line.low, line.high),
            percent(line.above[1]),
            number(gains.get(name, float("nan")), 2),
            "none" if name == BARE else _lost(price_of(found, name)),
            promises.get(name, "–"),
        ]
        for name, line in worst.items()
    ]
    caption = "What each way to publish comes to, at its worst over all settings"
    return Table(caption, _COLUMNS, [("", rows)]).html


def _lost(share: float) -> str:
    return percent(share) if share <= 1 else "all" if np.isfinite(share) else "–"


def _promises(results: xr.Dataset) -> dict[str, Markup]:
    """Return what each mechanism promises and how trials went, the worst over periods."""
    told: dict[str, Markup] = {}
    for each in tried(results):
        known = each.unit not in ("none", "") and np.isfinite(each.promised)
        if not known or (each.mechanism in told and each.verdict != BROKEN):
            continue
        told[each.mechanism] = fill(
            "promise.html.j2",
            epsilon=quantity(each.promised),
            unit=_UNITS.get(each.unit, each.unit),
            verdict=each.verdict,
            broken=each.verdict == BROKEN,
        )
    return told
