"""Table of verdicts: the worst case of each mechanism."""

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
    Column("Verdict", number=False, hint="Worst over all settings; defined below"),
    Column("Mean AUC", hint="Of the strongest attack"),
    Column("95 % interval"),
    Column("Certainly above 0.75", hint="Targets; simultaneous 95 % confidence (Holm)"),
    Column("Gain", hint="Mean privacy gain where raw counts expose most; lowest over priors"),
    Column("Utility lost", hint="Relative to a random guess, by the measure with the largest loss"),
    Column(
        "Guarantee", number=False, hint="Declared ε, the unit it protects, and the test’s verdict"
    ),
)
_UNITS = {"event": "an event", "user_day": "a day", "user": "a user", "roi_series": "a place"}


def verdicts(by_mechanism: Defences, results: xr.Dataset, findings: Sequence[Finding]) -> Markup:
    """Return a table with the worst finding of each mechanism over all settings.

    It is empty if there are no findings.
    """
    if not findings:
        return Markup("")
    gains, promises = least_gains(by_mechanism), _promises(results)
    rows: list[list[str | Markup]] = [
        [
            breakable(name),
            fill("exposure.html.j2", finding=line),
            number(line.mean),
            interval(line.low, line.high),
            f"{line.n_certain:,} of {line.n_done:,}",
            number(gains.get(name, float("nan")), 2),
            "none" if name == by_mechanism.raw_counts else _lost(by_mechanism, name),
            promises.get(name, "–"),
        ]
        for name, line in worst_findings(findings).items()
    ]
    return Table("Worst case for each publication method", _COLUMNS, [("", rows)]).html


def _lost(by_mechanism: Defences, mechanism: str) -> Markup:
    """Format the largest utility loss with its measure, and whether the release is nearly empty."""
    share, measure = price_of(by_mechanism, mechanism)
    return fill(
        "lost.html.j2",
        share=percent(share) if share <= 1 else "all" if np.isfinite(share) else "–",
        measure=measure.title if measure else "",
        empty=by_mechanism.emptiest(mechanism),
    )


def _promises(results: xr.Dataset) -> dict[str, Markup]:
    """Return the guarantee of each mechanism and its worst test verdict over periods."""
    as_floats = list_float_noise(results)
    risk = f"{FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"
    texts = {name: fill("promise.html.j2", unit="", risk=risk) for name in as_floats}
    listed: set[str] = set()
    for outcome in tried(results):
        known = outcome.unit not in ("none", "") and np.isfinite(outcome.promised)
        if not known or (outcome.mechanism in listed and outcome.verdict != BROKEN):
            continue
        listed.add(outcome.mechanism)
        texts[outcome.mechanism] = fill(
            "promise.html.j2",
            epsilon=quantity(outcome.promised),
            unit=_UNITS.get(outcome.unit, outcome.unit),
            verdict=outcome.verdict,
            broken=outcome.verdict == BROKEN,
            risk=risk if outcome.mechanism in as_floats else "",
        )
    return texts
