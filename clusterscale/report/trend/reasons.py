"""All reasons why releases warned or failed."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from clusterscale.report.figures import verdict_mark
from clusterscale.report.section import Section, fill, quantity
from clusterscale.report.trend.phrases import WORDS, link
from clusterscale.report.trend.releases import ReleaseRow, Series

__all__ = ["reasons"]


def reasons(series: Sequence[Series]) -> Section | None:
    """Build the check results of warned or failed releases, newest first; None if all passed."""
    several = len(series) > 1
    worse = [r for one in series for r in one.releases if r.verdict != "pass"]
    if not worse:
        return None
    folds = [
        (
            _label(release, several=several),
            fill(
                "trend_reasons.html.j2",
                release=release,
                name=_label(release, several=several),
                alone=len(worse) == 1,  # a single fold has no label
                level=_level,
                link=link,
                quantity=quantity,
            ),
        )
        for release in sorted(worse, key=lambda release: -release.number)
    ]
    return Section(
        "reasons",
        "Why releases warned or failed",
        "Every check of the policy with its measured value and limit, newest release first.",
        fill("folds.html.j2", folds=folds),
    )


def _level(level: str) -> str | Markup:
    return verdict_mark(level, WORDS[level]) if level in WORDS else "unknown"


def _label(release: ReleaseRow, *, several: bool) -> str:
    parts = [release.series] if several else []
    return " · ".join([*parts, release.release, release.period, WORDS[release.verdict]])
