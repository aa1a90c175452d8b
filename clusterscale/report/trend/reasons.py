"""Why releases warned or failed, in full."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from clusterscale.report.figures import verdict_mark
from clusterscale.report.section import Section, fill, quantity
from clusterscale.report.trend.phrases import WORDS, link
from clusterscale.report.trend.releases import ReleaseRow, Series

__all__ = ["reasons"]


def reasons(series: Sequence[Series]) -> Section | None:
    """Build what each check of a warned or failed release found, newest first; None if all pass."""
    several = len(series) > 1
    worse = [r for each in series for r in each.releases if r.verdict != "pass"]
    if not worse:
        return None
    folds = [
        (
            _label(each, several=several),
            fill(
                "trend_reasons.html.j2",
                release=each,
                name=_label(each, several=several),
                alone=len(worse) == 1,  # no fold has its name then
                level=_level,
                link=link,
                quantity=quantity,
            ),
        )
        for each in sorted(worse, key=lambda each: -each.number)
    ]
    return Section(
        "reasons",
        "Why releases warned or failed",
        "Every check of the policy, newest release first: what was measured, and the limit.",
        fill("folds.html.j2", folds=folds),
    )


def _level(level: str) -> str | Markup:
    return verdict_mark(level, WORDS[level]) if level in WORDS else "not known"


def _label(release: ReleaseRow, *, several: bool) -> str:
    parts = [release.series] if several else []
    return " · ".join([*parts, release.release, release.period, WORDS[release.verdict]])
