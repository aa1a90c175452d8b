"""Reports of studies that reproduce papers, and their page: numbers, claims, missing items."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, isfinite, log10, nan
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from clusterscale.reporting import page as pages
from clusterscale.reporting import section as html

Verdict = Literal["agrees", "explained", "differs", "not compared"]
Holding = Literal["holds", "breaks", "open"]
AGREES: Verdict = "agrees"
EXPLAINED: Verdict = "explained"
DIFFERS: Verdict = "differs"
NOT_COMPARED: Verdict = "not compared"
VERDICTS: tuple[Verdict, ...] = (AGREES, EXPLAINED, DIFFERS, NOT_COMPARED)
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
    """Report of one study.

    ``paper`` is the paper's short name, ``paper_title`` its title. ``data`` describes the users;
    ``core_seconds`` is the computing time, NaN if the study did not run.
    """

    paper: str
    paper_title: str
    name: str
    title: str
    data: str
    core_seconds: float
    compared: Sequence[ComparedNumber]
    claims: Sequence[ClaimRow]
    missing: Sequence[Missing]
    remarks: Sequence[str]

    def count_statements(self, verdict: Holding) -> int:
        """Return how many claims have a verdict."""
        return sum(claim.verdict == verdict for claim in self.claims)

    def count(self, verdict: Verdict) -> int:
        """Return how many numbers have a verdict."""
        return sum(number.verdict == verdict for number in self.compared)


_LOOKS: Mapping[str, str] = {
    AGREES: "good",
    EXPLAINED: "middling",
    DIFFERS: "bad",
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
        html.Column("Not compared", hint="A synthetic preset replaces data that are not public"),
        html.Column("Claims"),
        html.Column("Hold"),
        html.Column("Open", hint="Too few people to decide"),
        html.Column("Break"),
        html.Column("Core-seconds"),
    ]
    rows = []
    for paper, studies in groupby(reports, key=lambda study: study.paper):
        several = list(studies)
        agree, explained, differ, not_compared = (
            sum(study.count(verdict) for study in several) for verdict in VERDICTS
        )
        compared = agree + explained + differ
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
                f"{not_compared:,}",
                f"{len(claims):,}",
                *(f"{sum(claim.verdict == word for claim in claims):,}" for word in HOLDINGS),
                html.quantity(sum(seconds)) if seconds else "–",
            ]
        )
    return html.Table("By paper", columns, [("", rows)]).html


def differences(reports: Sequence[StudyReport]) -> Markup:
    """Return a table with a row for each number that differs."""
    columns = [
        html.Column("Source", number=False, header=True),
        html.Column("Number", number=False, wide=True),
        html.Column("Paper"),
        html.Column("Ours"),
        html.Column("As in paper", hint="Our result, computed as in the paper"),
        html.Column("Verdict", number=False),
        html.Column("Reason", number=False, wide=True),
    ]
    rows = [
        [
            f"{study.paper}, {number.item}",
            html.breakable(number.setting),
            _number(number.paper, number.step),
            _ours(number),
            _number(number.as_in_paper, number.step / 10) if isfinite(number.as_in_paper) else "–",
            _verdict(number.verdict),
            number.why or "unknown",
        ]
        for study in reports
        for number in study.compared
        if number.verdict in (EXPLAINED, DIFFERS)
    ]
    return html.Table("Numbers that differ", columns, [("", rows)]).html


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
        groups.append((heading, [_study(study) for study in several]))
    reading = html.Section("reading", "How to read this page", "", pages.explanation("Papers"))
    groups.append(("About this page", [reading]))
    return pages.page([pages.PageEntry("", groups)], kind="reproduction", title=title or _TITLE)


def write_reproduced(
    reports: Sequence[StudyReport], uri: str | Path, *, title: str | None = None
) -> str:
    """Write the page of all studies and return its location; raises StoreError on failure."""
    return pages.write(render_reproduced(reports, title=title), uri)


def _overview(reports: Sequence[StudyReport]) -> Iterable[html.Section]:
    agree, explained, differ = (
        sum(study.count(verdict) for study in reports) for verdict in (AGREES, EXPLAINED, DIFFERS)
    )
    claims = [claim for study in reports for claim in study.claims]
    body = html.fill(
        "reproduced.html.j2",
        n_compared=agree + explained + differ,
        n_agree=agree,
        n_explained=explained,
        n_hold=sum(claim.verdict == HOLDS for claim in claims),
        n_break=sum(claim.verdict == BREAKS for claim in claims),
        n_statements=len(claims),
        table=papers_table(reports),
    )
    yield html.Section("overview", "Findings", "", body)
    if explained + differ:
        intro = (
            "Published numbers that our results do not agree with, and the reason if known; if our "
            "result can be computed as in the paper, that result too."
        )
        yield html.Section("differences", "Differences", intro, differences(reports))


def _study(report: StudyReport) -> html.Section:
    about = html.fill(
        "reproduced_study.html.j2", report=report, cost=html.quantity(report.core_seconds)
    )
    tables = [build(report) for build in (numbers_table, statements_table, missing_table)]
    body = html.join([about, *(table for table in tables if table is not None)])
    return html.Section(f"study-{report.name.replace('/', '-')}", report.title, "", body)
