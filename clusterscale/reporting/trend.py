"""The trend page: verdicts on many releases, and exposure and utility over time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite, nan

from markupsafe import Markup

from clusterscale.contracts import VERDICT_LEVELS
from clusterscale.phrases import RELEASE_VERDICTS
from clusterscale.release.verdict import Verdict
from clusterscale.reporting import figures
from clusterscale.reporting import releases as phrases
from clusterscale.reporting import section as html
from clusterscale.reporting.figures import verdict_mark
from clusterscale.reporting.page import PageEntry, explanation, page
from clusterscale.reporting.releases import Series, measures_of, read_series
from clusterscale.utility import NEARLY_EMPTY
from clusterscale.validation_messages import plural

_CARDS = 6  # series shown in full on the first screen


def findings(series: Sequence[Series], errors: Mapping[str, str]) -> html.Section:
    """Build the verdicts of the newest releases, the worst of them first.

    ``errors`` maps releases that could not be audited to the reason.
    """
    worst = max((one.newest.verdict for one in series), key=VERDICT_LEVELS.index, default="")
    body = html.fill(
        "trend.html.j2",
        series=series,
        overall="error" if errors else RELEASE_VERDICTS.get(worst, ""),
        errors=errors,
        shown=series[:_CARDS],
        table=html.table("series", [("", series)], phrases=phrases) if len(series) > _CARDS else "",
        n_releases=sum(len(one.releases) for one in series),
        worse={name: sum(s.newest.verdict == name for s in series) for name in VERDICT_LEVELS},
        changed_rules=_changed_rules,
        phrases=phrases,
    )
    return html.Section("overview", "Findings", "", body)


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


def reasons(series: Sequence[Series]) -> Iterator[html.Section]:
    """Build the check results of warned or failed releases, newest first; none if all passed."""
    several = len(series) > 1
    worse = [r for one in series for r in one.releases if r.verdict != "pass"]
    folds = [
        (
            _label(release, several=several),
            html.fill(
                "trend_reasons.html.j2",
                release=release,
                name=_label(release, several=several),
                alone=len(worse) == 1,  # a single fold has no label
                level=_level,
                phrases=phrases,
            ),
        )
        for release in sorted(worse, key=lambda release: -release.number)
    ]
    return html.folds_section("reasons", folds)


def _level(level: str) -> str | Markup:
    return verdict_mark(level, RELEASE_VERDICTS[level]) if level in RELEASE_VERDICTS else "unknown"


def _label(release: Verdict, *, several: bool) -> str:
    parts = [release.series] if several else []
    return " · ".join([*parts, release.release, release.period, RELEASE_VERDICTS[release.verdict]])


def reading() -> html.Section:
    """Build the definitions, which are the same for all series."""
    intro = "Each release is audited once, and compared with a policy and with earlier releases."
    return html.section("reading", explanation("Releases"), intro=intro)


_NAMES = ("mean privacy loss", "worst privacy loss", "share of people above")


def exposure(series: Sequence[Series]) -> html.Section:
    """Build a figure per series."""
    folds = [(one.name, _figure(one, i)) for i, one in enumerate(series, 1)]
    level = _level_words([release for one in series for release in one.releases])
    return html.section("exposure", figures.course_legend(_NAMES) + html.folded(folds), level=level)


def _figure(series: Series, position: int) -> Markup:
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
        figures.draw_time_series([mean, worst, share], releases, axis="loss, share", span=(0, 1)),
        slug=f"exposure-{position}",
        title=f"{series.name}: {plural(len(releases), 'release')}",
        description=_in_words(series),
    )


def _in_words(series: Series) -> str:
    first, last = series.releases[0], series.newest
    text = f"Privacy loss over {plural(len(series.releases), 'release')}"
    text += f"; mean of the newest {html.number(last.mean_privacy_loss)}"
    text += f", worst {html.number(last.worst_privacy_loss)}"
    if len(series.releases) > 1:
        text += f"; mean of the first {html.number(first.mean_privacy_loss)}"
    return f"{text}; {series.count('warn')} warned, {series.count('fail')} failed"


def _level_words(releases: Sequence[Verdict]) -> str:
    levels = {f"{r.loss_above:g}" for r in releases if isfinite(r.loss_above)}
    return levels.pop() if len(levels) == 1 else "the level of its release"


def utility(series: Sequence[Series]) -> Iterator[html.Section]:
    """Build a figure per measure for each series; none if no utility was measured."""
    folds = [
        (one.name, html.side_by_side(panels))
        for i, one in enumerate(series, 1)
        if (panels := _utility_panels(one, i))
    ]
    if folds:
        body = _nearly_empty(series) + figures.course_legend([]) + html.folded(folds)
        yield html.section("measures", body, anchor="utility")


def _nearly_empty(series: Sequence[Series]) -> Markup:
    """List the releases that are nearly empty; nothing if there are none."""
    names = [
        f"{one.name}: {release.release}" if len(series) > 1 else release.release
        for one in series
        for release in one.releases
        if measures_of(release).get("events_kept", 1.0) < NEARLY_EMPTY
    ]
    if not names:
        return Markup("")
    return html.fill_part("warnings.empty_releases", names=names, limit=html.percent(NEARLY_EMPTY))


def _utility_panels(series: Series, position: int) -> list[Markup]:
    measured = [measures_of(release) for release in series.releases]
    measures = dict.fromkeys(name for one in measured for name in one)
    panels = []
    for index, measure in enumerate(measures, 1):
        values = [one.get(measure, nan) for one in measured]
        if not (known := [value for value in values if isfinite(value)]):
            continue
        course = figures.Course("value", values)
        panels.append(
            figures.plot(
                figures.draw_time_series([course], series.releases, axis="value"),
                slug=f"utility-{position}-{index}",
                title=measure,
                description=f"{measure} over releases: {html.quantity(min(known))} to "
                f"{html.quantity(max(known))}, newest {html.quantity(known[-1])}",
            )
        )
    return panels


def all_verdicts(series: Sequence[Series]) -> html.Section:
    """Build the table of all verdicts, newest first."""
    releases = [release for one in series for release in one.releases]
    releases.sort(key=lambda release: -release.number)
    levels = {release.loss_above for release in releases if isfinite(release.loss_above)}
    level = levels.pop() if len(levels) == 1 else None
    about: dict[str, object] = {"several": len(series) > 1, "words": RELEASE_VERDICTS}
    links = list(map(phrases.link, releases))
    about |= {"phrases": phrases, "level": level}
    body = html.long_table("releases", releases, file="verdicts.csv", links=links, **about)
    return html.section("verdicts", body)


def render_trend(verdicts: Iterable[Verdict], *, errors: Mapping[str, str] | None = None) -> str:
    """Return the page of all verdicts as one HTML file, the same for the same verdicts.

    ``verdicts`` are in the order of the ledger, oldest first, and perhaps none; ``errors`` are the
    reasons why releases could not be audited. Links to reports are relative to the folder that
    ``run`` is relative to.
    """
    series = read_series(verdicts)
    sections = [findings(series, errors or {})]
    if series:
        sections += [exposure(series), *utility(series), all_verdicts(series), *reasons(series)]
    sections.append(reading())
    entry = PageEntry("", [("", sections)])
    return page([entry], kind="trend report", title="Exposure over releases")
