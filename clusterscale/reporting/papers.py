"""Reports of studies that reproduce papers: compared numbers, claims and missing items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal

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
