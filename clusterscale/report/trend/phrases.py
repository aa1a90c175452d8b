"""What is said of releases in words, in more than one place of the page."""

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

_PLAIN = 0.005  # least number that two digits show

WORDS: Mapping[str, str] = {"pass": "passed", "warn": "warned", "fail": "failed"}
"""What a verdict is called."""


def verdict(release: ReleaseRow) -> Markup:
    """Write a verdict with its mark."""
    return verdict_mark(release.verdict, WORDS[release.verdict])


def link(release: ReleaseRow) -> str:
    """Return the relative address of the page of the run; nothing without a run."""
    # quoted, so that no folder is taken for a scheme or another host
    folder = quote(release.run.strip("/"), safe="/")
    return f"{folder}/report.html" if folder else ""


def span(low: float, high: float, digits: int = 3) -> str:
    """Write an interval whose ends may be negative, on one line; a dash where there is none."""
    if not (isfinite(low) and isfinite(high)):
        return "–"
    return f"{number(low, digits)}\N{NO-BREAK SPACE}to\N{NO-BREAK SPACE}{number(high, digits)}"


def change(release: ReleaseRow) -> str:
    """Say in a sentence how exposure changed against the last releases of the series."""
    if not isfinite(release.change):
        if release.n_common:
            return "How exposure changed against the last releases is not known."
        return "There is nothing to compare it with: nobody was seen in a release before it too."
    by = f"{release.change:+z.3f}"
    if not (isfinite(release.change_low) and isfinite(release.change_high)):
        return f"Against the last releases exposure changed by {by}; too few to say how surely."
    # the end that decides must not be rounded to nothing
    nearest = min(abs(release.change_low), abs(release.change_high))
    digits = 3 if nearest < _PLAIN else 2
    by = f"{release.change:+z.{digits}f}"
    by += f" ({span(release.change_low, release.change_high, digits)})"
    if release.change_low > 0:
        return f"People are more exposed than in the last releases: {by}."
    if release.change_high < 0:
        return f"People are less exposed than in the last releases: {by}."
    return f"No change of exposure against the last releases can be told from chance: {by}."


def crossed(release: ReleaseRow) -> str:
    """Say how many people crossed the limit of exposure; nothing where nobody was compared."""
    if not release.n_common:
        return ""
    return (
        f"Of {plural(release.n_common, 'person')} seen in both, "
        f"{release.n_newly_exposed:,} newly exposed, {release.n_no_longer_exposed:,} no longer."
    ).replace("persons", "people")


def in_short(reason: Reason) -> str:
    """Write a reason in a few words: the check, what it measured, and the limit."""
    name = reason.check.replace("_", " ")
    if not isfinite(reason.measured):
        return name
    limit = f", limit {quantity(reason.limit)}" if isfinite(reason.limit) else ""
    return f"{name} {quantity(reason.measured)}{limit}"
