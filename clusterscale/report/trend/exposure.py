"""Exposure over the releases of each series."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from clusterscale.report import figures
from clusterscale.report.section import Section, fill, number, plural
from clusterscale.report.trend.phrases import WORDS
from clusterscale.report.trend.releases import ReleaseRow, Series

__all__ = ["exposure", "judged"]

_NAMES = ("mean privacy loss", "worst privacy loss", "share of people above")


def exposure(series: Sequence[Series]) -> Section | None:
    """Build a figure per series; None if there are no verdicts."""
    if not series:
        return None
    folds = [(one.name, _figure(one, i)) for i, one in enumerate(series, 1)]
    level = _level([release for one in series for release in one.releases])
    return Section(
        "exposure",
        "Exposure over releases",
        "Privacy loss is 0 if an attack is no better than guessing and 1 if it always recognises a "
        "person. The bar around the mean is its 95 % interval; its mark is the verdict, at the "
        "bottom if no loss is known. The share is that of people whose loss is above "
        f"{level}.",
        figures.course_legend(_NAMES, WORDS) + fill("folds.html.j2", folds=folds),
    )


def judged(releases: Sequence[ReleaseRow]) -> figures.ReleaseAxis:
    """Return the axis of releases, with their verdicts."""
    return figures.ReleaseAxis(
        [release.release for release in releases],
        [release.period for release in releases],
        [release.verdict for release in releases],
        [WORDS[release.verdict] for release in releases],
    )


def _figure(series: Series, place: int) -> Markup:
    releases = series.releases
    mean = figures.Course(
        _NAMES[0],
        [release.mean_privacy_loss for release in releases],
        [release.mean_privacy_loss_low for release in releases],
        [release.mean_privacy_loss_high for release in releases],
    )
    worst = figures.Course(_NAMES[1], [release.worst_privacy_loss for release in releases])
    share = figures.Course(_NAMES[2], [release.share_above for release in releases])
    return figures.plot(
        figures.draw_time_series(
            [mean, worst, share], judged(releases), axis="loss, share", span=(0, 1)
        ),
        slug=f"exposure-{place}",
        title=f"{series.name}: {plural(len(releases), 'release')}",
        description=_in_words(series),
    )


def _in_words(series: Series) -> str:
    first, last = series.releases[0], series.newest
    text = f"Privacy loss over {plural(len(series.releases), 'release')}"
    text += f"; mean of the newest {number(last.mean_privacy_loss)}"
    text += f", worst {number(last.worst_privacy_loss)}"
    if len(series.releases) > 1:
        text += f"; mean of the first {number(first.mean_privacy_loss)}"
    return f"{text}; {series.count('warn')} warned, {series.count('fail')} failed"


def _level(releases: Sequence[ReleaseRow]) -> str:
    levels = {
        f"{release.loss_above:g}"
        for release in releases
        if release.loss_above == release.loss_above
    }
    return levels.pop() if len(levels) == 1 else "the level of its release"
