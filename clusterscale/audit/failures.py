"""Write the errors of failed tasks to a file next to the results."""

from __future__ import annotations

from collections.abc import Iterable

from clusterscale.audit.completion_index import Done
from clusterscale.audit.evaluation import Price
from clusterscale.audit.plan import AuditPlan
from clusterscale.storage import put, remove

__all__ = ["write_failures"]

_MOST = 100  # tasks whose tracebacks are written


def write_failures(plan: AuditPlan, done: Done, prices: Iterable[Price], uri: str) -> None:
    """Write each failed task with its traceback to a text file at ``uri``; without any, remove it.

    Targets are named by their index.
    """
    periods = {period.id: period.name for period in plan.periods}
    priors = {prior.id: prior.label for prior in plan.priors}
    parts = [
        f"evaluation of {periods[price.key[0]]}, groups of {price.key[1]:,}\n"
        f"{price.traceback or price.error}"
        for price in prices
        if price.error
    ]
    for (target, period, prior, size), entry in sorted(done.failures(_MOST).items()):
        parts.append(
            f"target {target}, {periods[period]}, {priors[prior]}, groups of {size:,}\n"
            f"{entry.traceback or entry.error}"
        )
    if parts:
        if done.n_failed > _MOST:
            parts.append(f"and {done.n_failed - _MOST:,} more tasks")
        put(uri, "\n\n".join(parts).encode())
    else:
        remove(uri)
