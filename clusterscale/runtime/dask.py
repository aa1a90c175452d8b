"""Run on a Dask cluster: a bounded window of batches in flight, results in order of completion."""

import platform
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from importlib.metadata import version
from itertools import chain, islice
from time import monotonic
from typing import Any

from cloudpickle import dumps, loads
from distributed import Client, Future, KilledWorker, Security
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from clusterscale.errors import ClusterError, StalledError, WorkerLostError
from clusterscale.runtime import scheduling
from clusterscale.runtime.scheduling import Batch
from clusterscale.study.execution import (
    Finished,
    P,
    R,
    Reduction,
    S,
    T,
    WorkerCount,
    Write,
    batch_seconds,
)

Versions = dict[str, str]

_PACKAGES = ["clusterscale", "dask", "distributed", "cloudpickle", "msgpack"]
_PACKAGES += ["numba", "numpy", "pandas", "pyarrow", "pydantic", "scikit-learn", "scipy", "zarr"]
_MOST_NAMED = 3  # workers named for one fault
# In seconds:
_ATTEMPT = 10.0  # timeout of an attempt to connect
_MOST_BETWEEN = 30.0  # longest wait between attempts
_FIRST_WORKER = 2.0  # between checks for a first worker
_DIAGNOSIS = 10.0  # timeout of a diagnosis
_QUERY = 2.0  # timeout of a status query


def check_workers(
    client: Client, probe: Callable[[], object], patience: float, replace_lost: Callable[[], None]
) -> None:
    """Wait for the first worker; compare the scheduler and all current workers with this process.

    Raises ClusterError if no worker connects within ``patience`` seconds; or once for all versions
    that differ, and all workers that have several threads or on which the probe failed.
    """
    _wait_for_worker(client, patience, replace_lost)
    workers_by_fault: dict[str, list[str]] = defaultdict(list)
    for address, n_threads in client.nthreads().items():
        if n_threads != 1:
            fault = f"has {n_threads} threads: give each worker one, and have more workers"
            workers_by_fault[fault].append(f"worker {address}")
    answers = client.run(_examine, dumps(probe), on_error="return")
    by_process = {f"worker {address}": answer for address, answer in answers.items()}
    try:
        by_process["the scheduler"] = client.run_on_scheduler(_examine, dumps(_no_probe))
    except Exception as error:
        by_process["the scheduler"] = error
    here = _versions()
    for name, answer in by_process.items():
        for fault in _faults(answer, here):
            workers_by_fault[fault].append(name)
    if workers_by_fault:
        lines = [f"{_join(names)}: {fault}" for fault, names in sorted(workers_by_fault.items())]
        raise ClusterError("the cluster cannot run this work\n" + "\n".join(lines))


def describe(client: Client) -> str:
    """Return the workers with their memory, number of tasks and call stacks.

    The text contains no personal data: only functions, lines and numbers of tasks.
    """
    try:
        info = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=_DIAGNOSIS)
    except Exception as error:
        return f"the scheduler does not answer ({type(error).__name__})"
    lines = [f"{len(info['workers'])} workers"]
    lines += [_summarise(address, worker) for address, worker in sorted(info["workers"].items())]
    try:
        stacks = client.sync(client.scheduler.call_stack, keys=None, callback_timeout=_DIAGNOSIS)
    except Exception as error:
        return "\n".join([*lines, f"their call stacks are unknown ({type(error).__name__})"])
    for address, tasks in sorted(stacks.items()):
        for frames in tasks.values():
            lines += [f"{address} is at", *(frame.rstrip() for frame in frames)]
    return "\n".join(lines)


def _wait_for_worker(client: Client, patience: float, replace_lost: Callable[[], None]) -> None:
    since = monotonic()
    while not client.nthreads():
        left = patience - (monotonic() - since)
        if left <= 0:
            raise ClusterError(
                f"no worker connected within {patience:g} seconds; if they wait in a queue, "
                "increase the cluster's `patience`"
            )
        try:
            client.wait_for_workers(1, timeout=min(_FIRST_WORKER, left))
        except TimeoutError:
            replace_lost()


def _examine(packed: bytes) -> tuple[Versions, str]:
    """Return the versions of this process, and the error of its probe or ``""``."""
    try:
        loads(packed)()
    except Exception as error:
        return _versions(), f"{type(error).__name__}: {error}"
    return _versions(), ""


def _versions() -> Versions:
    """Return the versions that must be the same everywhere."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def _faults(answer: tuple[Versions, str] | BaseException, here: Versions) -> list[str]:
    """Return what is wrong with the process that gave an answer to :func:`_examine`."""
    if isinstance(answer, BaseException):
        return [f"{type(answer).__name__}: {answer}"]
    there, fault = answer
    faults = [fault] if fault else []
    for package, expected in here.items():
        if (other := there.get(package, "absent")) != expected:
            faults.append(f"{package} is {other} there and {expected} here")
    return faults


def _join(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:_MOST_NAMED])
    return shown if len(names) <= _MOST_NAMED else f"{shown} and {len(names) - _MOST_NAMED} more"


def _no_probe() -> None:
    return None


def _summarise(address: str, info: dict[str, Any]) -> str:
    metrics = info.get("metrics", {})
    memory = metrics.get("memory", 0) / 1e6
    return (
        f"{address}: {info.get('status', 'unknown')}, {metrics.get('executing', 0)} running, "
        f"{metrics.get('ready', 0)} ready, {memory:,.0f} MB"
    )


class SchedulerConnection:
    """A connection to the scheduler at an address, which can be made again if it is lost.

    A lost scheduler may take ``patience`` seconds to come back.
    """

    def __init__(self, address: str, security: Security | None, patience: float) -> None:
        self._address, self._security, self._patience = address, security, patience
        self._client: Client | None = None

    def connect(self, patience: float) -> Client:
        """Connect, with retries until the scheduler answers.

        Raises OSError if it does not answer within ``patience`` seconds.
        """
        attempts = Retrying(
            retry=retry_if_exception_type(OSError),
            stop=stop_after_delay(patience),
            wait=wait_random_exponential(max=_MOST_BETWEEN),
            reraise=True,
        )
        try:
            timeout, security = min(_ATTEMPT, patience), self._security
            self._client = attempts(
                Client, self._address, security=security, timeout=timeout, set_as_default=False
            )
        except OSError as error:
            raise OSError(
                f"no scheduler answers at {self._address} within {patience:g} seconds: {error}"
            ) from None
        return self._client

    def reconnect(self) -> Client:
        """Close the connection, and connect again as soon as the scheduler is back.

        Raises OSError if it does not come back within the patience of this connection.
        """
        self.close()
        return self.connect(self._patience)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close(timeout=_ATTEMPT)
            self._client = None


class DaskExecutor:
    """An executor that uses a Dask client.

    Items are sent in batches of about a second of work; with many workers they are longer, so that
    at most about fifty finish in a second. A batch whose workers died is split when all others are
    done, and its items run alone. This isolates an item that kills every worker, and no other item
    loses its result.

    ``window`` batches are in flight per thread of the cluster: two keep every thread busy while the
    driver writes; more would only use memory. After ``patience`` seconds without any result, by
    ``clock``, the batches in flight are cancelled. ``replace_lost`` is called every few seconds to
    replace lost workers; ``reconnect`` returns a new client after the scheduler was lost, None if
    it cannot come back.
    """

    def __init__(
        self,
        client: Client,
        *,
        window: int = 2,
        patience: float = 3600.0,  # seconds without any result
        replace_lost: Callable[[], None] = lambda: None,
        reconnect: Callable[[], Client] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._client, self._window = client, window
        self._patience, self._replace_lost, self._reconnect = patience, replace_lost, reconnect
        self._clock, self._counted_at, self._n_threads = clock, -float("inf"), 1
        self._seen: set[str] = set()  # addresses of all workers
        self._most_memory, self._n_retries = 0, 0

    @property
    def n_workers(self) -> int:
        """Threads of the cluster, 1 while there are none."""
        return max(1, int(sum(self._client.nthreads().values())))

    def as_current(self) -> AbstractContextManager[object]:
        """Compute Dask graphs on this cluster within the context, regardless of Dask's default."""
        return self._client.as_current()  # type: ignore[no-any-return]

    @property
    def dashboard(self) -> str | None:
        """URL of the dashboard, if there is one."""
        return str(self._client.dashboard_link) if self._client.dashboard_link else None

    def count_workers(self) -> WorkerCount | None:
        """Return the workers, None while the scheduler does not answer.

        Workers that came and went between two calls are not counted.
        """
        try:
            ask = self._client.scheduler.identity
            info = self._client.sync(ask, n_workers=-1, callback_timeout=_QUERY)
        except Exception:  # it is lost or being closed, which its user notices anyway
            return None
        present: dict[str, Any] = info["workers"]
        self._seen |= present.keys()
        used = [int(one.get("metrics", {}).get("memory", 0)) for one in present.values()]
        self._most_memory = max(self._most_memory, *used, 0)
        n_lost = len(self._seen) - len(present)
        return WorkerCount(len(present), n_lost, self._n_retries, self._most_memory or None)

    def preflight(self, probe: Callable[[], object]) -> None:
        """Wait for the first worker; compare all workers and the scheduler with this process.

        Raises ClusterError if there is no worker, versions differ, a worker has several threads, or
        a probe failed.
        """
        check_workers(self._client, probe, self._patience, self._replace_lost)

    def map_batches(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        write: Write[T, R] | None = None,
        n_items: int = 0,
        urgent: bool = False,
    ) -> Iterator[Sequence[Finished[T, Any]]]:
        """Yield batches as they finish; a lost worker or failed item becomes an error of the item.

        A result is fetched, or written by its worker, before it is yielded, so it cannot be lost
        with a worker. Raises ClusterError if the scheduler was lost and did not come back,
        StalledError if nothing was finished within ``patience``, repeatedly, and the errors of
        ``write``.
        """
        waiting, size = iter(items), scheduling.BatchSize(n_items)
        unstarted: list[T] = []  # items of batches that took longer than expected

        def draw() -> Batch[T] | None:
            n = 1 if urgent else size.next(self._n_threads)
            drawn = tuple(unstarted[:n]) or tuple(islice(waiting, n))
            del unstarted[:n]
            size.drawn(len(drawn))
            return Batch(drawn) if drawn else None

        def submit(batch: Batch[T]) -> Future:
            packed = dumps((function, batch.items, write))
            limit = 2 * batch_seconds(self._n_threads)
            priority = 10 if urgent else 0  # priority of a task that runs before those that wait
            return self._client.submit(
                scheduling.run_batch, packed, limit, pure=False, priority=priority
            )

        for batch, value, error in self._run(draw, submit):
            if error is not None:
                yield [Finished(item, error=error) for item in batch.items]
                continue
            if isinstance(value, BaseException):
                raise value
            results, seconds = value
            size.update(len(results), seconds)
            rest = batch.items[len(results) :]
            unstarted += rest
            size.drawn(-len(rest))
            pairs = zip(batch.items, results, strict=False)
            yield [Finished(item, *result) for item, result in pairs]

    def map_reductions(
        self, reductions: Iterable[Reduction[T, P, S, R]]
    ) -> Iterator[Finished[T, R]]:
        """Yield the item of each reduction as it finishes; raises as :meth:`map_batches`.

        Enough reductions are in flight that every thread has parts to compute.
        """
        waiting = iter(reductions)
        first = next(waiting, None)
        if first is None:
            return
        ready = chain([first], waiting)

        def draw() -> Batch[Reduction[T, P, S, R]] | None:
            return next((Batch((reduction,)) for reduction in ready), None)

        def submit(batch: Batch[Reduction[T, P, S, R]]) -> Future:
            return self._submit_reduction(batch.items[0])

        for batch, value, error in self._run(draw, submit, max(1, len(first.parts))):
            yield Finished(batch.items[0].item, value, error)

    def _submit_reduction(self, reduction: Reduction[T, P, S, R]) -> Future:
        """Return the future of a reduction; a part of the data goes to one worker if possible.

        A worker adds up its parts one after the other, so it holds at most two results and the
        sum; the sums of all workers are combined as a tree.
        """
        workers = sorted(self._client.nthreads()) or [None]
        n_parts, n_sums = len(reduction.parts), min(len(workers), len(reduction.parts))
        sums = []
        for i, worker in enumerate(workers[:n_sums]):
            affinity = {"workers": [worker], "allow_other_workers": True} if worker else {}
            total = None
            for part in reduction.parts[i * n_parts // n_sums : (i + 1) * n_parts // n_sums]:
                packed = dumps((reduction.function, reduction.combine, part))
                total = self._client.submit(
                    scheduling.add_part, packed, total, pure=False, **affinity
                )
            sums.append(total)
        packed_sum = dumps(reduction.combine)

        def join(left: Future, right: Future) -> Future:
            return self._client.submit(scheduling.call, packed_sum, left, right, pure=False)

        packed_end = dumps(partial(reduction.finish, reduction.item))
        whole = scheduling.combine_pairwise(sums, join)
        return self._client.submit(scheduling.call, packed_end, whole, pure=False)

    def _run(
        self,
        draw: Callable[[], Batch[T] | None],
        submit: Callable[[Batch[T]], Future],
        n_parts: int = 1,
    ) -> Iterator[tuple[Batch[T], Any, BaseException | None]]:
        """Keep every thread busy until no batch is left; yield each with its value or error.

        A batch has ``n_parts`` that run in parallel. Suspect batches run last, one at a time.
        """
        in_flight: scheduling.InFlight[Batch[T]] = scheduling.InFlight(
            self._patience, self._replace_lost, clock=self._clock
        )
        to_resubmit: list[Batch[T]] = []  # lost with the scheduler
        suspects: list[Batch[T]] = []
        stalled: set[bool] = set()  # since the last result; True: a batch that ran alone
        while True:
            while len(in_flight) < self._n_allowed(n_parts) and (
                batch := to_resubmit.pop() if to_resubmit else draw()
            ):
                in_flight.submit(submit(batch), batch)
            if not in_flight:
                if not suspects:
                    return
                batch = suspects.pop()
                in_flight.submit(submit(batch), batch)
            try:
                completed = in_flight.next_completed()
            except StalledError as stall:
                stall.add_note(describe(self._client))
                cancelled = list(in_flight.cancel_all())
                alone = all(batch.alone for batch in cancelled)
                give_up = alone in stalled
                stalled.add(alone)
                if give_up:
                    cancelled += suspects
                elif not alone:  # any one of them may hang
                    suspects += [single for batch in cancelled for single in batch.split()]
                    self._n_retries += len(cancelled)
                    cancelled = []
                for batch in cancelled:
                    yield batch, None, stall
                if give_up:
                    raise
                self._restart()
                continue
            if completed.lost:
                again = [completed.batch, *in_flight.cancel_all()]
                to_resubmit += again
                self._n_retries += len(again)
                self._connect_again()
            elif isinstance(completed.error, KilledWorker) and not completed.batch.alone:
                suspects += completed.batch.split()
                self._n_retries += 1
            else:
                stalled.clear()
                yield completed.batch, completed.value, _explain_loss(completed.error)

    def _n_allowed(self, n_parts: int) -> int:
        """Return how many batches may be in flight for the current number of threads."""
        if monotonic() - self._counted_at > 2.0:  # seconds between counts of the workers
            self._counted_at = monotonic()
            with suppress(OSError):  # the scheduler is lost, which the next result shows
                self._n_threads = self.n_workers
        room = -(-self._window * self._n_threads // n_parts)
        return room + (n_parts > 1)  # one is finished while others are counted

    def _restart(self) -> None:
        """Restart the workers, which may hang."""
        try:
            self._client.restart(wait_for_workers=False, timeout=30)
        except Exception as error:
            raise ClusterError(f"the workers hang and could not be restarted: {error}") from None

    def _connect_again(self) -> None:
        """Reconnect after the scheduler was lost; raise ClusterError if that fails."""
        lost = "the scheduler was lost; finished work is kept: run it again to resume it"
        if self._reconnect is None:
            raise ClusterError(lost)
        try:
            self._client = self._reconnect()
        except OSError as error:
            raise ClusterError(f"{lost} ({error})") from None


def _explain_loss(error: BaseException | None) -> BaseException | None:
    if not isinstance(error, KilledWorker):
        return error
    n_lost = error.allowed_failures + 1
    return WorkerLostError(
        f"{n_lost} workers died while running it, each with no other work: the usual cause is too "
        "little memory; give workers more, or choose smaller groups"
    )
