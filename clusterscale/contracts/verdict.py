"""Verdict levels, and the reasons for a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["VERDICT_LEVELS", "Level", "Reason"]

Level = Literal["pass", "warn", "fail"]
VERDICT_LEVELS: tuple[Level, ...] = ("pass", "warn", "fail")
"""From best to worst."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Result of one check.

    ``level`` is ``unknown`` if a check could not be made, and ``error`` if a rule of the policy
    could not be applied because its number is missing. ``measured`` and ``limit``, the limit that
    was exceeded, are NaN if there is none; ``text`` is a sentence.
    """

    check: str
    level: Level | Literal["unknown", "error"]
    measured: float
    limit: float
    text: str
