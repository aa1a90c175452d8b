"""What a release is judged, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["LEVELS", "Level", "Reason"]

Level = Literal["pass", "warn", "fail"]
LEVELS: tuple[Level, ...] = ("pass", "warn", "fail")
"""From good to bad."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that was looked at.

    ``level`` is ``unknown`` where nothing could be told. ``measured`` and ``limit`` are not numbers
    where there are none; ``text`` says it in a sentence.
    """

    check: str
    level: Level | Literal["unknown"]
    measured: float
    limit: float
    text: str
