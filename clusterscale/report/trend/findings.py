"""The first screen: the verdicts on the newest releases, and the reasons."""

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

_CARDS = 6  # series shown in full on the first screen
_COLUMNS = (
    Column("Series", number=False, header=True, wide=True),
    Column("Newest release", number=False, wide=True),
    Column("Verdict", number=False),
    Column("Mean loss"),
    Column("Change", hint="Of the mean privacy loss, since the last releases"),
    Column("Passed"),
    Column("Warned"),
    Column("Failed"),
)


def findings(series: Sequence[Series], errors: Mapping[str, str]) -> Section:
    """Build the verdicts of the newest releases, the worst of them first.

    ``errors`` maps releases that could not be audited to the reason.
    """
    worst = max((one.newest.verdict for one in series), key=VERDICT_LEVELS.index, default="")
    body = fill(
        "trend.html.j2",
        series=series,
        overall="error" if errors else WORDS.get(worst, ""),
        errors=errors,
        shown=series[:_CARDS],
        table=_standings(series) if len(series) > _CARDS else "",
        n_releases=sum(len(one.releases) for one in series),
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
            breakable(one.name),
            breakable(one.newest.release),
            verdict(one.newest),
            number(one.newest.mean_privacy_loss),
            number(one.newest.change),
            *(f"{one.count(name):,}" for name in VERDICT_LEVELS),
        ]
        for one in series
    ]
    return Table("Newest verdict of each series", _COLUMNS, [("", rows)]).html


def _changed_rules(series: Series) -> list[str]:
    """Return what differs between releases, whose verdicts are then not comparable."""
    releases = series.releases
    values = {
        "policy": {release.policy for release in releases},
        "audit": {release.question for release in releases},
        "mechanism": {release.mechanism for release in releases},
        "group size": {str(release.group_size) for release in releases},
    }
    return [name for name, distinct in values.items() if len(distinct) > 1]
