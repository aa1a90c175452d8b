"""What travels to a worker together, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["SECONDS", "Batch", "BatchSize"]

T = TypeVar("T")

SECONDS = 1.0
"""Of work in a batch: a thousand times what scheduling one costs."""

_GROWTH = 4  # a batch is so many times larger than the one before, at most
_MOST = 1024  # items in a batch


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Items that travel together; ``alone`` if nothing else may fly meanwhile."""

    items: tuple[T, ...]
    alone: bool = False

    def singly(self) -> list[Batch[T]]:
        """Return each item as a cargo of its own that flies alone."""
        return [Batch((item,), alone=True) for item in self.items]


class BatchSize:
    """How many items make a batch, as far as is known from those before."""

    def __init__(self) -> None:
        self.now = 1

    def learn(self, n_items: int, seconds: float) -> None:
        """Fit the next batch to what ``n_items`` took."""
        fitting = int(SECONDS * n_items / max(seconds, 1e-6))
        self.now = max(1, min(fitting, _GROWTH * max(self.now, n_items), _MOST))
