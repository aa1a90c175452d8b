"""Phrases about releases that several sections of the page use."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from urllib.parse import quote

from markupsafe import Markup

from clusterscale.contracts import Reason
from clusterscale.report.figures import verdict_mark
from clusterscale.report.section import number, plural, quantity
from clusterscale.report.trend.releases import ReleaseRow

__all__ = ["WORDS", "change", "crossed", "in_short", "link", "span", "verdict"]

_PLAIN = 0.005  # smallest number that is not 0 with two digits

WORDS: Mapping[str, str] = {"pass": "passed", "warn": "warned", "fail": "failed"}
"""Display words for verdicts."""


def verdict(release: ReleaseRow) -> Markup:
    """Return a verdict with its mark."""
    return verdict_mark(release.verdict, WORDS[release.verdict])


def link(release: ReleaseRow) -> str:
    """Return the relative address of the run's report; empty without a run."""
    # quoted, so that a folder is not parsed as a scheme or another host
    folder = quote(release.run.strip("/"), safe="/")
    return f"{folder}/report.html" if folder else ""


def span(low: float, high: float, digits: int = 3) -> str:
    """Format an interval with possibly negative ends, without line breaks; a dash if unknown."""
    if not (isfinite(low) and isfinite(high)):
        return "–"
    return f"{number(low, digits)}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{number(high, digits)}"


def change(release: ReleaseRow) -> str:
    """Return a sentence on the change of exposure since the last releases of the series."""
    if not isfinite(release.change):
        if release.n_common:
            return "The change of exposure since the last releases is unknown."
        return "No change of exposure is known: nobody was also in an earlier release."
    by = f"{release.change:+z.3f}"
    if not (isfinite(release.change_low) and isfinite(release.change_high)):
        return (
            f"Exposure changed by {by} since the last releases; too few people were compared for "
            "an interval."
        )
    # the end of the interval nearest to 0 must not be rounded to 0
    nearest = min(abs(release.change_low), abs(release.change_high))
    digits = 3 if nearest < _PLAIN else 2
    by = f"{release.change:+z.{digits}f}"
    by += f" ({span(release.change_low, release.change_high, digits)})"
    if release.change_low > 0:
        return f"People are more exposed than in the last releases: {by}."
    if release.change_high < 0:
        return f"People are less exposed than in the last releases: {by}."
    return f"Exposure has not changed significantly since the last releases: {by}."


def crossed(release: ReleaseRow) -> str:
    """Return a sentence on people who crossed the limit of exposure; empty without comparisons."""
    if not release.n_common:
        return ""
    return (
        f"Of {plural(release.n_common, 'person')} in both, {release.n_newly_exposed:,} newly "
        f"exposed and {release.n_no_longer_exposed:,} no longer exposed."
    ).replace("persons", "people")


def in_short(reason: Reason) -> str:
    """Return a reason in a few words: the check, the measured value and the limit."""
    name = reason.check.replace("_", " ")
    if not isfinite(reason.measured):
        return name
    limit = f", limit {quantity(reason.limit)}" if isfinite(reason.limit) else ""
    return f"{name} {quantity(reason.measured)}{limit}"
