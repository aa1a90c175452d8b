"""The trend page: verdicts on many releases, and exposure over time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from clusterscale.contracts import VERDICT_LEVELS
from clusterscale.phrases import RELEASE_VERDICTS
from clusterscale.reporting.figures import verdict_mark
from clusterscale.reporting.page import PageEntry, explanation, page, write
from clusterscale.reporting.releases import (
    ReleaseRow,
    Series,
    change,
    crossed,
    link,
    read_series,
    span,
    verdict,
)
from clusterscale.reporting.section import (
    Column,
    Section,
    Table,
    breakable,
    fill,
    folded,
    number,
)
from clusterscale.reporting.trend_sections import exposure, utility
from clusterscale.reporting.trend_sections import table as all_verdicts

if TYPE_CHECKING:
    import pandas as pd


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
        overall="error" if errors else RELEASE_VERDICTS.get(worst, ""),
        errors=errors,
        shown=series[:_CARDS],
        table=_standings(series) if len(series) > _CARDS else "",
        n_releases=sum(len(one.releases) for one in series),
        worse={name: sum(s.newest.verdict == name for s in series) for name in VERDICT_LEVELS},
        verdict=verdict,
        link=link,
        change=change,
        crossed=crossed,
        span=span,
        changed_rules=_changed_rules,
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
            ),
        )
        for release in sorted(worse, key=lambda release: -release.number)
    ]
    return Section(
        "reasons",
        "Why releases warned or failed",
        "Every check of the policy with its measured value and limit, newest release first.",
        folded(folds),
    )


def _level(level: str) -> str | Markup:
    return verdict_mark(level, RELEASE_VERDICTS[level]) if level in RELEASE_VERDICTS else "unknown"


def _label(release: ReleaseRow, *, several: bool) -> str:
    parts = [release.series] if several else []
    return " · ".join([*parts, release.release, release.period, RELEASE_VERDICTS[release.verdict]])


def reading(series: Sequence[Series]) -> Section:
    """Build the definitions, which are the same for all series."""
    return Section(
        "reading",
        "How to read this page",
        "Each release is audited once, and compared with a policy and with earlier releases.",
        explanation("Releases"),
    )


_BUILDS: tuple[Callable[[Sequence[Series]], Section | None], ...] = (
    exposure,
    utility,
    all_verdicts,
    reasons,
    reading,
)


def render_trend(
    table: pd.DataFrame, *, title: str | None = None, errors: Mapping[str, str] | None = None
) -> str:
    """Return the page of all verdicts as one self-contained HTML file.

    Parameters
    ----------
    table
        A row per verdict, oldest first, with the columns of
        :data:`clusterscale.reporting.releases.COLUMNS`; other columns are ignored. Without rows,
        the page states that there is no verdict yet.
    title
        Heading of the page.
    errors
        Reasons why releases could not be audited, by release; with any, the overall verdict is an
        error.

    Returns
    -------
    str
        HTML, the same for the same table. Links to run reports are relative to the folder that
        ``run`` is relative to.

    Raises
    ------
    FormatError
        If a column is absent, or a row has an invalid value.
    """
    series = read_series(table)
    sections = [findings(series, errors or {})]
    sections += [section for build in _BUILDS if (section := build(series)) is not None]
    heading = title or "Exposure over releases"
    return page([PageEntry("", [("", sections)])], kind="trend report", title=heading)


def write_trend(
    table: pd.DataFrame,
    uri: str | Path,
    *,
    title: str | None = None,
    errors: Mapping[str, str] | None = None,
) -> str:
    """Write the page of all verdicts and return its location.

    The file is written atomically: an older page is replaced only when the new one is complete.

    Parameters
    ----------
    table, title, errors
        As for :func:`render_trend`.
    uri
        File to write, a local path or fsspec URL; its folder is created if absent.

    Returns
    -------
    str
        ``uri``.

    Raises
    ------
    FormatError
        As :func:`render_trend`.
    StoreError
        If it cannot be written, for example because the store is full.
    """
    return write(render_trend(table, title=title, errors=errors), uri)
