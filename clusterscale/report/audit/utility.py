"""Utility of each mechanism."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report.defences import CaseIndex, Defences, Measure, defences, name_mechanism
from clusterscale.report.section import Column, Section, Table, fill, number, percent, quantity
from clusterscale.utility import NEARLY_EMPTY


def build(results: xr.Dataset) -> Section | None:
    """Build the measures of utility by mechanism; None without a defence or a measurement."""
    by_mechanism = defences(results)
    if not by_mechanism.any or not np.isfinite(by_mechanism.utility).any():
        return None
    columns = [Column("Mechanism", number=False, header=True, wide=True)]
    columns += [Column(_heading(measure), hint=measure.name) for measure in by_mechanism.measures]
    groups = [
        (place.label, _rows(by_mechanism, place))
        for place in by_mechanism.places()
        if np.isfinite(by_mechanism.utility[place.period, place.size]).any()
    ]
    caption = "Utility of published values, mean (standard deviation) over groups"
    return Section(
        "utility",
        "Utility of each defence",
        "Published values are compared with the counts of the same groups. Each heading states "
        "the best value of its measure. The random guess is drawn without any data; a mechanism "
        "that does no better has no utility by that measure. A release that keeps less than "
        f"{percent(NEARLY_EMPTY)} of the events is marked as nearly empty: if most counts are 0, "
        "publishing zeros has a small relative error but no use. If the cube has a null region, "
        "events kept and total variation omit it; the other measures include it, as in the papers.",
        Table(caption, columns, groups).html,
    )


def _heading(measure: Measure) -> Markup:
    return fill("measure.html.j2", title=measure.title, ideal=quantity(measure.ideal))


def _rows(by_mechanism: Defences, place: CaseIndex) -> list[list[str | Markup]]:
    at = (place.period, place.size)
    rows: list[list[str | Markup]] = []
    for mechanism in range(len(by_mechanism.mechanisms)):
        pairs = zip(
            by_mechanism.utility[at][mechanism], by_mechanism.spread[at][mechanism], strict=True
        )
        rows.append(
            [
                name_mechanism(by_mechanism, place, mechanism),
                *(_cell(float(value), float(sd)) for value, sd in pairs),
            ]
        )
    rows.append(
        [Markup("<i>random guess</i>"), *(_number(float(v)) for v in by_mechanism.guess[at])]
    )
    return rows


def _cell(value: float, sd: float) -> Markup:
    spread = f"({_number(sd)})" if np.isfinite(sd) else ""
    return fill("spread.html.j2", value=_number(value), spread=spread)


def _number(value: float) -> str:
    """Format a value with three decimals, or fewer if it is large, as relative errors may be."""
    return quantity(value) if abs(value) >= 100 else number(value)
