"""The tables of the page over papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import floor, isfinite, log10

from markupsafe import Markup

from clusterscale.report.papers.studies import (
    AGREES,
    BREAKS,
    DIFFERS,
    EXPLAINED,
    HOLDINGS,
    HOLDS,
    OPEN,
    VERDICTS,
    ComparedNumber,
    StudyReport,
)
from clusterscale.report.section import Column, Table, breakable, percent, quantity

__all__ = ["differences", "missing_table", "numbers_table", "papers_table", "statements_table"]

_LOOKS: Mapping[str, str] = {
    AGREES: "good",
    EXPLAINED: "middling",
    DIFFERS: "bad",
    HOLDS: "good",
    OPEN: "middling",
    BREAKS: "bad",
}


def papers_table(told: Sequence[StudyReport]) -> Markup:
    """Return a row a paper: how much agrees, and what that cost."""
    columns = [
        Column("Paper", number=False, header=True),
        Column("Studies"),
        Column("Numbers compared"),
        Column("Agree"),
        Column("Share"),
        Column("Explained", hint="Ours agrees where it is computed as the paper's was"),
        Column("Not compared", hint="A preset stands for data that are not public"),
        Column("Statements"),
        Column("Hold"),
        Column("Open", hint="Too few people to tell"),
        Column("Break"),
        Column("Core-seconds"),
    ]
    rows = []
    for paper, studies in groupby(told, key=lambda each: each.paper):
        several = list(studies)
        agree, explained, differ, not_compared = (
            sum(each.count(verdict) for each in several) for verdict in VERDICTS
        )
        compared = agree + explained + differ
        kept = [each for study in several for each in study.kept]
        seconds = [each.core_seconds for each in several if isfinite(each.core_seconds)]
        rows.append(
            [
                paper,
                f"{len(several):,}",
                f"{compared:,}",
                f"{agree:,}",
                percent(agree / compared) if compared else "–",
                f"{explained:,}",
                f"{not_compared:,}",
                f"{len(kept):,}",
                *(f"{sum(e.verdict == word for e in kept):,}" for word in HOLDINGS),
                quantity(sum(seconds)) if seconds else "–",
            ]
        )
    return Table("By paper", columns, [("", rows)]).html


def differences(told: Sequence[StudyReport]) -> Markup:
    """Return a row for each number that differs."""
    columns = [
        Column("Where", number=False, header=True),
        Column("What", number=False, wide=True),
        Column("Paper"),
        Column("Ours"),
        Column("As the paper", hint="Ours, computed as the paper came to its number"),
        Column("Verdict", number=False),
        Column("Reason", number=False, wide=True),
    ]
    rows = [
        [
            f"{study.paper}, {each.item}",
            breakable(each.setting),
            _number(each.paper, each.step),
            _ours(each),
            _number(each.as_in_paper, each.step / 10) if isfinite(each.as_in_paper) else "–",
            _verdict(each.verdict),
            each.why or "not known",
        ]
        for study in told
        for each in study.compared
        if each.verdict in (EXPLAINED, DIFFERS)
    ]
    return Table("Numbers that differ", columns, [("", rows)]).html


def numbers_table(told: StudyReport) -> Markup | None:
    """Return every number of a study beside ours; None where there is none."""
    if not told.compared:
        return None
    columns = [
        Column("What", number=False, header=True, wide=True),
        Column("Paper"),
        Column("Ours"),
        Column("95 % interval", number=False, hint="Of ours, over people or groups"),
        Column("Verdict", number=False),
    ]
    groups = []
    for (item, source), lines in groupby(told.compared, key=lambda each: (each.item, each.source)):
        rows = [
            [
                breakable(each.setting),
                _number(each.paper, each.step),
                _ours(each),
                _interval(each),
                _verdict(each.verdict),
            ]
            for each in lines
        ]
        groups.append((f"{item} ({source})", rows))
    return Table("Published numbers, and ours", columns, groups).html


def statements_table(told: StudyReport) -> Markup | None:
    """Return every statement of a study; None where there is none."""
    if not told.kept:
        return None
    columns = [
        Column("What the paper says", number=False, header=True, wide=True),
        Column("Where", number=False),
        Column("Ours", number=False),
        Column("Margin", hint="What is left until it would not hold; below 0 it does not"),
        Column("Verdict", number=False),
        Column("Reason", number=False, wide=True),
    ]
    rows = [
        [
            each.text,
            each.source,
            each.told,
            f"{each.margin:+.3f}" + (f" ± {each.half:.3f}" if each.half else ""),
            _verdict(each.verdict),
            each.why,
        ]
        for each in told.kept
    ]
    return Table("Statements", columns, [("", rows)]).html


def missing_table(told: StudyReport) -> Markup | None:
    """Return what cannot be compared; None where all can."""
    if not told.missing:
        return None
    columns = [
        Column("Figure or table", number=False, header=True),
        Column("Why nothing of it is compared", number=False, wide=True),
    ]
    rows = [[each.item, each.why] for each in told.missing]
    return Table("Not compared", columns, [("", rows)]).html


def _verdict(word: str) -> Markup | str:
    look = _LOOKS.get(word)
    return Markup('<span class="{}">{}</span>').format(look, word) if look else word


def _digits(step: float) -> int:
    return max(0, -floor(log10(step)))


def _number(value: float, step: float) -> str:
    return f"{value:,.{_digits(step)}f}"


def _ours(each: ComparedNumber) -> str:
    return _number(each.ours, each.step / 10)


def _interval(each: ComparedNumber) -> str:
    if not isfinite(each.low):
        return "–"
    return f"{_number(each.low, each.step / 10)} to {_number(each.high, each.step / 10)}"
