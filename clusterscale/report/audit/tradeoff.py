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
    """Build one panel for each measure, as POMACS20 Figs 7 to 10; None without both numbers."""
    found = defences(results)
    if not found.gains_known or not np.isfinite(found.loss).any():
        return None
    axes = [_axis(found, measure) for measure in range(len(found.measures))]
    folds = [
        (_label(found, place, prior), panels)
        for prior in range(len(found.priors))
        for place in found.places()
        if (panels := _panels(found, place, prior, axes))
    ]
    if not folds:
        return None
    crossed = f"keeps less than {percent(NEARLY_EMPTY)} of the events: (nearly) empty release"
    legend = figures.marks(
        found.mechanisms,
        line="random guess, made up without any data",
        crossed=crossed if any(map(found.emptiest, found.mechanisms)) else "",
    )
    return Section(
        "tradeoff",
        "What it buys against what it costs",
        "Each mark is a mechanism; upper left is best: much of the attack’s advantage gone, "
        "little of the data lost. Height is the mean privacy gain against the attack that is "
        "strongest on bare counts. Utility loss is the distance to the best value of a measure; "
        "marks right of the dashed line are further off than a random guess. A mark that is "
        "crossed out is no choice: its release is (nearly) empty. Relative errors and events kept "
        "are on a logarithmic axis, with 0 at its left end.",
        legend + fill("folds.html.j2", folds=folds),
    )


def _label(found: Defences, place: CaseIndex, prior: int) -> str:
    return " · ".join(
        [found.priors[prior], place.label] if len(found.priors) > 1 else [place.label]
    )


def _axis(found: Defences, measure: int) -> figures.Axis:
    # the same for every period and group size, so that panels can be compared
    values = np.concatenate(
        [found.loss[..., measure].ravel(), found.guess_loss[..., measure].ravel()]
    )
    return figures.axis(values, log=found.measures[measure].relative)


def _panels(
    found: Defences, place: CaseIndex, prior: int, axes: list[figures.Axis]
) -> Markup | None:
    panels = []
    for index, measure in enumerate(found.measures):
        points = _points(found, place, prior, index)
        if not points:
            continue
        guess = float(found.guess_loss[place.period, place.size, index])
        size = found.table.group_sizes[place.size]
        panels.append(
            figures.plot(
                figures.tradeoff(points, guess, axes[index]),
                slug=f"tradeoff-{place.period + 1}-{prior + 1}-{size}-{index + 1}",
                title=measure.title,
                description=_in_words(points, measure.title, guess),
            )
        )
    return fill("panels.html.j2", panels=join(panels)) if panels else None


def _points(found: Defences, place: CaseIndex, prior: int, measure: int) -> list[figures.Point]:
    losses = found.loss[place.period, place.size, :, measure]
    points = [
        figures.Point(i, name, float(losses[i]), mean(found.gains(place, prior, i)), empty)
        for i, name in enumerate(found.mechanisms)
        for empty in [found.emptiness(place, i)]
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
