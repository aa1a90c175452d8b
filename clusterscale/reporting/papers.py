"""Reports of studies that reproduce papers, and their page: numbers, claims, missing items."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, isfinite, log10, nan
from typing import Literal

from markupsafe import Markup

from clusterscale.reporting import figures
from clusterscale.reporting import page as pages
from clusterscale.reporting import section as html
from clusterscale.reporting.declared import Column

Verdict = Literal["agrees", "explained", "not reproduced", "not compared"]
Holding = Literal["holds", "breaks", "open"]
AGREES: Verdict = "agrees"
EXPLAINED: Verdict = "explained"
NOT_REPRODUCED: Verdict = "not reproduced"
NOT_COMPARED: Verdict = "not compared"
HOLDS: Holding = "holds"
BREAKS: Holding = "breaks"
OPEN: Holding = "open"


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

    @property
    def verdicts(self) -> Counter[str]:
        """How many numbers and claims have each verdict."""
        every: Sequence[ComparedNumber | ClaimRow] = (*self.compared, *self.claims)
        return Counter(one.verdict for one in every)


def papers_table(reports: Sequence[StudyReport]) -> Markup:
    """Return a table with a row per paper: how much agrees, and the computing time."""
    rows = []
    for paper, studies in groupby(reports, key=lambda study: study.paper):
        several = list(studies)
        seconds = [study.core_seconds for study in several if isfinite(study.core_seconds)]
        about = {"paper": paper, "studies": len(several), "found": _count(several)}
        rows.append(about | {"seconds": sum(seconds) if seconds else nan})
    return html.table("papers", [("", rows)])


def _count(reports: Sequence[StudyReport]) -> Counter[str]:
    """Return how many numbers and claims have each verdict, and how many numbers are compared."""
    found = sum((study.verdicts for study in reports), Counter[str]())
    found["compared"] = found[AGREES] + found[EXPLAINED] + found[NOT_REPRODUCED]
    return found


def differences(reports: Sequence[StudyReport]) -> Markup:
    """Return a table with a row for each number that differs, by the figure and the reason."""
    groups = dict[str, list[ComparedNumber]]()
    for study in reports:
        for number in study.compared:
            if number.verdict in (EXPLAINED, NOT_REPRODUCED):
                reason = f"{study.paper}, {number.item}: {number.why or 'nothing was tried'}"
                groups.setdefault(reason, []).append(number)
    return html.table("differences", groups.items(), rounded=_rounded)


def _rounded(value: float, step: float, end: float | None = None) -> str:
    """Format a number, or an interval, with the digits that a step has; a dash if unknown."""
    if not isfinite(value):
        return "–"
    digits = max(0, -floor(log10(step)))
    return f"{value:,.{digits}f}" + ("" if end is None else f" to {end:,.{digits}f}")


def render_reproduced(reports: Sequence[StudyReport]) -> str:
    """Return the page of all studies as one HTML file, the same for the same studies.

    Reports of one paper are consecutive.
    """
    groups: list[tuple[str, Sequence[html.Section]]] = [("", list(_overview(reports)))]
    for _, studies in groupby(reports, key=lambda study: study.paper):
        several = list(studies)
        heading = f"{several[0].paper} · {several[0].paper_title}"
        sections = [_study(study) for study in several]
        if drawn := [_item(item, panels, several) for item, panels in _items(several)]:
            anchor = f"figures-{several[0].paper.lower()}"
            sections.insert(0, html.section("figures", html.join(drawn), anchor=anchor))
        groups.append((heading, sections))
    reading = html.section("reading", pages.explanation("Papers"), intro="")
    groups.append(("About this page", [reading]))
    entry = pages.PageEntry("", groups)
    return pages.page([entry], kind="reproduction", title="Four papers reproduced")


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
    texts = {text for panel in panels for text in panel.claims}
    of_item = [study for study in studies if any(plot.item == item for plot in study.plots)]
    return html.fill(
        "reproduced_figure.html.j2",
        item=item,
        data="; ".join(dict.fromkeys(study.data for study in of_item)),
        panels=body,
        numbers=[n for study in studies for n in study.compared if n.item == item],
        claims=[claim for study in studies for claim in study.claims if claim.text in texts],
        tables=[table for panel in panels if (table := _numbers(panel)) is not None],
    )


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
    names = [Column(name or panel.y) for name in panel.names]
    columns = [Column("" if ticks == ["mean"] else panel.x, ("header",)), *names]
    return html.draw_table(panel.heading, columns, [("", rows)])


_MOST_ROWS = 60


def _cell(point: figures.PlotPoint) -> str:
    text = html.number(point.value)
    if isfinite(point.printed):
        text += f" ({point.printed:g})"
    return f"{text} at {html.number(point.loss)}" if isfinite(point.loss) else text


def _overview(reports: Sequence[StudyReport]) -> Iterable[html.Section]:
    found = _count(reports)
    body = html.fill("reproduced.html.j2", found=found, table=papers_table(reports))
    yield html.Section("overview", "Findings", "", body)
    if found["compared"] > found[AGREES]:
        yield html.section("differences", differences(reports))


def _study(report: StudyReport) -> html.Section:
    about = html.fill(
        "reproduced_study.html.j2", report=report, cost=html.quantity(report.core_seconds)
    )
    items = groupby(report.compared, key=lambda line: f"{line.item} ({line.source})")
    tables = [html.table("numbers", items, rounded=_rounded)] if report.compared else []
    rest = {"claims": report.claims, "missing": report.missing}
    tables += [html.table(name, [("", rows)]) for name, rows in rest.items() if rows]
    name = f"study-{report.name.replace('/', '-')}"
    return html.Section(name, report.title, "", html.join([about, *tables]))
