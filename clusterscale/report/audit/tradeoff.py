"""Privacy against utility."""

from __future__ import annotations

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.defences import CaseIndex, Defences, defences
from clusterscale.report.section import Section, fill, join, number, percent, quantity
from clusterscale.report.summary import mean
from clusterscale.utility import NEARLY_EMPTY


def build(results: xr.Dataset) -> Section | None:
    """Build a panel for each measure, as in POMACS20 Figs 7 to 10; None without gain or loss."""
    by_mechanism = defences(results)
    if not by_mechanism.gains_known or not np.isfinite(by_mechanism.loss).any():
        return None
    axes = [_axis(by_mechanism, measure) for measure in range(len(by_mechanism.measures))]
    folds = [
        (_label(by_mechanism, place, prior), panels)
        for prior in range(len(by_mechanism.priors))
        for place in by_mechanism.places()
        if (panels := _panels(by_mechanism, place, prior, axes))
    ]
    if not folds:
        return None
    crossed = f"keeps less than {percent(NEARLY_EMPTY)} of the events: (nearly) empty release"
    legend = figures.marks(
        by_mechanism.mechanisms,
        line="random guess, drawn without any data",
        crossed=crossed if any(map(by_mechanism.emptiest, by_mechanism.mechanisms)) else "",
    )
    return Section(
        "tradeoff",
        "Privacy gain against utility loss",
        "Each mark is a mechanism; the upper left is best: high privacy gain and low utility loss. "
        "The vertical axis is the mean privacy gain against the attack that is strongest on raw "
        "counts. Utility loss is the distance to the best value of a measure; marks right of the "
        "dashed line are further off than a random guess. Do not choose a crossed-out mechanism: "
        "its release is (nearly) empty. Relative errors and events kept have a logarithmic axis "
        "with 0 at its left end.",
        legend + fill("folds.html.j2", folds=folds),
    )


def _label(by_mechanism: Defences, place: CaseIndex, prior: int) -> str:
    return " · ".join(
        [by_mechanism.priors[prior], place.label] if len(by_mechanism.priors) > 1 else [place.label]
    )


def _axis(by_mechanism: Defences, measure: int) -> figures.Axis:
    # equal for all periods and group sizes, so that panels can be compared
    values = np.concatenate(
        [by_mechanism.loss[..., measure].ravel(), by_mechanism.guess_loss[..., measure].ravel()]
    )
    return figures.axis(values, log=by_mechanism.measures[measure].relative)


def _panels(
    by_mechanism: Defences, place: CaseIndex, prior: int, axes: list[figures.Axis]
) -> Markup | None:
    panels = []
    for index, measure in enumerate(by_mechanism.measures):
        points = _points(by_mechanism, place, prior, index)
        if not points:
            continue
        guess = float(by_mechanism.guess_loss[place.period, place.size, index])
        size = by_mechanism.table.group_sizes[place.size]
        panels.append(
            figures.plot(
                figures.tradeoff(points, guess, axes[index]),
                slug=f"tradeoff-{place.period + 1}-{prior + 1}-{size}-{index + 1}",
                title=measure.title,
                description=_in_words(points, measure.title, guess),
            )
        )
    return fill("panels.html.j2", panels=join(panels)) if panels else None


def _points(
    by_mechanism: Defences, place: CaseIndex, prior: int, measure: int
) -> list[figures.Point]:
    losses = by_mechanism.loss[place.period, place.size, :, measure]
    points = [
        figures.Point(i, name, float(losses[i]), mean(by_mechanism.gains(place, prior, i)), empty)
        for i, name in enumerate(by_mechanism.mechanisms)
        for empty in [by_mechanism.emptiness(place, i)]
    ]
    return [point for point in points if np.isfinite(point.loss) and np.isfinite(point.gain)]


def _in_words(points: list[figures.Point], measure: str, guess: float) -> str:
    marks = [
        f"{point.name}: gain {number(point.gain, 2)}, loss {quantity(point.loss)}"
        + (f" ({point.empty} release)" if point.empty else "")
        for point in points
    ]
    base = f" A random guess has loss {quantity(guess)}" if np.isfinite(guess) else ""
    return f"Mean privacy gain and utility loss by {measure}. " + "; ".join(marks) + f".{base}"
