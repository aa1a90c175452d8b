"""Registry of the checks, and a function that runs several of them on one table."""

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
    """Return the result of each check on a table, in the order of ``checks``.

    Each check has its own random stream, so results do not depend on which other checks run.

    Parameters
    ----------
    table
        The published table.
    others
        Tables of the same cube that were published earlier or together with it.
    checks
        Entries of :data:`CHECKS`.
    seed
        Root seed.
    path
        Prefix of the stream's path, before the names of table and check.

    Raises
    ------
    ConfigError
        If the declared mechanism cannot be applied to the table.
    """
    return [
        check.check(table, others, rng=stream(seed, "consistency", *path, table.name, check.name))
        for check in checks
    ]
