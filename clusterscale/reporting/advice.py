"""Sections of advice: the answer, the front of utility and exposure, and every candidate."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from markupsafe import Markup

from clusterscale.reporting import figures
from clusterscale.reporting.section import LongColumn, Section, fill, long_table, number, section
from clusterscale.validation_messages import plural

_STATES = ("advised", "on the front", "measured")


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """A candidate as it is shown.

    ``exposure`` is the mean privacy loss in the screen, ``attacked`` the mean AUC under attack;
    numbers that are not known are NaN.
    """

    title: str
    is_advised: bool
    on_front: bool
    reached: str
    reason: str
    score: float
    exposure: float
    attacked: float
    certified: float


_COLUMNS = {
    "title": "mechanism_title",
    "on_front": "on_front",
    "reached": "reached",
    "reason": "reason",
    "score": "score",
    "exposure": "screened_loss",
    "attacked": "attacked_auc",
    "certified": "certified_worst",
}


def _rows(advice: xr.Dataset) -> list[CandidateRow]:
    advice = advice.assign(on_front=advice["on_front"].astype(bool))
    columns = [advice[name].values.tolist() for name in _COLUMNS.values()]
    is_advised = (advice["mechanism"] == advice.attrs["advised"]).values.tolist()
    return [
        CandidateRow(is_advised=advised, **dict(zip(_COLUMNS, row, strict=True)))
        for advised, *row in zip(is_advised, *columns, strict=True)
    ]


_ORDER = ("confirmed", "attacked", "measured", "screened", "certified", "listed")


def leading(advice: xr.Dataset, n: int | None = None) -> list[CandidateRow]:
    """Return the candidates that got furthest, the advised one first, at most ``n``."""
    rows = sorted(
        _rows(advice),
        key=lambda row: (
            not row.is_advised,
            _ORDER.index(row.reached),
            not row.on_front,
            -np.nan_to_num(row.score, nan=-1.0),
        ),
    )
    return rows[:n]


def answer(advice: xr.Dataset) -> list[str]:
    """Return the answer in plain words: what it is, and then why."""
    rows = {row.is_advised: row for row in _rows(advice)}
    verdict = str(advice.attrs["verdict"])
    notes = list(map(str, json.loads(str(advice.attrs.get("notes", "[]")))))
    if verdict == "advised":
        score = float(advice.confirmed_score.sel(mechanism=str(advice.attrs["advised"])))
        what = (
            "is the least exposed mechanism that keeps the bounds"
            if advice.attrs["goal"] == "bounds"
            else f"has the highest score of those shown to keep the limits, {score:.3f}"
        )
        return [
            f"Publish with: {rows[True].title}.",
            f"It {what}; all limits hold on users and groups that the search has not used.",
            *notes,
        ]
    return [_NOT_ADVISED[verdict], *notes]


_NOT_ADVISED = {
    "inconclusive": "Inconclusive: candidates kept the limits in the search, but none was "
    "confirmed on users and groups that the search has not used. This is no advice to publish.",
    "undecided": "Undecided: no candidate was shown to keep all limits and bounds, but some may.",
    "none": "No candidate keeps all limits and bounds, so there is none to advise.",
}


def summarise(advice: xr.Dataset) -> str:
    """Return how many candidates got how far, in a sentence."""
    rows = _rows(advice)
    counts = Counter(row.reached for row in rows)
    parts, left = [], len(rows)
    for stage in reversed(_ORDER):
        if stage != "listed" and left:
            parts.append(f"{left} {stage}")
        left -= counts[stage]
    return f"{plural(len(rows), 'candidate')}: {', '.join(parts) or 'none fits'}."


def _front(rows: Sequence[CandidateRow]) -> Section | None:
    """Build the chart of utility against exposure; None if no candidate was measured."""
    known = [row for row in rows if np.isfinite(row.score) and np.isfinite(row.exposure)]
    if not known:
        return None
    groups = [
        [(row.score, row.exposure, row.title) for row in known if _state(row) == state]
        for state in _STATES
    ]
    best = next((row for row in known if row.is_advised), None)
    description = f"{len(known)} candidates; " + (
        f"the advised one has a score of {number(best.score)} and a mean privacy loss of "
        f"{number(best.exposure)}"
        if best
        else "none is advised"
    )
    return section(
        "front",
        figures.marks(_STATES, line="")
        + figures.plot(
            figures.front(groups),
            slug="advice-front",
            title="Exposure against utility",
            description=description,
        ),
    )


def _state(row: CandidateRow) -> str:
    return _STATES[0 if row.is_advised else 1 if row.on_front else 2]


def _column(rows: Sequence[CandidateRow], name: str) -> figures.Floats:
    return np.array([getattr(row, name) for row in rows], np.float64)


def _candidates(advice: xr.Dataset) -> Section:
    rows = leading(advice)
    columns = [
        LongColumn("Candidate", [row.title for row in rows], wide=True),
        LongColumn("Got to", [row.reached for row in rows]),
        LongColumn("Score", _column(rows, "score"), digits=3),
        LongColumn("Privacy loss", _column(rows, "exposure"), digits=3,
                   hint="Mean over users in the screen"),
        LongColumn("AUC", _column(rows, "attacked"), digits=3,
                   hint="Mean over attacked users, strongest attack"),
        LongColumn("Certified", _column(rows, "certified"), digits=3,
                   hint="AUC that no adversary exceeds on the most active user"),
        LongColumn("Why it fell out", [row.reason or "advised" * row.is_advised for row in rows],
                   wide=True),
    ]  # fmt: skip
    return Section(
        "candidates",
        "Every candidate, and why it fell out",
        summarise(advice),
        long_table("Candidates, those that got furthest first", columns, file="candidates.csv"),
    )


def render_sections(advice: xr.Dataset) -> tuple[Markup, list[Section]]:
    """Return the advice's part of the first screen of a page, and its sections."""
    advice = advice.compute()
    rows = leading(advice)
    advised = bool(advice.attrs["advised"])
    findings = fill(
        "advice.html.j2",
        answer=answer(advice),
        advised=advised,
        yaml=str(advice.attrs["yaml"]),
        findings=json.loads(advice.attrs["findings"]),
        price=str(advice.attrs["price"]),
        summary=summarise(advice),
    )
    sections = [_front(rows), _candidates(advice)]
    return findings, [section for section in sections if section is not None]
