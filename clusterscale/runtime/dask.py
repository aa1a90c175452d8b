"""Run on a Dask cluster: a bounded window of batches in flight, results taken as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import chain, islice
from time import monotonic
from typing import Any, TypeVar

from cloudpickle import dumps
from distributed import Client, Future, KilledWorker

from clusterscale.contracts import Finished, Reduction, WorkerCount
from clusterscale.errors import ClusterError, StalledError, WorkerLostError
from clusterscale.runtime import remote
from clusterscale.runtime.cargo import SECONDS, Batch, BatchSize
from clusterscale.runtime.flights import InFlight
from clusterscale.runtime.preflight import compare, look_around
from clusterscale.runtime.state import count_workers, describe
from clusterscale.runtime.tree import combine_pairwise

__all__ = ["DaskExecutor"]

T = TypeVar("T")
P = TypeVar("P")
S = TypeVar("S")
R = TypeVar("R")

_LOOK = 2.0  # seconds between looks at how many workers there are
_PATIENCE = 3600.0


def _nothing() -> None:
    return None


class DaskExecutor:
    """An executor over a Dask client.

    Items travel in batches of about a second of work. A batch whose workers died, or that cannot be
    read there, is taken apart when all others are done, and its items run alone: one that ends
    every worker that takes it up is found, and costs no other its result.

    Parameters
    ----------
    client
        Connected to the cluster.
    window
        Batches in flight for each thread of the cluster. Two keep every thread busy while the
        driver writes; more would only cost memory.
    patience
        Seconds without any result after which what is under way is given up.
    heal
        Called now and then: to replace workers that were lost.
    reconnect
        Returns a new client when the scheduler was lost and may be back; None where it cannot be.
    clock
        Returns the seconds by which patience with running work is measured.
    """

    def __init__(
        self,
        client: Client,
        *,
        window: int = 2,
        patience: float = _PATIENCE,
        replace_lost: Callable[[], None] = _nothing,
        reconnect: Callable[[], Client] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client, self._window = client, window
        self._patience, self._heal, self._reconnect = patience, replace_lost, reconnect
        self._clock, self._looked, self._n_threads = clock, -float("inf"), 1

    @property
    def n_workers(self) -> int:
        """Threads of the cluster, 1 while there are none."""
        return max(1, int(sum(self._client.nthreads().values())))

    def as_current(self) -> AbstractContextManager[object]:
        """Let Dask graphs compute on this cluster within the context, whatever Dask's default."""
        return self._client.as_current()  # type: ignore[no-any-return]

    @property
    def dashboard(self) -> str | None:
        """Where the cluster can be watched."""
        return str(self._client.dashboard_link) if self._client.dashboard_link else None

    def crew(self) -> WorkerCount | None:
        """Return who is at work, None while the scheduler does not say."""
        return count_workers(self._client)

    def preflight(self, probe: Callable[[], object]) -> None:
        """Wait for the first worker; compare all there are, and the scheduler, with this process.

        Raises
        ------
        ClusterError
            If there is no worker, versions differ, a worker has several threads, or a probe failed.
        """
        compare(look_around(self._client, probe, self._patience, self._heal))

    def map_batches(
        self, function: Callable[[T], R], items: Iterable[T]
    ) -> Iterator[Sequence[Finished[T, R]]]:
        """Yield batches as they finish; a lost worker or a failed item is an error, not a crash.

        A result leaves the cluster when it is yielded, so that no worker's end can lose it.

        Raises
        ------
        ClusterError
            If the scheduler was lost and did not come back.
        StalledError
            If nothing was finished, again and again.
        """
        waiting, size = iter(items), BatchSize()
        left: list[T] = []  # of batches that took longer than was thought

        def draw() -> Batch[T] | None:
            batch = tuple(left[: size.now]) or tuple(islice(waiting, size.now))
            del left[: size.now]
            return Batch(batch) if batch else None

        def submit(cargo: Batch[T]) -> Future:
            packed = dumps((function, cargo.items))
            return self._client.submit(remote.run_batch, packed, 2 * SECONDS, pure=False)

        for cargo, value, error in self._fly(draw, submit):
            if error is not None:
                yield [Finished(item, error=error) for item in cargo.items]
                continue
            ended, seconds = value
            size.learn(len(ended), seconds)
            left += cargo.items[len(ended) :]
            yield [Finished(item, *each) for item, each in zip(cargo.items, ended, strict=False)]

    def map_folds(self, folds: Iterable[Reduction[T, P, S, R]]) -> Iterator[Finished[T, R]]:
        """Yield the item of each fold as it finishes; errors are those of :meth:`map_batches`.

        So many folds are under way that every thread has parts to do.
        """
        waiting = iter(folds)
        first = next(waiting, None)
        if first is None:
            return
        ready = chain([first], waiting)

        def draw() -> Batch[Reduction[T, P, S, R]] | None:
            return next((Batch((fold,)) for fold in ready), None)

        def submit(cargo: Batch[Reduction[T, P, S, R]]) -> Future:
            return self._submit_fold(cargo.items[0])

        for cargo, value, error in self._fly(draw, submit, len(first.parts)):
            yield Finished(cargo.items[0].item, value, error)

    def reduce(
        self, function: Callable[[T], R], items: Iterable[T], combine: Callable[[R, R], R]
    ) -> R:
        """Combine the values of all items, in their order.

        Raises
        ------
        ValueError
            If there are no items.
        Exception
            The first error of an item, or those of :meth:`map_batches`.
        """
        parts = tuple(items)
        if not parts:
            raise ValueError("there is nothing to combine")
        (finished,) = self.map_folds([Reduction(None, parts, function, combine, _second)])
        if finished.error is not None:
            raise finished.error
        return finished.value  # type: ignore[return-value]

    def _submit_fold(self, fold: Reduction[T, P, S, R]) -> Future:
        """Send the same part of any fold to the same worker, while it lives and has room.

        A worker adds up its parts one after the other, so that it never holds more than two of
        their results and the sum; what all workers have is added as a tree.
        """
        homes = sorted(self._client.nthreads()) or [None]
        n_parts, n_sums = len(fold.parts), min(len(homes), len(fold.parts))
        sums = []
        for i in range(n_sums):
            mine = fold.parts[i * n_parts // n_sums : (i + 1) * n_parts // n_sums]
            place: dict[str, Any] = {}
            if homes[i] is not None:
                place = {"workers": [homes[i]], "allow_other_workers": True}
            total = None
            for part in mine:
                packed = dumps((fold.function, fold.combine, part))
                total = self._client.submit(remote.extend, packed, total, pure=False, **place)
            sums.append(total)
        packed_sum = dumps(fold.combine)

        def join(left: Future, right: Future) -> Future:
            return self._client.submit(remote.combine, packed_sum, left, right, pure=False)

        packed_end = dumps((fold.finish, fold.item))
        whole = combine_pairwise(sums, join)
        return self._client.submit(remote.finish, packed_end, whole, pure=False)

    def _fly(
        self,
        draw: Callable[[], Batch[T] | None],
        submit: Callable[[Batch[T]], Future],
        n_parts: int = 1,
    ) -> Iterator[tuple[Batch[T], Any, BaseException | None]]:
        """Keep every thread busy until no cargo is left; yield each with what it ended in.

        A cargo has ``n_parts`` that run side by side. Those under suspicion go last and alone.
        """
        flights: InFlight[Batch[T]] = InFlight(self._patience, self._heal, clock=self._clock)
        again: list[Batch[T]] = []  # lost with the scheduler
        suspects: list[Batch[T]] = []
        stalled: set[bool] = set()  # since anything landed: in company, alone
        while True:
            while len(flights) < self._room(n_parts) and (
                cargo := again.pop() if again else draw()
            ):
                flights.launch(submit(cargo), cargo)
            if not flights:
                if not suspects:
                    return
                cargo = suspects.pop()
                flights.launch(submit(cargo), cargo)
            try:
                landed = flights.land()
            except StalledError as stall:
                stall.add_note(describe(self._client))
                flown = list(flights.abandon())
                alone = all(cargo.alone for cargo in flown)
                hopeless = alone in stalled
                stalled.add(alone)
                if hopeless:
                    flown += suspects
                elif not alone:  # any of them may be the one that hangs
                    suspects += [single for cargo in flown for single in cargo.singly()]
                    flown = []
                for cargo in flown:
                    yield cargo, None, stall
                if hopeless:
                    raise
                self._restart()
                continue
            if landed.lost:
                again += [landed.cargo, *flights.abandon()]
                self._come_back()
            elif isinstance(landed.error, KilledWorker) and not landed.cargo.alone:
                suspects += landed.cargo.singly()
            else:
                stalled.clear()
                yield landed.cargo, landed.value, _plain(landed.error)

    def _room(self, n_parts: int) -> int:
        """Return how many cargoes may fly; workers may come and go meanwhile."""
        if monotonic() - self._looked > _LOOK:
            self._looked = monotonic()
            with suppress(OSError):  # the scheduler is lost, as the next landing will tell
                self._n_threads = self.n_workers
        room = -(-self._window * self._n_threads // n_parts)
        return room + (n_parts > 1)  # one is finished while others are counted

    def _restart(self) -> None:
        """Start the workers anew, for they may hang."""
        try:
            self._client.restart(wait_for_workers=False, timeout=30)
        except Exception as error:
            raise ClusterError(f"the workers hang and could not be started anew: {error}") from None

    def _come_back(self) -> None:
        """Connect again after the scheduler was lost; raise ClusterError if it is not back."""
        lost = "the scheduler was lost; what was finished is kept, and the same command goes on"
        if self._reconnect is None:
            raise ClusterError(lost)
        try:
            self._client = self._reconnect()
        except OSError as error:
            raise ClusterError(f"{lost} ({error})") from None


def _plain(error: BaseException | None) -> BaseException | None:
    if not isinstance(error, KilledWorker):
        return error
    n_lost = error.allowed_failures + 1
    return WorkerLostError(
        f"{n_lost} workers died of it, one after the other, with nothing else to do: most often "
        "they had too little memory; give workers more, or ask for smaller groups"
    )


def _second(_: object, total: R) -> R:
    return total
