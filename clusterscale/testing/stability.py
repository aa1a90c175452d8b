"""Check what a trace step states of its stability, on many draws of a few users' events."""

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import scipy

from clusterscale.contracts import (
    CellCoordinates,
    Ints,
    Stability,
    Traces,
    TraceStep,
    stability_of,
)
from clusterscale.seeds import stream
from clusterscale.testing.population import coordinates, traces

__all__ = ["find_unstable"]

_FEW = 200  # draws for a user alone

Cells = frozenset[int]
Outcomes = Counter[Cells]


def find_unstable(step: TraceStep) -> Iterator[str]:
    """Yield what a step does that its stated stability excludes.

    Each event and each day of some users is removed. By Strassen's theorem, the draws with and
    without it can be paired so that few events change if and only if the pairs that are allowed
    match all draws, but for chance.
    """
    frame = coordinates()
    if (stated := stability_of((step,), (frame,))) is None:
        return
    for user in range(2):
        events = traces().trace(user)
        # 4: of a user: so few that each outcome is drawn often
        events = events[:: max(1, len(events) // 4)]
        alone: Outcomes = Counter()
        for i in range(_FEW):
            alone += _outcomes(step, events, 1, i)[0]
        inside, after = _outcomes(step, events, _FEW)
        if _unmatched(inside, alone, lambda one, other: one == other):
            yield "what it does to a user depends on other users"
        inside, _ = _outcomes(step, events)
        for event in events.tolist():
            outside, _ = _outcomes(step, events[events != event])
            if _unmatched(inside, outside, lambda one, other: len(one ^ other) <= stated.event):
                yield f"one event changes more than {stated.event}"
        days = frame.days[events % traces().n_epochs]
        for day in np.unique(days).tolist():
            outside, _ = _outcomes(step, events[days != day])
            if _unmatched(inside, outside, _allows(stated, day, after)):
                yield f"one day changes more events than {stated}"


def _outcomes(
    step: TraceStep, events: Ints, n: int = 2000, key: int = 0
) -> tuple[Outcomes, CellCoordinates]:
    """Return how often each set of cells is left of a user's events, and where cells then are."""
    offsets = len(events) * np.arange(n + 1, dtype=np.int64)
    same = Traces(offsets, np.tile(events, n), traces().n_rois, traces().n_epochs)
    changed, after = step.apply(same, coordinates(), rng=stream(2, "step", key, *map(int, events)))
    return Counter(frozenset(changed.trace(user).tolist()) for user in range(n)), after


def _allows(stated: Stability, day: int, after: CellCoordinates) -> Callable[[Cells, Cells], bool]:
    """Return whether removing a day may turn the first cells into the second."""
    on = (after.days <= day) & (day <= after.last_days)
    only = on & (after.days == after.last_days)

    def allows(inside: Cells, outside: Cells) -> bool:
        few = len(inside ^ outside) <= stated.user_day
        if not stated.confined:
            return few
        lost = all(on[cell % len(on)] for cell in inside - outside)
        left = any(only[cell % len(on)] for cell in outside)
        return few and lost and not left and outside <= inside

    return allows


def _unmatched(
    inside: Outcomes, outside: Outcomes, allowed: Callable[[Cells, Cells], bool]
) -> bool:
    """Return whether more draws than by chance are left without a partner."""
    n, n_draws = len(inside) + len(outside) + 2, inside.total()
    if n > 100:  # too many to tell chance from change
        return False
    capacity = np.zeros((n, n), np.int32)
    capacity[0, 1 : len(inside) + 1] = list(inside.values())
    capacity[len(inside) + 1 : -1, -1] = list(outside.values())
    for i, one in enumerate(inside, start=1):
        for k, other in enumerate(outside, start=len(inside) + 1):
            capacity[i, k] = n_draws * allowed(one, other)
    flow = scipy.sparse.csgraph.maximum_flow(scipy.sparse.csr_array(capacity), 0, n - 1)
    by_chance = np.sqrt(n_draws * n / (2 * np.pi)) + 4 * np.sqrt(n_draws)
    return bool(n_draws - flow.flow_value > by_chance)
