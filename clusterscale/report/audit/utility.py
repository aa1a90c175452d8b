"""How much of the counts is still there after each defence."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.defences import CaseIndex, Defences, Measure, defences, name_mechanism
from clusterscale.report.section import Column, Section, Table, fill, number, percent, quantity
from clusterscale.utility import NEARLY_EMPTY


def build(results: xr.Dataset) -> Section | None:
    """Build the measures of utility by mechanism; None without a defence or a number."""
    found = defences(results)
    if not found.any or not np.isfinite(found.utility).any():
        return None
    columns = [Column("Mechanism", number=False, header=True, wide=True)]
    columns += [Column(_heading(measure), hint=measure.name) for measure in found.measures]
    groups = [
        (place.label, _rows(found, place))
        for place in found.places()
        if np.isfinite(found.utility[place.period, place.size]).any()
    ]
    caption = "Utility of what is published, mean (standard deviation) over groups"
    return Section(
        "utility",
        "What is left of the data",
        "Published values are compared with the counts of the same groups. Each heading says "
        "which value is best: the nearer, the more is left. The random guess is made up without "
        "any data; a mechanism that does no better has kept nothing that the measure sees. A "
        f"release that keeps less than {percent(NEARLY_EMPTY)} of the events is marked as nearly "
        "empty: where most counts are 0, zeros have a small relative error, and are of no use. "
        "Where being nowhere counts as a place of its own, events kept and total variation leave "
        "it out; the other measures include it, as the papers do.",
        Table(caption, columns, groups).html,
    )


def _heading(measure: Measure) -> Markup:
    return fill("measure.html.j2", title=measure.title, ideal=quantity(measure.ideal))


def _rows(found: Defences, place: CaseIndex) -> list[list[str | Markup]]:
    at = (place.period, place.size)
    rows: list[list[str | Markup]] = []
    for mechanism in range(len(found.mechanisms)):
        pairs = zip(found.utility[at][mechanism], found.spread[at][mechanism], strict=True)
        rows.append(
            [
                name_mechanism(found, place, mechanism),
                *(_cell(float(value), float(sd)) for value, sd in pairs),
            ]
        )
    rows.append([Markup("<i>random guess</i>"), *(_number(float(v)) for v in found.guess[at])])
    return rows


def _cell(value: float, sd: float) -> Markup:
    spread = f"({_number(sd)})" if np.isfinite(sd) else ""
    return fill("spread.html.j2", value=_number(value), spread=spread)


def _number(value: float) -> str:
    """Write the value of a measure: three decimals, but an error may pass 1 many times over."""
    return quantity(value) if abs(value) >= 100 else number(value)
