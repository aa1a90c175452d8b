"""The first screen: what the newest releases were judged, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from clusterscale.contracts import VERDICT_LEVELS
from clusterscale.report.section import (
    Column,
    Section,
    Table,
    breakable,
    fill,
    number,
    percent,
    plural,
)
from clusterscale.report.trend.phrases import WORDS, change, crossed, link, span, verdict
from clusterscale.report.trend.releases import Series

__all__ = ["findings"]

_CARDS = 6  # series that are told in full on the first screen
_COLUMNS = (
    Column("Series", number=False, header=True, wide=True),
    Column("Newest release", number=False, wide=True),
    Column("Verdict", number=False),
    Column("Mean loss"),
    Column("Change", hint="Of the mean privacy loss, against the last releases"),
    Column("Passed"),
    Column("Warned"),
    Column("Failed"),
)


def findings(series: Sequence[Series], errors: Mapping[str, str]) -> Section:
    """Build the verdicts of the newest releases, the worst of them first.

    ``errors`` says by name why releases could not be audited.
    """
    worst = max((each.newest.verdict for each in series), key=VERDICT_LEVELS.index, default="")
    body = fill(
        "trend.html.j2",
        series=series,
        overall="error" if errors else WORDS.get(worst, ""),
        errors=errors,
        shown=series[:_CARDS],
        table=_standings(series) if len(series) > _CARDS else "",
        n_releases=sum(len(each.releases) for each in series),
        worse={name: sum(s.newest.verdict == name for s in series) for name in VERDICT_LEVELS},
        words=WORDS,
        verdict=verdict,
        link=link,
        change=change,
        crossed=crossed,
        span=span,
        changed_rules=_changed_rules,
        number=number,
        percent=percent,
        plural=plural,
    )
    return Section("overview", "Findings", "", body)


def _standings(series: Sequence[Series]) -> Markup:
    rows: list[list[str | Markup]] = [
        [
            breakable(each.name),
            breakable(each.newest.release),
            verdict(each.newest),
            number(each.newest.mean_privacy_loss),
            number(each.newest.change),
            *(f"{each.count(name):,}" for name in VERDICT_LEVELS),
        ]
        for each in series
    ]
    return Table("Where each series stands", _COLUMNS, [("", rows)]).html


def _changed_rules(series: Series) -> list[str]:
    """Return what was not the same for all releases, which are then not judged alike."""
    every = series.releases
    kinds = {
        "policy": {each.policy for each in every},
        "audit": {each.question for each in every},
        "mechanism": {each.mechanism for each in every},
        "group size": {str(each.group_size) for each in every},
    }
    return [name for name, found in kinds.items() if len(found) > 1]
