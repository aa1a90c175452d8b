"""Group mechanisms that can share counts."""

from __future__ import annotations

from collections.abc import Iterable

from clusterscale.contracts import Mechanism, TraceStep

__all__ = ["group_by_trace_steps"]


def group_by_trace_steps(
    mechanisms: Iterable[Mechanism],
) -> list[tuple[tuple[TraceStep, ...], list[Mechanism]]]:
    """Return the mechanisms grouped by their trace steps, so that these are applied once."""
    order: dict[tuple[TraceStep, ...], list[Mechanism]] = {}
    for mechanism in mechanisms:
        order.setdefault(mechanism.trace_steps, []).append(mechanism)
    return list(order.items())
