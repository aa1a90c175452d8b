"""Batches of tasks, and adaptive batch sizing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["SECONDS", "Batch", "BatchSize"]

T = TypeVar("T")

SECONDS = 1.0
"""Target duration of a batch: a thousand times the cost of scheduling one."""

_GROWTH = 4  # maximal factor by which a batch is larger than the one before
_MOST = 1024  # maximal number of items in a batch


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Items sent to a worker together; ``alone`` if no other batch may run meanwhile."""

    items: tuple[T, ...]
    alone: bool = False

    def singly(self) -> list[Batch[T]]:
        """Return one batch per item, each to run alone."""
        return [Batch((item,), alone=True) for item in self.items]


class BatchSize:
    """Number of items in the next batch, estimated from the durations of earlier batches."""

    def __init__(self) -> None:
        self.now = 1

    def learn(self, n_items: int, seconds: float) -> None:
        """Adapt the size of the next batch to the ``seconds`` that ``n_items`` took."""
        fitting = int(SECONDS * n_items / max(seconds, 1e-6))
        self.now = max(1, min(fitting, _GROWTH * max(self.now, n_items), _MOST))
