"""Say how far a run is, while it runs: from a thread of its own, so that it slows nothing."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread
from time import monotonic, time
from types import TracebackType
from typing import Literal, Self

from clusterscale.contracts import Executor
from clusterscale.redaction import clean
from clusterscale.runtime.process import ProcessId
from clusterscale.runtime.status import BEAT, Stage, Status, place_of
from clusterscale.storage import put

__all__ = ["Beacon", "Pace"]

Ending = tuple[Literal["running", "finished", "failed", "interrupted"], str]

_PAUSE = 2.0  # seconds between two writes, but for a change of stage
_LAST = 10.0  # seconds that the last write may take: a store that hangs must not hold the end
_WINDOW = 60.0  # seconds that count as of late,
_FEW = 8  # or as many results, where these take longer
_GRAIN = 1.0
_SIGNALLED = 128


class Pace:
    """How many results come in a second, of late: over a minute, or the last eight results."""

    def __init__(self, now: float, n: int) -> None:
        self._marks, self._n = deque([(now, n)]), n

    def add(self, now: float, n: int) -> None:
        """Take note that ``n`` are there."""
        if n > self._n and now - self._marks[-1][0] >= _GRAIN:
            self._marks.append((now, n))
        self._n = n
        while len(self._marks) > 1:
            then, before = self._marks[1]
            if now - then < _WINDOW or n - before < _FEW:
                return
            self._marks.popleft()

    def rate(self, now: float) -> float | None:
        """Return results a second, None while there are none."""
        then, before = self._marks[0]
        return (self._n - before) / (now - then) if self._n > before and now > then else None


@dataclass(slots=True)
class _Going:
    """A stage as it goes: what was last told of it, and how long it took until it was left."""

    n_total: int
    n_done: int
    n_failed: int
    n_before: int
    pace: Pace
    seconds: float = 0.0


class Beacon:
    """Says how far the work in a folder is, from the first :meth:`tell` to the end of the block.

    Before that nothing is written: a folder that turns out to be another's is left alone. The
    file is written by a thread, at most every two seconds and at every change of stage, and at
    least every ten. Whatever goes wrong with that is told once and changes nothing else.

    Parameters
    ----------
    folder
        Of the run, a local path or fsspec URL.
    work
        ``audit``, ``screen`` or ``recovery``.
    cluster
        Its name and settings, in words.
    warn
        Called at most once, with why nothing can be written.
    beat, pause
        Seconds between two writes, at most and at least.
    clock
        Seconds of a clock that never goes back: beats and the durations in the status use it.
    """

    def __init__(
        self,
        folder: str,
        work: str,
        *,
        cluster: str = "",
        warn: Callable[[str], None] = lambda message: None,
        beat: float = BEAT,
        pause: float = _PAUSE,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._uri, self._work, self._cluster = place_of(folder, work), work, clean(cluster)
        self._warn, self._beat, self._pause = warn, beat, pause
        self._lock, self._asking = Lock(), Lock()
        self._wake, self._thread = Event(), Thread(target=self._shine, name="status", daemon=True)
        self._executor: Executor | None = None
        self._dashboard = ""
        self._stages: dict[str, _Going] = {}
        self._stage, self._since = "", 0.0
        self._ending: Ending = "running", ""
        self._number, self._changed, self._warned = 0, False, False
        self._clock = clock
        self._began, self._opened = time(), clock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._stages:
            return
        with self._lock:
            self._ending = _end(error)
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_LAST)

    @contextmanager
    def seeing(self, executor: Executor) -> Iterator[None]:
        """Tell of the workers of ``executor`` within the block, and of its dashboard."""
        self._executor, self._dashboard = executor, clean(executor.dashboard or "")
        try:
            yield
        finally:
            with self._asking:  # nobody asks a cluster that is being closed
                self._executor, self._dashboard = None, ""

    def tell(self, name: str, n_total: int, n_done: int, n_failed: int = 0) -> None:
        """Take note of how far a stage is: tasks or rows; nothing is written here."""
        now, n_ended = self._clock(), n_done + n_failed
        first = not self._stages
        with self._lock:
            if entered := name != self._stage:
                if not first:
                    self._stages[self._stage].seconds += now - self._since
                self._stage, self._since = name, now
            going = self._stages.setdefault(
                name, _Going(n_total, n_done, n_failed, n_ended, Pace(now, n_ended))
            )
            more = n_ended - going.n_done - going.n_failed
            if more < 0 or (entered and more):  # begun again, or continued after another stage
                going.n_before = n_ended if more < 0 else going.n_before + more
                going.pace = Pace(now, n_ended)
            going.n_total, going.n_done, going.n_failed = n_total, n_done, n_failed
            going.pace.add(now, n_ended)
            self._changed = True
        if entered:
            self._wake.set()
        if first:
            try:
                self._thread.start()
            except RuntimeError as error:  # this process may have no more of them
                self._complain(error)

    def _shine(self) -> None:
        """Write what is new, until the end was written."""
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
        except Exception as error:  # nobody's work depends on it
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            self._warn(clean(f"how far the work is cannot be told: {error}"))

    def _status(self) -> Status:
        with self._asking:
            crew = self._executor.crew() if self._executor is not None else None
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
                n_workers=crew.n_workers if crew else None,
                n_threads=crew.n_threads if crew else None,
                began=self._began,
                told=time(),
                elapsed=now - self._opened,
                beat=self._beat,
                number=self._number,
                stage=self._stage,
                rate=self._stages[self._stage].pace.rate(now),
                stages=tuple(self._told(name, going, now) for name, going in self._stages.items()),
            )

    def _told(self, name: str, going: _Going, now: float) -> Stage:
        return Stage(
            name=name,
            n_total=int(going.n_total),
            n_done=int(going.n_done),
            n_failed=int(going.n_failed),
            n_before=int(going.n_before),
            seconds=going.seconds + (now - self._since if name == self._stage else 0.0),
        )


def _end(error: BaseException | None) -> Ending:
    """Return how work ended, by the class of what ended it: messages may tell of a person."""
    if error is None:
        return "finished", ""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", signal.SIGINT.name
    code = error.code if isinstance(error, SystemExit) else None
    if isinstance(code, int) and code - _SIGNALLED in signal.valid_signals():
        return "interrupted", signal.Signals(code - _SIGNALLED).name
    return "failed", type(error).__name__
