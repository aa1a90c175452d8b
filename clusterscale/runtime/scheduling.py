"""Batches of tasks: how many items, which are in flight, and what runs on a worker.

The functions that run on a worker unpickle functions and items inside the task. If the worker
itself unpickled them, an item that cannot be unpickled (its module is missing there) would kill one
worker after the other, and the driver would wait forever. Unpickled inside the task, it is an error
of that task only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter, sleep
from typing import TYPE_CHECKING, Any, Generic

from cloudpickle import dumps, loads

from clusterscale.errors import StalledError
from clusterscale.runtime.serial import run_items
from clusterscale.study.execution import BATCH_SECONDS, R, T, batch_seconds

if TYPE_CHECKING:
    from distributed import Future


_MAX_ITEMS = 1024  # in a batch
_TICK = 2.0  # seconds between checks of the cluster while no result comes


@dataclass(frozen=True, slots=True)
class Batch(Generic[T]):
    """Items sent to a worker together; ``alone`` if no other batch may run meanwhile."""

    items: tuple[T, ...]
    alone: bool = False

    def split(self) -> list[Batch[T]]:
        """Return one batch per item, each to run alone."""
        return [Batch((item,), alone=True) for item in self.items]


class BatchSize:
    """Number of items in the next batch, from the durations of earlier ones and what is left.

    Of ``n_items``, 0 if unknown, the last are in smaller batches, so that all threads end at about
    the same time.
    """

    def __init__(self, n_items: int = 0) -> None:
        self._n_left, self._is_known = n_items, n_items > 0
        self._size, self._n_threads = 0, 1  # size 0: nothing has finished yet

    def next(self, n_threads: int) -> int:
        """Return how many items to draw now."""
        self._n_threads = n_threads
        if not self._is_known:
            return max(1, self._size)
        # 2: batches of each thread that the items left are divided into
        share = -(-self._n_left // (2 * n_threads))
        if self._size == 0 and batch_seconds(n_threads) > BATCH_SECONDS:
            size = share  # at once, since a batch that takes long returns the rest
        else:
            # 4: divisor of a full batch, for batches towards the end
            size = min(self._size, max(share, self._size // 4))
        return max(1, min(size, _MAX_ITEMS))

    def drawn(self, n_items: int) -> None:
        """Note that so many items were drawn, or, if negative, were returned."""
        self._n_left = max(0, self._n_left - n_items)

    def update(self, n_items: int, seconds: float) -> None:
        """Adapt the size of the next batches to the ``seconds`` that ``n_items`` took."""
        fitting = int(batch_seconds(self._n_threads) * n_items / max(seconds, 1e-6))
        # 4: maximal factor by which a batch is larger than the one before
        self._size = max(1, min(fitting, 4 * max(self._size, n_items), _MAX_ITEMS))


@dataclass(frozen=True, slots=True)
class Completed(Generic[T]):
    """Outcome of a batch: its value, the error of its task, or ``lost`` with the scheduler."""

    batch: T
    value: Any = None
    error: BaseException | None = None
    lost: bool = False


class InFlight(Generic[T]):
    """Futures in flight, each with its batch; they are returned as they complete.

    ``patience`` is the seconds by ``clock`` that may pass without any result; ``replace_lost`` is
    called every few seconds to replace lost workers.
    """

    def __init__(
        self,
        patience: float,
        replace_lost: Callable[[], None],
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._patience, self._replace_lost, self._clock = patience, replace_lost, clock
        self._checked = clock()
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

        Raises StalledError if none completes within ``patience`` seconds.
        """
        since = self._clock()
        while True:
            if self._clock() - self._checked >= _TICK:  # also while results keep coming
                self._replace_lost()
                self._checked = self._clock()
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
        """Return a batch that completes within one tick; None if none does.

        A future whose value is not here yet is watched again.
        """
        try:
            future = self._finished.get(timeout=min(_TICK, self._patience))
        except Empty:
            return None
        if future.key not in self._pending:
            return None
        _, batch, seconds = self._pending.pop(future.key)
        found = _fetch(future, batch, seconds)
        if isinstance(found, float):
            self.submit(future, batch, seconds=found)
            return None
        future.release()
        return found


def _fetch(future: Future, batch: T, seconds: float) -> Completed[T] | float:
    """Return the outcome of a future, or the seconds that the next attempt to fetch it may take."""
    try:
        return Completed(batch, future.result(timeout=seconds))
    except Exception as error:
        if future.status == "cancelled":
            return Completed(batch, lost=True)
        if future.status == "error" or not isinstance(error, OSError):
            return Completed(batch, error=error)
        if not isinstance(error, TimeoutError):  # the connection failed
            sleep(0.1)  # seconds before a value that could not be sent is asked for again
            return seconds
        # The value takes long to send, or was lost with its worker and is being computed again.
        return 2 * seconds if future.status == "finished" else seconds


def combine_pairwise(values: list[R], combine: Callable[[R, R], R]) -> R:
    """Reduce ``values`` as a balanced tree, always in the same order, in about log2(n) rounds.

    Raises ValueError if there is nothing to combine.
    """
    if not values:
        raise ValueError("there is nothing to combine")
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        rest = values[-1:] if len(values) % 2 else []
        values = [combine(left, right) for left, right in pairs] + rest
    return values[0]


BatchResult = tuple[list[tuple[Any, BaseException | None, str]], float]
"""For each finished item its value, error and traceback; and the seconds of the whole batch."""


def run_batch(packed: bytes, seconds: float) -> BatchResult | BaseException:
    """Call a function with the items of a batch, and write the results if they are to be kept.

    No further item is started after ``seconds``. An error that is returned kept the results from
    being written.
    """
    function, items, write = loads(packed)
    started = perf_counter()
    try:
        finished = run_items(function, items, write, seconds)
    except Exception as error:
        return _portable(error)
    results = [
        (one.value, None if one.error is None else _portable(one.error), one.traceback)
        for one in finished
    ]
    return results, perf_counter() - started


def add_part(packed: bytes, total: Any) -> Any:
    """Add the value of a function on one part to the total of the earlier parts, if any."""
    function, add, part = loads(packed)
    value = function(part)
    return value if total is None else add(total, value)


def call(packed: bytes, *values: Any) -> Any:
    """Return what a function makes of some results."""
    return loads(packed)(*values)


def _portable(error: BaseException) -> BaseException:
    """Return ``error``, or a RuntimeError with its message if it cannot be pickled."""
    try:
        loads(dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
