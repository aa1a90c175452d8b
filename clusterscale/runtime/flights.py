"""Batches in flight on a cluster, with a limit on the time without any result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Generic, TypeVar

from distributed import Future

from clusterscale.errors import StalledError

__all__ = ["Completed", "InFlight"]

T = TypeVar("T")

_TICK = 2.0  # seconds between checks of the cluster while no result comes


@dataclass(frozen=True, slots=True)
class Completed(Generic[T]):
    """Outcome of a batch: its value, the error of its task, or ``lost`` with the scheduler."""

    batch: T
    value: Any = None
    error: BaseException | None = None
    lost: bool = False


class InFlight(Generic[T]):
    """Futures in flight, each with its batch; they are returned as they complete.

    Parameters
    ----------
    patience
        Seconds that may pass without any result.
    look
        Called every few seconds to replace lost workers.
    clock
        Returns the seconds of a monotonic clock.
    """

    def __init__(
        self,
        patience: float,
        look: Callable[[], None],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._patience, self._look, self._clock = patience, look, clock
        self._looked = clock()
        self._finished: SimpleQueue[Future] = SimpleQueue()
        self._pending: dict[str, tuple[Future, T, float]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def submit(self, future: Future, batch: T, *, seconds: float = _TICK) -> None:
        """Watch ``future``, and keep ``batch`` until it completes.

        Fetching its value may take ``seconds`` before the cluster is checked again.
        """
        self._pending[future.key] = (future, batch, seconds)
        future.add_done_callback(self._finished.put)

    def next_completed(self) -> Completed[T]:
        """Wait for the next future that completes, with a value or an error.

        Raises
        ------
        StalledError
            If none completes within ``patience`` seconds.
        """
        since = self._clock()
        while True:
            if self._clock() - self._looked >= _TICK:  # also while results keep coming
                self._look()
                self._looked = self._clock()
            completed = self._take_one()
            if completed is not None:
                return completed
            if self._clock() - since > self._patience:
                raise StalledError(f"nothing was finished for {self._patience:g} seconds")

    def cancel_all(self) -> Iterator[T]:
        """Cancel all futures, and yield their batches."""
        pending, self._pending = self._pending, {}
        for future, batch, _ in pending.values():
            future.cancel(force=True)
            yield batch

    def _take_one(self) -> Completed[T] | None:
        """Return a future that completes within one tick, or None."""
        try:
            future = self._finished.get(timeout=min(_TICK, self._patience))
        except Empty:
            return None
        if future.key not in self._pending:
            return None
        _, batch, seconds = self._pending.pop(future.key)
        try:
            completed = _fetch(future, batch, seconds)
        except _NotReadyError:  # submit it again; it completes when the value is available
            slow = future.status == "finished"
            self.submit(future, batch, seconds=2 * seconds if slow else seconds)
            return None
        future.release()
        return completed


class _NotReadyError(Exception):
    """A value takes long to fetch, or was lost with its worker and is being recomputed."""


def _fetch(future: Future, batch: T, seconds: float) -> Completed[T]:
    try:
        return Completed(batch, future.result(timeout=seconds))
    except Exception as error:
        if future.status == "cancelled":
            return Completed(batch, lost=True)
        if future.status != "error" and isinstance(error, TimeoutError):
            raise _NotReadyError from None
        return Completed(batch, error=error)
