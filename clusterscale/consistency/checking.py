"""The checks by name, and all that are asked of one table."""

from __future__ import annotations

from collections.abc import Sequence

from clusterscale.consistency.complement import Complement
from clusterscale.consistency.differencing import Differencing
from clusterscale.consistency.finding import Check, CheckResult
from clusterscale.consistency.noise_law import NoiseLaw
from clusterscale.consistency.possible_values import PossibleValues
from clusterscale.consistency.table import PublishedTable
from clusterscale.consistency.totals import Totals
from clusterscale.registry import Registry
from clusterscale.seeds import stream

__all__ = ["CHECKS", "check_table"]

CHECKS: Registry[Check] = Registry(
    "check", Complement, Differencing, NoiseLaw, PossibleValues, Totals
)


def check_table(
    table: PublishedTable,
    others: Sequence[PublishedTable],
    checks: Sequence[Check],
    *,
    seed: int,
    path: tuple[str | int, ...] = (),
) -> list[CheckResult]:
    """Return what each check finds of a table, in the order of ``checks``.

    Each draws from a stream of its own, so no finding hangs on which other checks are made.

    Parameters
    ----------
    table
        What was published.
    others
        What was published before or beside it, of the same cube.
    checks
        Entries of :data:`CHECKS`.
    seed
        Root seed.
    path
        What the draws are for, before the names of table and check.

    Raises
    ------
    ConfigError
        If the declared mechanism cannot publish such a table.
    """
    return [
        check.check(table, others, rng=stream(seed, "consistency", *path, table.name, check.name))
        for check in checks
    ]
