"""How exposure goes over the releases of each series."""

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
    """Build a figure a series; None where nothing was judged."""
    if not series:
        return None
    folds = [(each.name, _figure(each, i)) for i, each in enumerate(series, 1)]
    level = _level([release for each in series for release in each.releases])
    return Section(
        "exposure",
        "Exposure over releases",
        "Privacy loss is 0 when an attack does no better than a coin and 1 when it always "
        "recognises a person. The bar about the mean is its 95 % interval; the mark on it says "
        "the verdict, at the bottom where no loss is known. The share is that of people whose "
        f"loss is above {level}.",
        figures.course_legend(_NAMES, WORDS) + fill("folds.html.j2", folds=folds),
    )


def judged(releases: Sequence[ReleaseRow]) -> figures.ReleaseAxis:
    """Return releases as a figure marks them."""
    return figures.ReleaseAxis(
        [each.release for each in releases],
        [each.period for each in releases],
        [each.verdict for each in releases],
        [WORDS[each.verdict] for each in releases],
    )


def _figure(series: Series, place: int) -> Markup:
    releases = series.releases
    mean = figures.Course(
        _NAMES[0],
        [each.mean_privacy_loss for each in releases],
        [each.mean_privacy_loss_low for each in releases],
        [each.mean_privacy_loss_high for each in releases],
    )
    worst = figures.Course(_NAMES[1], [each.worst_privacy_loss for each in releases])
    share = figures.Course(_NAMES[2], [each.share_above for each in releases])
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
    told = f"Privacy loss over {plural(len(series.releases), 'release')}"
    told += f"; mean of the newest {number(last.mean_privacy_loss)}"
    told += f", worst {number(last.worst_privacy_loss)}"
    if len(series.releases) > 1:
        told += f"; mean of the first {number(first.mean_privacy_loss)}"
    return f"{told}; {series.count('warn')} warned, {series.count('fail')} failed"


def _level(releases: Sequence[ReleaseRow]) -> str:
    levels = {f"{each.loss_above:g}" for each in releases if each.loss_above == each.loss_above}
    return levels.pop() if len(levels) == 1 else "the level of its release"
