"""What the page over papers tells: studies, each with numbers and statements beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal

__all__ = [
    "AGREES",
    "DIFFERS",
    "EXPLAINED",
    "NOT_COMPARED",
    "ClaimRow",
    "ComparedNumber",
    "Missing",
]
__all__ += ["BREAKS", "HOLDINGS", "HOLDS", "OPEN", "VERDICTS", "StudyReport"]

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
    """A published number beside ours.

    Attributes
    ----------
    item, source
        Figure or table, and where in the paper the number stands.
    setting
        What it is, in words.
    paper, step
        The published number, and the unit that it is rounded to.
    ours, low, high
        Ours with its 95 % interval, which is not a number where nothing tells it.
    room
        How far ours may be from the paper's and still agree.
    verdict, why
        Whether they agree, and why not, where that is known.
    undone
        Ours as the paper came to its own, by that reason; not a number where that is not computed.
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
    """A statement of a paper: by which margin it holds, and the numbers nearest to breaking it.

    ``half`` is half the 95 % interval of the margin, 0 where nothing tells it; ``why`` says why it
    does not hold, where that is known.
    """

    text: str
    source: str
    margin: float
    half: float
    told: str
    verdict: Holding
    why: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """A figure or table of which nothing can be compared, and why."""

    item: str
    why: str


@dataclass(frozen=True, slots=True)
class StudyReport:
    """All that one study tells.

    ``paper`` is short, ``paper_title`` whole. ``data`` says in words what was attacked;
    ``core_seconds`` are what it cost, not a number where it did not run.
    """

    paper: str
    paper_title: str
    name: str
    title: str
    data: str
    core_seconds: float
    compared: Sequence[ComparedNumber]
    kept: Sequence[ClaimRow]
    missing: Sequence[Missing]
    remarks: Sequence[str]

    def count_statements(self, verdict: Holding) -> int:
        """Return how many statements were judged so."""
        return sum(each.verdict == verdict for each in self.kept)

    def count(self, verdict: Verdict) -> int:
        """Return how many numbers were judged so."""
        return sum(each.verdict == verdict for each in self.compared)
