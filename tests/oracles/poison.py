"""Faults to inject: work that ends its worker, fills its memory, hangs, or only does so once.

Functions are pickled by value, because the tests are not installed on the workers.
"""

import fcntl
import os
import signal
import sys
import time
import weakref
from functools import partial
from pathlib import Path

import cloudpickle

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Poisoned:
    """An executor on which ``harm`` is done to items that ``bad`` picks, before their work."""

    def __init__(self, executor, harm, bad):
        self._executor, self._harm, self._bad = executor, harm, bad

    def __getattr__(self, name):
        return getattr(self._executor, name)

    def map_batches(self, function, items, **options):
        return self._executor.map_batches(
            partial(work, self._harm, self._bad, function), items, **options
        )


class Losing:
    """An executor that calls ``lose`` when so many batches have been handed out."""

    def __init__(self, executor, lose, after=2):
        self._executor, self._lose, self._after = executor, lose, after

    def __getattr__(self, name):
        return getattr(self._executor, name)

    def map_batches(self, function, items, **options):
        for n_before, batch in enumerate(self._executor.map_batches(function, items, **options), 1):
            yield batch
            if n_before == self._after:
                self._lose()


class HangClock:
    """A clock that stands still except while a task hangs in :func:`hang_with_lock`.

    Each reading then adds ``step`` seconds. A task that only takes long never exceeds a limit
    measured by this clock, on a machine of any speed.
    """

    def __init__(self, lock, step):
        self._lock, self._step, self._now = lock, step, 0.0

    def __call__(self):
        if self._is_held():
            self._now += self._step
        return self._now

    def _is_held(self):
        with open(self._lock, "ab") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def work(harm, bad, function, item):
    if bad(item):
        harm()
    return function(item)


def is_target(target, item):
    return getattr(item, "target", None) == target


def after(seconds, item):
    time.sleep(seconds)
    return item


def wait(seconds):
    time.sleep(seconds)
    return seconds


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(marker):
    once(marker, die)


def hang():
    time.sleep(1e6)


def hang_with_lock(lock):
    """Hang with a lock on a file; the kernel releases it when this process ends."""
    stream = open(lock, "ab")  # noqa: SIM115
    fcntl.flock(stream, fcntl.LOCK_EX)
    hang()


def fill_memory(n_bytes):
    """Write to so many bytes, more than the worker may use, and wait to be killed for it."""
    kept = b"x" * n_bytes
    hang()
    return kept


def leave_with_nanny(marker):
    """Kill the nanny of this worker and the worker itself, as when a node is lost."""

    def end():
        nanny = os.getppid()
        os.kill(nanny, signal.SIGKILL)
        die()

    once(marker, end)


def once(marker, harm):
    path = Path(marker)
    if not path.exists():
        path.touch()
        harm()


def leave_gracefully(first, may_all, item):
    """Let a worker end as at the end of its lifetime, while it runs this task.

    Only workers in ``first`` do so: the first of them at once, the others when the file ``may_all``
    exists. The task goes on when its worker is closing.
    """
    from distributed import Status, get_worker

    worker = get_worker()
    leaves = worker.address == first[0] or (worker.address in first and Path(may_all).exists())
    if leaves:
        if worker.status is Status.running:
            worker.loop.add_callback(worker.close_gracefully)
        while worker.status is Status.running:
            time.sleep(0.01)
    return item


class Tracked:
    """A result that knows how many of its kind were alive in this process at once."""

    def __init__(self, *made_of):
        alive = vars(sys).setdefault("alive_in_tests", weakref.WeakSet())
        alive.add(self)
        self.most = max(len(alive), *(each.most for each in made_of), 0)


def track(part):
    return Tracked()


def track_sum(left, right):
    return Tracked(left, right)


def most_alive(item, total):
    return total.most


def list_callbacks(dask_worker):
    return sorted(dask_worker.periodic_callbacks)


def list_variables():
    return dict(os.environ)


def square_after(marker, number):
    """Return the square; of any number but 0 once the file ``marker`` exists."""
    while number and not Path(marker).exists():
        time.sleep(0.01)
    return number**2
