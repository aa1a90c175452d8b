"""What a driver has under way on a cluster, and how long it waits for it."""

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

_TICK = 2.0  # seconds between looks at a cluster that is silent


@dataclass(frozen=True, slots=True)
class Completed(Generic[T]):
    """What became of a cargo: its value, the error of its task, or ``lost`` with the scheduler."""

    cargo: T
    value: Any = None
    error: BaseException | None = None
    lost: bool = False


class InFlight(Generic[T]):
    """Futures under way, each with its cargo; they are handed out as they land.

    Parameters
    ----------
    patience
        Seconds that may pass without any landing.
    look
        Called every few seconds: to replace workers that were lost.
    clock
        Seconds of a clock that never goes back.
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
        self._landed: SimpleQueue[Future] = SimpleQueue()
        self._flying: dict[str, tuple[Future, T, float]] = {}

    def __len__(self) -> int:
        return len(self._flying)

    def launch(self, future: Future, cargo: T, *, seconds: float = _TICK) -> None:
        """Watch ``future``, and keep ``cargo`` for when it lands.

        Its value may take so many ``seconds`` to fetch, before a look at the cluster.
        """
        self._flying[future.key] = (future, cargo, seconds)
        future.add_done_callback(self._landed.put)

    def land(self) -> Completed[T]:
        """Wait for the next to land, well or not.

        Raises
        ------
        StalledError
            If none does for as long as patience lasts.
        """
        since = self._clock()
        while True:
            if self._clock() - self._looked >= _TICK:  # also while others keep landing
                self._look()
                self._looked = self._clock()
            landing = self._touch_down()
            if landing is not None:
                return landing
            if self._clock() - since > self._patience:
                raise StalledError(f"nothing was finished for {self._patience:g} seconds")

    def abandon(self) -> Iterator[T]:
        """Give up all that is under way, and yield its cargo."""
        flying, self._flying = self._flying, {}
        for future, cargo, _ in flying.values():
            future.cancel(force=True)
            yield cargo

    def _touch_down(self) -> Completed[T] | None:
        """Return what lands within a moment, if anything does."""
        try:
            future = self._landed.get(timeout=min(_TICK, self._patience))
        except Empty:
            return None
        if future.key not in self._flying:
            return None
        _, cargo, seconds = self._flying.pop(future.key)
        try:
            landing = _fetch(future, cargo, seconds)
        except _AwayError:  # it lands again, when it is there
            slow = future.status == "finished"
            self.launch(future, cargo, seconds=2 * seconds if slow else seconds)
            return None
        future.release()
        return landing


class _AwayError(Exception):
    """A value takes long to fetch, or was lost with its worker and is being made anew."""


def _fetch(future: Future, cargo: T, seconds: float) -> Completed[T]:
    try:
        return Completed(cargo, future.result(timeout=seconds))
    except Exception as error:
        if future.status == "cancelled":
            return Completed(cargo, lost=True)
        if future.status != "error" and isinstance(error, TimeoutError):
            raise _AwayError from None
        return Completed(cargo, error=error)
