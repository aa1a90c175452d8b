"""Reports of studies that reproduce papers, and their page: numbers, claims, missing items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import floor, isfinite, log10, nan
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from clusterscale.reporting import figures
from clusterscale.reporting import page as pages
from clusterscale.reporting import section as html

Verdict = Literal["agrees", "explained", "not reproduced", "not compared"]
Holding = Literal["holds", "breaks", "open"]
AGREES: Verdict = "agrees"
EXPLAINED: Verdict = "explained"
NOT_REPRODUCED: Verdict = "not reproduced"
NOT_COMPARED: Verdict = "not compared"
VERDICTS: tuple[Verdict, ...] = (AGREES, EXPLAINED, NOT_REPRODUCED, NOT_COMPARED)
HOLDS: Holding = "holds"
BREAKS: Holding = "breaks"
OPEN: Holding = "open"
HOLDINGS: tuple[Holding, ...] = (HOLDS, OPEN, BREAKS)


@dataclass(frozen=True, slots=True)
class ComparedNumber:
    """A published number compared with ours.

    Attributes
    ----------
    item, source
        Figure or table, and where the paper states the number.
    setting
        Description of the number.
    paper, step
        The published number, and the unit to which it is rounded.
    ours, low, high
        Our number and its 95 % interval, NaN if unknown.
    room
        Largest difference that counts as agreement.
    verdict, why
        Whether they agree, and the reason for a difference, if known.
    as_in_paper
        Our number computed as in the paper, to confirm that reason; NaN if not computed.
    """

    item: str
    source: str
    setting: str
    paper: float
    step: float
    ours: float
    low: float
    high: float
    room: float
    verdict: Verdict
    why: str
    as_in_paper: float = nan


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """A claim of a paper: the margin by which it holds, and the numbers with that margin.

    ``half`` is half the 95 % interval of the margin, 0 if unknown; ``why`` is the reason why the
    claim does not hold, if known.
    """

    text: str
    source: str
    margin: float
    half: float
    numbers: str
    verdict: Holding
    why: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure or table that cannot be compared, and the reason."""

    item: str
    why: str


@dataclass(frozen=True, slots=True)
class StudyReport:
    """Report of one study, whose ``plots`` are the panels of the paper's figures.

    ``paper`` is the paper's short name, ``paper_title`` its title. ``data`` describes the users;
    ``core_seconds`` is the computing time, NaN if the study did not run.
    """

    paper: str
    paper_title: str
    name: str
    title: str
    data: str
    core_seconds: float = nan
    compared: Sequence[ComparedNumber] = ()
    claims: Sequence[ClaimRow] = ()
    missing: Sequence[Missing] = ()
    remarks: Sequence[str] = ()
    plots: Sequence[figures.PaperPlot] = ()

    def count_statements(self, verdict: Holding) -> int:
        """Return how many claims have a verdict."""
        return sum(claim.verdict == verdict for claim in self.claims)

    def count(self, verdict: Verdict) -> int:
        """Return how many numbers have a verdict."""
        return sum(number.verdict == verdict for number in self.compared)


_LOOKS: Mapping[str, str] = {
    AGREES: "good",
    EXPLAINED: "middling",
    NOT_REPRODUCED: "bad",
    HOLDS: "good",
    OPEN: "middling",
    BREAKS: "bad",
}


def papers_table(reports: Sequence[StudyReport]) -> Markup:
    """Return a table with a row per paper: how much agrees, and the computing time."""
    columns = [
        html.Column("Paper", number=False, header=True),
        html.Column("Studies"),
        html.Column("Numbers compared"),
        html.Column("Agree"),
        html.Column("Share"),
        html.Column("Explained", hint="Our result agrees if computed as in the paper"),
        html.Column("Not reproduced", hint="Neither agrees nor is explained"),
        html.Column("Not compared", hint="A synthetic preset replaces the paper's data"),
        html.Column("Claims"),
        html.Column("Hold"),
        html.Column("Open", hint="Too few people to decide"),
        html.Column("Break"),
        html.Column("Core-seconds"),
    ]
    rows = []
    for paper, studies in groupby(reports, key=lambda study: study.paper):
        several = list(studies)
        agree, explained, not_reproduced, not_compared = (
            sum(study.count(verdict) for study in several) for verdict in VERDICTS
        )
        compared = agree + explained + not_reproduced
        claims = [claim for study in several for claim in study.claims]
        seconds = [study.core_seconds for study in several if isfinite(study.core_seconds)]
        rows.append(
            [
                paper,
                f"{len(several):,}",
                f"{compared:,}",
                f"{agree:,}",
                html.percent(agree / compared) if compared else "–",
                f"{explained:,}",
                f"{not_reproduced:,}",
                f"{not_compared:,}",
                f"{len(claims):,}",
                *(f"{sum(claim.verdict == word for claim in claims):,}" for word in HOLDINGS),
                html.quantity(sum(seconds)) if seconds else "–",
            ]
        )
    return html.Table("By paper", columns, [("", rows)]).html


def differences(reports: Sequence[StudyReport]) -> Markup:
    """Return a table with a row for each number that differs, by the figure and the reason."""
    columns = [
        html.Column("Number", number=False, header=True, wide=True),
        html.Column("Paper"),
        html.Column("Ours"),
        html.Column("As in paper", hint="Our result, computed as in the paper"),
        html.Column("Verdict", number=False),
    ]
    groups = dict[str, list[list[str | Markup]]]()
    for study in reports:
        for number in study.compared:
            if number.verdict not in (EXPLAINED, NOT_REPRODUCED):
                continue
            exact = _number(number.as_in_paper, number.step / 10)
            reason = f"{study.paper}, {number.item}: {number.why or 'nothing was tried'}"
            groups.setdefault(reason, []).append(
                [
                    html.breakable(number.setting),
                    _number(number.paper, number.step),
                    _ours(number),
                    exact if isfinite(number.as_in_paper) else "–",
                    _verdict(number.verdict),
                ]
            )
    return html.Table("Numbers that differ", columns, list(groups.items())).html


def numbers_table(report: StudyReport) -> Markup | None:
    """Return a table of a study's published numbers with ours; None if there are none."""
    if not report.compared:
        return None
    columns = [
        html.Column("Number", number=False, header=True, wide=True),
        html.Column("Paper"),
        html.Column("Ours"),
        html.Column("95 % interval", number=False, hint="Of our result, over people or groups"),
        html.Column("Verdict", number=False),
    ]
    groups = []
    for (item, source), lines in groupby(
        report.compared, key=lambda line: (line.item, line.source)
    ):
        rows = [
            [
                html.breakable(line.setting),
                _number(line.paper, line.step),
                _ours(line),
                _interval(line),
                _verdict(line.verdict),
            ]
            for line in lines
        ]
        groups.append((f"{item} ({source})", rows))
    return html.Table("Published numbers and ours", columns, groups).html


def statements_table(report: StudyReport) -> Markup | None:
    """Return a table of a study's claims; None if there are none."""
    if not report.claims:
        return None
    columns = [
        html.Column("Claim of the paper", number=False, header=True, wide=True),
        html.Column("Source", number=False),
        html.Column("Ours", number=False),
        html.Column("Margin", hint="Margin by which the claim holds; if negative, it does not"),
        html.Column("Verdict", number=False),
        html.Column("Reason", number=False, wide=True),
    ]
    rows = [
        [
            claim.text,
            claim.source,
            claim.numbers,
            f"{claim.margin:+.3f}" + (f" ± {claim.half:.3f}" if claim.half else ""),
            _verdict(claim.verdict),
            claim.why,
        ]
        for claim in report.claims
    ]
    return html.Table("Claims", columns, [("", rows)]).html


def missing_table(report: StudyReport) -> Markup | None:
    """Return a table of items that cannot be compared; None if there are none."""
    if not report.missing:
        return None
    columns = [
        html.Column("Figure or table", number=False, header=True),
        html.Column("Reason", number=False, wide=True),
    ]
    rows = [[item.item, item.why] for item in report.missing]
    return html.Table("Not compared", columns, [("", rows)]).html


def _verdict(word: str) -> Markup | str:
    look = _LOOKS.get(word)
    return Markup('<span class="{}">{}</span>').format(look, word) if look else word


def _number(value: float, step: float) -> str:
    """Format a number with the digits that a step has."""
    return f"{value:,.{max(0, -floor(log10(step)))}f}"


def _ours(compared: ComparedNumber) -> str:
    return _number(compared.ours, compared.step / 10)


def _interval(compared: ComparedNumber) -> str:
    if not isfinite(compared.low):
        return "–"
    step = compared.step / 10
    return f"{_number(compared.low, step)} to {_number(compared.high, step)}"


_TITLE = "Four papers reproduced"


def render_reproduced(reports: Sequence[StudyReport], *, title: str | None = None) -> str:
    """Return the page of all studies as one HTML file, the same for the same studies.

    Reports of one paper are consecutive.
    """
    groups: list[tuple[str, Sequence[html.Section]]] = [("", list(_overview(reports)))]
    for _, studies in groupby(reports, key=lambda study: study.paper):
        several = list(studies)
        heading = f"{several[0].paper} · {several[0].paper_title}"
        sections = [_study(study) for study in several]
        if drawn := [_item(item, panels, several) for item, panels in _items(several)]:
            section = html.section("figures", html.join(drawn))
            sections.insert(0, replace(section, anchor=f"figures-{several[0].paper.lower()}"))
        groups.append((heading, sections))
    reading = html.Section("reading", "How to read this page", "", pages.explanation("Papers"))
    groups.append(("About this page", [reading]))
    return pages.page([pages.PageEntry("", groups)], kind="reproduction", title=title or _TITLE)


def write_reproduced(
    reports: Sequence[StudyReport], uri: str | Path, *, title: str | None = None
) -> str:
    """Write the page of all studies and return its location; raises StoreError on failure."""
    return pages.write(render_reproduced(reports, title=title), uri)


def draw_figures(reports: Sequence[StudyReport]) -> figures.Figures:
    """Return the figures of all studies, drawn, those of each paper in its order.

    Reports of one paper are consecutive.
    """
    papers = ((paper, list(of)) for paper, of in groupby(reports, key=lambda study: study.paper))
    return figures.Figures(
        _figure(paper, i, panel)
        for paper, studies in papers
        for _, panels in _items(studies)
        for i, panel in enumerate(panels, 1)
    )


def _items(studies: Sequence[StudyReport]) -> list[tuple[str, list[figures.PaperPlot]]]:
    """Return the panels of each figure, in the order of the paper, merged over studies."""
    merged: dict[str, dict[str, figures.PaperPlot]] = {}
    for plot in (plot for study in studies for plot in study.plots):
        panels = merged.setdefault(plot.item, {})
        known = panels.get(plot.title)
        panels[plot.title] = known.merge(plot) if known else plot

    def place(item: str) -> tuple[int, str]:
        return int("".join(filter(str.isdigit, item)) or 0), item

    return [(item, list(merged[item].values())) for item in sorted(merged, key=place)]


def _figure(paper: str, index: int, panel: figures.PaperPlot) -> figures.Figure:
    ends = [
        f"{one.name or panel.y} from {one.points[0].value:.3g} to {one.points[-1].value:.3g}"
        for one in panel.series
    ]
    return figures.Figure(
        figures.draw(panel),
        f"{paper}-{panel.item}-{index}".lower().replace(" ", "-"),
        panel.heading,
        f"{panel.y} by {panel.x}: {'; '.join(ends) or 'a heatmap'}",
        setting=f"{paper}, {panel.item}",
        names=panel.names if panel.kind in ("bars", "boxes", "points") else (),
    )


def _item(item: str, panels: Sequence[figures.PaperPlot], studies: Sequence[StudyReport]) -> Markup:
    """Build a figure of a paper: its panels, one sentence on the paper's numbers, and ours."""
    paper = studies[0].paper
    drawn = [_figure(paper, i, panel).html for i, panel in enumerate(panels, 1)]
    legends = [panel.legend for panel in panels]
    if len(set(legends)) == 1:
        body = legends[0] + html.side_by_side(drawn)
    else:
        both = zip(drawn, legends, strict=True)
        body = html.side_by_side(Markup("<div>{}{}</div>").format(*pair) for pair in both)
    of_item = [study for study in studies if any(plot.item == item for plot in study.plots)]
    return html.fill(
        "reproduced_figure.html.j2",
        item=item,
        data="; ".join(dict.fromkeys(study.data for study in of_item)),
        panels=body,
        sentence=_sentence(item, panels, studies),
        tables=[table for panel in panels if (table := _numbers(panel)) is not None],
    )


_SAID = {
    AGREES: ("agrees with ours", "agree with ours"),
    EXPLAINED: (
        "agrees if ours is computed as in the paper",
        "agree if ours are computed as in the paper",
    ),
    NOT_REPRODUCED: ("is not reproduced", "are not reproduced"),
}
"""What is said of one number, and of several, by their verdict."""


def _sentence(
    item: str, panels: Sequence[figures.PaperPlot], studies: Sequence[StudyReport]
) -> str:
    """Return whether our figure agrees with what the paper says of it, or why not."""
    numbers = [number for study in studies for number in study.compared if number.item == item]
    tested = [number for number in numbers if number.verdict != NOT_COMPARED]
    texts = {text for panel in panels for text in panel.claims}
    claims = [claim for study in studies for claim in study.claims if claim.text in texts]
    if tested:
        found = Counter(number.verdict for number in tested)
        said = {how: words[found[how] != 1] for how, words in _SAID.items() if found[how]}
        if len(said) > 1:
            counts = ", ".join(f"{found[how]:,} {words}" for how, words in said.items())
            text = f"Of {len(tested):,} numbers that the paper prints for it, {counts}"
        else:
            which = "The number" if len(tested) == 1 else f"All {len(tested):,} numbers"
            text = f"{which} that the paper prints for it {''.join(said.values())}"
        causes = [number.why for number in tested if number.verdict != AGREES]
    elif claims:
        n, hold = len(claims), sum(claim.verdict == HOLDS for claim in claims)
        kept = f"of {n:,} claims on these results, {'all' if hold == n else f'{hold:,}'} hold"
        if n == 1:
            kept = f"the claim on these results {'holds' if hold else 'does not hold'}"
        none = "The paper prints no number for what this run computed"
        if numbers:
            none = f"The paper’s numbers are not compared ({numbers[0].why})"
        text = f"{none}; {kept}"
        causes = [claim.why for claim in claims if claim.verdict != HOLDS]
    else:
        return "The paper prints no number and no claim for what this run computed."
    known = "; ".join(dict.fromkeys(filter(None, causes)))
    return f"{text}: {known}." if known else f"{text}."


def _numbers(panel: figures.PaperPlot) -> Markup | None:
    """Return a table of the numbers of a panel, the paper's in brackets; None for curves."""
    ticks = list(dict.fromkeys(point.tick for one in panel.series for point in one.points))
    if not ticks or len(ticks) > _MOST_ROWS:
        return None
    cells = [{point.tick: _cell(point) for point in one.points} for one in panel.series]
    words = [tick if isinstance(tick, str) else f"{tick:g}" for tick in ticks]
    rows: list[list[str | Markup]] = [
        [html.breakable(word), *(column.get(tick, "–") for column in cells)]
        for word, tick in zip(words, ticks, strict=True)
    ]
    names = [html.Column(name or panel.y) for name in panel.names]
    columns = [html.Column("" if ticks == ["mean"] else panel.x, number=False, header=True), *names]
    return html.Table(panel.heading, columns, [("", rows)]).html


_MOST_ROWS = 60


def _cell(point: figures.PlotPoint) -> str:
    text = html.number(point.value)
    if isfinite(point.printed):
        text += f" ({point.printed:g})"
    return f"{text} at {html.number(point.loss)}" if isfinite(point.loss) else text


def _overview(reports: Sequence[StudyReport]) -> Iterable[html.Section]:
    agree, explained, not_reproduced = (
        sum(study.count(verdict) for study in reports)
        for verdict in (AGREES, EXPLAINED, NOT_REPRODUCED)
    )
    claims = [claim for study in reports for claim in study.claims]
    body = html.fill(
        "reproduced.html.j2",
        n_compared=agree + explained + not_reproduced,
        n_agree=agree,
        n_explained=explained,
        n_hold=sum(claim.verdict == HOLDS for claim in claims),
        n_break=sum(claim.verdict == BREAKS for claim in claims),
        n_statements=len(claims),
        table=papers_table(reports),
    )
    yield html.Section("overview", "Findings", "", body)
    if explained + not_reproduced:
        intro = (
            "Published numbers that our results do not agree with, by figure or table and the "
            "reason; if our result can be computed as in the paper, that result too."
        )
        yield html.Section("differences", "Differences", intro, differences(reports))


def _study(report: StudyReport) -> html.Section:
    about = html.fill(
        "reproduced_study.html.j2", report=report, cost=html.quantity(report.core_seconds)
    )
    tables = [build(report) for build in (numbers_table, statements_table, missing_table)]
    body = html.join([about, *(table for table in tables if table is not None)])
    return html.Section(f"study-{report.name.replace('/', '-')}", report.title, "", body)
