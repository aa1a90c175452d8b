"""Utility over the releases of each series."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.section import Section, fill, join, percent, quantity
from clusterscale.report.trend.exposure import judged
from clusterscale.report.trend.phrases import WORDS
from clusterscale.report.trend.releases import Series
from clusterscale.utility import NEARLY_EMPTY

__all__ = ["utility"]


def utility(series: Sequence[Series]) -> Section | None:
    """Build a figure per measure for each series; None if no utility was measured."""
    folds = [
        (one.name, fill("panels.html.j2", panels=join(panels)))
        for i, one in enumerate(series, 1)
        if (panels := _panels(one, i))
    ]
    if not folds:
        return None
    return Section(
        "utility",
        "Utility over releases",
        "Utility of the published values by each measure. The report of each run states whether "
        "high or low values are better.",
        _nearly_empty(series)
        + figures.course_legend([], WORDS)
        + fill("folds.html.j2", folds=folds),
    )


def _nearly_empty(series: Sequence[Series]) -> Markup:
    """List the releases that are nearly empty; nothing if there are none."""
    names = [
        f"{one.name}: {release.release}" if len(series) > 1 else release.release
        for one in series
        for release in one.releases
        if release.utility.get("events_kept", 1.0) < NEARLY_EMPTY
    ]
    if not names:
        return Markup("")
    return fill("empty_releases.html.j2", names=names, limit=percent(NEARLY_EMPTY))


def _panels(series: Series, place: int) -> list[Markup]:
    measures = dict.fromkeys(name for release in series.releases for name in release.utility)
    return [
        panel
        for index, name in enumerate(measures, 1)
        if (panel := _panel(series, name, f"utility-{place}-{index}")) is not None
    ]


def _panel(series: Series, measure: str, slug: str) -> Markup | None:
    values = [release.utility.get(measure, float("nan")) for release in series.releases]
    known = [value for value in values if isfinite(value)]
    if not known:
        return None
    return figures.plot(
        figures.draw_time_series(
            [figures.Course("value", values)], judged(series.releases), axis="value"
        ),
        slug=slug,
        title=measure,
        description=f"{measure} over releases: {quantity(min(known))} to {quantity(max(known))}, "
        f"newest {quantity(known[-1])}",
    )
