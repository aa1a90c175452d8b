"""Faults to inject: work that ends its worker, eats its memory, hangs, or only does so once.

Functions travel to workers by value, for the tests are not installed there.
"""

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

    def map_batches(self, function, items):
        return self._executor.map_batches(partial(work, self._harm, self._bad, function), items)


class Losing:
    """An executor that loses something by ``lose`` once three batches are finished."""

    def __init__(self, executor, lose):
        self._executor, self._lose = executor, lose

    def __getattr__(self, name):
        return getattr(self._executor, name)

    def map_batches(self, function, items):
        for i, batch in enumerate(self._executor.map_batches(function, items)):
            yield batch
            if i == 2:
                self._lose()


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


def eat_memory():
    kept = []
    while True:
        kept.append(os.urandom(20_000_000))


def leave_with_nanny(marker):
    """End the process that looks after this worker, and the worker with it: a node is lost."""

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
