"""Write the status of a run from a separate thread, so that the work is not delayed."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Literal, Self

from clusterscale.redaction import clean
from clusterscale.runtime.status import BEAT, ProcessId, Status, printable, status_uri
from clusterscale.storage import put
from clusterscale.storage.process import find_peak_memory
from clusterscale.study.execution import Executor, WorkerCount

Ending = tuple[Literal["running", "finished", "failed", "interrupted"], str]

_LAST = 10.0  # seconds that the last write may take: a hanging store must not delay the end
_SIGNALLED = 128


class StatusWriter:
    """Writes the status of a run, from the first :meth:`update` to the end of the context.

    Nothing is written before, in case the folder belongs to another run. A thread writes the file
    at every change of stage, at most every two seconds (``pause``) otherwise, and at least every
    ten (``beat``), by the monotonic ``clock``. An error of writing is reported once, to ``warn``,
    and does not affect the run. ``work`` names the kind of run.
    """

    def __init__(
        self,
        folder: str,
        work: str,
        *,
        warn: Callable[[str], None] = lambda message: None,
        beat: float = BEAT,
        pause: float = 2.0,  # minimal seconds between two writes, except at a change of stage
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._uri, self._work = status_uri(folder, work), work
        self._warn, self._beat, self._pause = warn, beat, pause
        self._lock, self._query_lock = Lock(), Lock()
        self._wake, self._thread = Event(), Thread(target=self._run, name="status", daemon=True)
        self._executor: Executor | None = None
        self._workers: WorkerCount | None = None
        self._asked = -float("inf")  # when the workers were counted, by the clock
        self._status: Status | None = None
        self._failed: dict[str, int] = {}  # by stage
        self._changed, self._warned = False, False
        self._clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._status is None:
            return
        with self._lock:
            state, reason = _end(error)
            self._status = self._status.model_copy(update={"state": state, "reason": reason})
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_LAST)

    @contextmanager
    def show_workers_of(self, executor: Executor) -> Iterator[None]:
        """Report the workers of ``executor`` within the context."""
        self._executor = executor
        try:
            yield
        finally:
            with self._query_lock:  # a cluster that is being closed must not be queried
                self._executor = None

    def update(
        self, stage: str, n_tasks: int, n_done: int, n_failed: int = 0, n_merging: int = 0
    ) -> None:
        """Record the progress of a stage in tasks or rows; the thread writes it later."""
        now, stage = time(), printable(stage)
        with self._lock:
            last = self._status
            entered = last is None or last.stage != stage
            self._failed[stage] = int(n_failed)
            self._status = Status(
                work=self._work,
                state="running",
                stage=stage,
                n_tasks=int(n_tasks),
                n_done=int(n_done),
                n_failed=sum(self._failed.values()),
                n_before=int(n_done) if last is None or entered else last.n_before,
                n_merging=n_merging,
                began=now if last is None else last.began,
                since=now if last is None or entered else last.since,
                told=now,
                beat=self._beat,
                process=ProcessId.current() if last is None else last.process,
            )
            self._changed = True
        if entered:
            self._wake.set()
        if last is None:
            try:
                self._thread.start()
            except RuntimeError as error:  # the process may not start more threads
                self._warn_once(error)

    def _run(self) -> None:
        """Write changes until the final status is written."""
        written = -float("inf")
        while True:
            urgent = self._wake.wait(self._pause)
            self._wake.clear()
            over = self._status is not None and self._status.state != "running"
            if urgent or self._changed or self._clock() - written >= self._beat:
                self._write()
                written = self._clock()
            if over:
                return

    def _write(self) -> None:
        try:
            put(self._uri, self._current().model_dump_json().encode())
        except Exception as error:  # the run does not depend on it
            self._warn_once(error)

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            self._warn(clean(f"the status of the run cannot be written: {error}"))

    def _current(self) -> Status:
        """Return the status to write, with the workers as they were counted within a beat."""
        with self._query_lock:
            workers = None
            if self._executor is not None:
                if self._clock() - self._asked >= self._beat:
                    self._asked, counted = self._clock(), self._executor.count_workers()
                    self._workers = counted or self._workers
                workers = self._workers
        last = self._workers or WorkerCount(0)
        with self._lock:
            self._changed = False
            assert self._status is not None
            return self._status.model_copy(
                update={
                    "told": time(),
                    "n_workers": workers and workers.n_workers,
                    "n_lost_workers": last.n_lost,
                    "n_retries": last.n_retries,
                    "worker_memory": last.memory,
                    "driver_memory": find_peak_memory(),
                }
            )


def _end(error: BaseException | None) -> Ending:
    """Return how work ended, with the error's class only: messages may contain personal data."""
    if error is None:
        return "finished", ""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", signal.SIGINT.name
    code = error.code if isinstance(error, SystemExit) else None
    if isinstance(code, int) and code - _SIGNALLED in signal.valid_signals():
        return "interrupted", signal.Signals(code - _SIGNALLED).name
    return "failed", type(error).__name__
