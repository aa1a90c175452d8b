"""Write the status of a run from a separate thread, so that the work is not delayed."""

import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread
from time import monotonic, time
from typing import Any, Literal, Self

from clusterscale.redaction import clean
from clusterscale.runtime.status import BEAT, ProcessId, Stage, Status, status_uri
from clusterscale.storage import put
from clusterscale.study.execution import Executor

Ending = tuple[Literal["running", "finished", "failed", "interrupted"], str]

_LAST = 10.0  # seconds that the last write may take: a hanging store must not delay the end
_WINDOW = 60.0  # seconds over which the rate is computed,
_FEW = 8  # or this number of results if they take longer
_SIGNALLED = 128


class Pace:
    """Recent results per second: over the last minute, or the last eight results if longer."""

    def __init__(self, now: float, n: int) -> None:
        self._marks, self._n = deque([(now, n)]), n

    def add(self, now: float, n: int) -> None:
        """Record that there are ``n`` results."""
        if n > self._n and now - self._marks[-1][0] >= 1.0:  # minimal seconds between two marks
            self._marks.append((now, n))
        self._n = n
        while len(self._marks) > 1:
            then, before = self._marks[1]
            if now - then < _WINDOW or n - before < _FEW:
                return
            self._marks.popleft()

    def rate(self, now: float) -> float | None:
        """Return results per second, None before the first result."""
        then, before = self._marks[0]
        return (self._n - before) / (now - then) if self._n > before and now > then else None


@dataclass(slots=True)
class _StageProgress:
    """Last reported progress of a stage, and its seconds until the last change of stage."""

    n_total: int
    n_done: int
    n_failed: int
    n_before: int
    pace: Pace
    seconds: float = 0.0


class StatusWriter:
    """Writes the status of a run, from the first :meth:`update` to the end of the context.

    Nothing is written before, in case the folder belongs to another run. A thread writes the file
    at every change of stage, at most every two seconds (``pause``) otherwise, and at least every
    ten (``beat``), by the monotonic ``clock``. An error of writing is reported once, to ``warn``,
    and does not affect the run. ``work`` names the kind of run, and ``cluster`` the name and
    settings of the cluster.
    """

    def __init__(
        self,
        folder: str,
        work: str,
        *,
        cluster: str = "",
        warn: Callable[[str], None] = lambda message: None,
        beat: float = BEAT,
        pause: float = 2.0,  # minimal seconds between two writes, except at a change of stage
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._uri, self._work, self._cluster = status_uri(folder, work), work, clean(cluster)
        self._warn, self._beat, self._pause = warn, beat, pause
        self._lock, self._query_lock = Lock(), Lock()
        self._wake, self._thread = Event(), Thread(target=self._run, name="status", daemon=True)
        self._executor: Executor | None = None
        self._dashboard = ""
        self._stages: dict[str, _StageProgress] = {}
        self._stage, self._since = "", 0.0
        self._ending: Ending = "running", ""
        self._number, self._changed, self._warned = 0, False, False
        self._clock = clock
        self._began, self._opened = time(), clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._stages:
            return
        with self._lock:
            self._ending = _end(error)
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_LAST)

    @contextmanager
    def show_workers_of(self, executor: Executor) -> Iterator[None]:
        """Report the workers and the dashboard of ``executor`` within the context."""
        self._executor, self._dashboard = executor, clean(executor.dashboard or "")
        try:
            yield
        finally:
            with self._query_lock:  # a cluster that is being closed must not be queried
                self._executor, self._dashboard = None, ""

    def update(self, name: str, n_total: int, n_done: int, n_failed: int = 0) -> None:
        """Record the progress of a stage in tasks or rows; the thread writes it later."""
        now, n_ended = self._clock(), n_done + n_failed
        first = not self._stages
        with self._lock:
            if entered := name != self._stage:
                if not first:
                    self._stages[self._stage].seconds += now - self._since
                self._stage, self._since = name, now
            progress = self._stages.setdefault(
                name, _StageProgress(n_total, n_done, n_failed, n_ended, Pace(now, n_ended))
            )
            more = n_ended - progress.n_done - progress.n_failed
            if more < 0 or (entered and more):  # started again, or continued after another stage
                progress.n_before = n_ended if more < 0 else progress.n_before + more
                progress.pace = Pace(now, n_ended)
            progress.n_total, progress.n_done, progress.n_failed = n_total, n_done, n_failed
            progress.pace.add(now, n_ended)
            self._changed = True
        if entered:
            self._wake.set()
        if first:
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
            over = self._ending[0] != "running"
            if urgent or self._changed or self._clock() - written >= self._beat:
                self._write()
                written = self._clock()
            if over:
                return

    def _write(self) -> None:
        try:
            put(self._uri, self._status().model_dump_json(indent=1).encode())
        except Exception as error:  # the run does not depend on it
            self._warn_once(error)

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            self._warn(clean(f"the status of the run cannot be written: {error}"))

    def _status(self) -> Status:
        with self._query_lock:
            count = self._executor.count_workers() if self._executor is not None else None
        with self._lock:
            now = self._clock()
            self._changed = False
            self._number += 1
            state, reason = self._ending
            process = ProcessId.current()
            return Status(
                work=self._work,
                state=state,
                reason=reason,
                cluster=self._cluster,
                driver=f"{process.host}, process {process.pid}",
                process=process,
                dashboard=self._dashboard,
                n_workers=count.n_workers if count else None,
                n_threads=count.n_threads if count else None,
                began=self._began,
                told=time(),
                elapsed=now - self._opened,
                beat=self._beat,
                number=self._number,
                stage=self._stage,
                rate=self._stages[self._stage].pace.rate(now),
                stages=tuple(
                    self._stage_of(name, progress, now) for name, progress in self._stages.items()
                ),
            )

    def _stage_of(self, name: str, progress: _StageProgress, now: float) -> Stage:
        counts = ("n_total", "n_done", "n_failed", "n_before")
        stated: dict[str, Any] = {count: int(getattr(progress, count)) for count in counts}
        since = now - self._since if name == self._stage else 0.0
        return Stage(name=name, seconds=progress.seconds + since, **stated)


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
