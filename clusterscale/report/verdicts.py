"""The verdict on each mechanism, in a line: the first thing that a reader looks for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.audit.findings import Finding, worst_findings
from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK
from clusterscale.report.best_defence import least_gains, price_of
from clusterscale.report.defences import BROKEN, Defences, list_float_noise, tried
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

__all__ = ["verdicts"]

_COLUMNS = (
    Column("Mechanism", number=False, header=True, wide=True),
    Column("Verdict", number=False, hint="At the worst over all settings; defined below"),
    Column("Mean AUC", hint="Of the strongest attack"),
    Column("95 % interval"),
    Column("Certainly above 0.75", hint="Targets; all together with 95 % confidence (Holm)"),
    Column("Gain", hint="Mean privacy gain where raw counts expose most, least over priors"),
    Column("Utility lost", hint="Of what a random guess loses, by the measure that loses most"),
    Column(
        "Promise", number=False, hint="Differential privacy: what is hidden, and what trials say"
    ),
)
_UNITS = {"event": "an event", "user_day": "a day", "user": "a user", "roi_series": "a place"}


def verdicts(found: Defences, results: xr.Dataset, findings: Sequence[Finding]) -> Markup:
    """Return a table with a line for each mechanism, at its worst over all settings.

    Empty where there are no findings.
    """
    if not findings:
        return Markup("")
    gains, promises = least_gains(found), _promises(results)
    rows: list[list[str | Markup]] = [
        [
            breakable(name),
            fill("exposure.html.j2", finding=line),
            number(line.mean),
            interval(line.low, line.high),
            f"{line.n_certain:,} of {line.n_done:,}",
            number(gains.get(name, float("nan")), 2),
            "none" if name == found.raw_counts else _lost(found, name),
            promises.get(name, "–"),
        ]
        for name, line in worst_findings(findings).items()
    ]
    return Table("Worst case for each mechanism", _COLUMNS, [("", rows)]).html


def _lost(found: Defences, mechanism: str) -> Markup:
    """Write the largest utility loss with its measure, and whether the release is nearly empty."""
    share, measure = price_of(found, mechanism)
    return fill(
        "lost.html.j2",
        share=percent(share) if share <= 1 else "all" if np.isfinite(share) else "–",
        measure=measure.title if measure else "",
        empty=found.emptiest(mechanism),
    )


def _promises(results: xr.Dataset) -> dict[str, Markup]:
    """Return what each mechanism promises and how trials went, the worst over periods."""
    as_floats = list_float_noise(results)
    risk = f"{FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"
    told = {name: fill("promise.html.j2", unit="", risk=risk) for name in as_floats}
    seen: set[str] = set()
    for each in tried(results):
        known = each.unit not in ("none", "") and np.isfinite(each.promised)
        if not known or (each.mechanism in seen and each.verdict != BROKEN):
            continue
        seen.add(each.mechanism)
        told[each.mechanism] = fill(
            "promise.html.j2",
            epsilon=quantity(each.promised),
            unit=_UNITS.get(each.unit, each.unit),
            verdict=each.verdict,
            broken=each.verdict == BROKEN,
            risk=risk if each.mechanism in as_floats else "",
        )
    return told
