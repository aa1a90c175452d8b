"""What a driver has under way on a cluster, and how long it waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Generic, TypeVar

from distributed import Future

from clusterscale.errors import StalledError

__all__ = ["Flights"]

T = TypeVar("T")

_TICK = 2.0  # seconds between looks at a cluster that is silent


class Flights(Generic[T]):
    """Futures under way, each with its cargo; they are handed out as they land.

    Parameters
    ----------
    patience
        Seconds that may pass without any landing.
    look
        Called every few seconds: to replace workers that were lost.
    """

    def __init__(self, patience: float, look: Callable[[], None]) -> None:
        self._patience, self._look = patience, look
        self._looked = monotonic()
        self._landed: SimpleQueue[Future] = SimpleQueue()
        self._flying: dict[str, tuple[Future, T]] = {}

    def __len__(self) -> int:
        return len(self._flying)

    def launch(self, future: Future, cargo: T) -> None:
        """Watch ``future``, and keep ``cargo`` for when it lands."""
        self._flying[future.key] = (future, cargo)
        future.add_done_callback(self._landed.put)

    def land(self) -> tuple[Future, T]:
        """Wait for the next to land, well or not.

        Raises
        ------
        StalledError
            If none does for as long as patience lasts.
        """
        since = monotonic()
        while True:
            if monotonic() - self._looked >= _TICK:
                self._look()
                self._looked = monotonic()
            try:
                future = self._landed.get(timeout=min(_TICK, self._patience))
            except Empty:
                future = None
            if future is not None and future.key in self._flying:
                return self._flying.pop(future.key)
            if monotonic() - since > self._patience:
                raise StalledError(f"nothing was finished for {self._patience:g} seconds")

    def abandon(self) -> Iterator[T]:
        """Give up all that is under way, and yield its cargo."""
        flying, self._flying = self._flying, {}
        for future, cargo in flying.values():
            future.cancel(force=True)
            yield cargo
