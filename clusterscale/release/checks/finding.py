"""The base of checks, results of checks, and a function that runs several on one table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self, get_args

import numpy as np

from clusterscale.contracts import ConfigModel
from clusterscale.foreign import Fault, returns
from clusterscale.release.checks.table import PublishedTable
from clusterscale.seeds import stream

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

    @property
    def decided(self) -> bool:
        """Whether the check could decide, and there was anything to check."""
        return self.level == "inconsistent" or (self.level == "consistent" and self.n_cells > 0)

    @classmethod
    def unknown(cls, check: str, n_cells: int, text: str) -> Self:
        """Return the result of a check that cannot decide."""
        return cls(check, "unknown", np.nan, np.nan, n_cells, text)

    @classmethod
    def of_faults(cls, check: str, n_faults: int, n_cells: int, text: str) -> Self:
        """Return the result of a check that finds faults: inconsistent if there are any."""
        level: Level = "inconsistent" if n_faults else "consistent"
        return cls(check, level, float(n_faults), 0.0, n_cells, text)


def _result_fault(returned: object, *_: object, **__: object) -> str:
    if wrong := returns(CheckResult)(returned):
        return wrong
    level = returned.level  # type: ignore[attr-defined]
    known = get_args(Level)
    return "" if level in known else f"has level {level!r}: choose from {', '.join(known)}"


class Check(ConfigModel):
    """Check of a published table, alone or with tables published earlier or together with it."""

    _registry: ClassVar[str] = "clusterscale.release.checks:CHECKS"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {"check": _result_fault}
    if TYPE_CHECKING:
        name: str  # a literal, with itself as its default: the key in the registry

    compares: ClassVar[bool]
    """Whether the check uses other tables too."""

    @abstractmethod
    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return the result of the check on ``table``."""


def check_table(
    table: PublishedTable,
    others: Sequence[PublishedTable],
    checks: Sequence[Check],
    *,
    seed: int,
    path: tuple[str | int, ...] = (),
) -> list[CheckResult]:
    """Check a published table.

    Each check has its own random stream, so results do not depend on which other checks run.

    Parameters
    ----------
    table
        The published table.
    others
        Tables of the same cube that were published earlier or together with it.
    checks
        Entries of :data:`clusterscale.release.checks.CHECKS`.
    seed
        Root seed.
    path
        Prefix of the stream's path, before the names of table and check.

    Returns
    -------
    list[CheckResult]
        One for each check, in the order of ``checks``.

    Raises
    ------
    ConfigError
        If the declared mechanism cannot be applied to the table.
    """
    return [
        check.check(table, others, rng=stream(seed, "consistency", *path, table.name, check.name))
        for check in checks
    ]


def open_comparison(checks: Sequence[Check], results: Sequence[CheckResult]) -> str:
    """Return why the first comparison with another table is not decided.

    Parameters
    ----------
    checks, results
        The checks, and the result of each.

    Returns
    -------
    str
        Empty if all comparisons are decided.
    """
    undecided = (
        result.text
        for check, result in zip(checks, results, strict=True)
        if check.compares and result.level == "unknown"
    )
    return next(undecided, "")


def worst_level(results: Sequence[CheckResult], omitted: str) -> Level:
    """Return the level of a table.

    Parameters
    ----------
    results
        Results of all checks.
    omitted
        Comparison that is not decided, or what was merged or dropped in reading; empty: neither.

    Returns
    -------
    str
        Consistent if a check could decide, none found a fault, and nothing is ``omitted``.
    """
    if any(result.level == "inconsistent" for result in results):
        return "inconsistent"
    decided = any(result.decided for result in results)
    return "consistent" if decided and not omitted else "unknown"


def agree(n: int, verb: str) -> str:
    """Return a verb in the number of its subject, of which there are ``n``: ``1 follows``."""
    return verb + "s" if n == 1 else verb
