"""What a check says, and what it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from clusterscale.consistency.table import PublishedTable

__all__ = ["Check", "CheckResult", "Level", "told"]

Level = Literal["consistent", "inconsistent", "unknown"]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer of one check on one table.

    Attributes
    ----------
    check
        Name of the check.
    level
        ``unknown`` where the check cannot tell: neither a fault nor a clean bill.
    measured
        What was found: a number of cells, or for ``noise_law`` a statistic. NaN where unknown.
    expected
        What it should be, NaN where there is no such number.
    n_cells
        Cells that were looked at.
    text
        One sentence with the numbers, or why nothing can be told.
    """

    check: str
    level: Level
    measured: float
    expected: float
    n_cells: int
    text: str


@runtime_checkable
class Check(Protocol):
    """Looks at a published table, and perhaps at others that were published before or beside it."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def label(self) -> str:
        """Name with its settings."""

    @property
    def compares(self) -> bool:
        """Whether it looks at other tables; else it looks at this one alone."""

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return what is found of ``table``."""


def told(n: int, noun: str) -> str:
    """Return ``1 cell``, ``2 cells``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
