"""Results of checks, and the Check protocol."""

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
    """Result of one check on one table.

    Attributes
    ----------
    check
        Name of the check.
    level
        ``unknown`` where the check cannot decide, which is neither a pass nor a failure.
    measured
        A number of cells, or for ``noise_law`` a statistic. NaN where unknown.
    expected
        Expected value of ``measured``, NaN where there is none.
    n_cells
        Number of cells checked.
    text
        One sentence with the numbers, or the reason why the check cannot decide.
    """

    check: str
    level: Level
    measured: float
    expected: float
    n_cells: int
    text: str


@runtime_checkable
class Check(Protocol):
    """Check of a published table, alone or with tables published earlier or together with it."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def label(self) -> str:
        """Name with its settings."""

    @property
    def compares(self) -> bool:
        """Whether the check uses other tables too."""

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return the result of the check on ``table``."""


def told(n: int, noun: str) -> str:
    """Return a number with its noun in singular or plural: ``1 cell``, ``2 cells``."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
