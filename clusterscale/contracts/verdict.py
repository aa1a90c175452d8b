"""What a release is judged, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["VERDICT_LEVELS", "Level", "Reason"]

Level = Literal["pass", "warn", "fail"]
VERDICT_LEVELS: tuple[Level, ...] = ("pass", "warn", "fail")
"""From good to bad."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that was looked at.

    ``level`` is ``unknown`` where a check could not be made, and ``error`` where a rule of the
    policy could not be applied because its number is missing. ``measured`` and ``limit``, the one
    that was crossed, are NaN where there are none; ``text`` says it in a sentence.
    """

    check: str
    level: Level | Literal["unknown", "error"]
    measured: float
    limit: float
    text: str
