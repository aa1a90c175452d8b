"""How work is handed to whatever runs it, and comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeVar

__all__ = ["MEMORY", "Executor", "Finished", "Reduction", "WorkerCount", "drain"]

MEMORY = 2 * 10**9
"""Bytes that a worker may use where nothing else is said."""

T = TypeVar("T")
P = TypeVar("P")
S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Finished(Generic[T, R]):
    """An item that an executor is done with: its value, or the error that ended it.

    ``traceback`` is where the error came from, as text, empty where that is not known.
    """

    item: T
    value: R | None = None
    error: BaseException | None = None
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Reduction(Generic[T, P, S, R]):
    """One item whose work outgrows a worker: done in parts, summed, and finished in one place.

    Attributes
    ----------
    item
        What it is about.
    parts
        What :attr:`function` takes, one after the other. The same place in any fold is the same
        part of the data, so an executor sends it where that may still be in memory.
    function, combine
        Pure; ``combine`` adds two results, of neighbours in their order. It must be associative to
        the bit, as adding whole numbers is, so that it is no matter which are added first.
    finish
        Takes the item and the sum of all parts.
    """

    item: T
    parts: tuple[P, ...]
    function: Callable[[P], S]
    combine: Callable[[S, S], S]
    finish: Callable[[T, S], R]


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """Who is at work just now: processes, and their threads."""

    n_workers: int
    n_threads: int


class Executor(Protocol):
    """Runs a pure function over many items, anywhere."""

    @property
    def n_workers(self) -> int:
        """How many items run at once."""

    @property
    def dashboard(self) -> str | None:
        """Where the work can be watched in a browser, None where it cannot."""

    def crew(self) -> WorkerCount | None:
        """Return who is at work, None where that cannot be told now; from any thread, in no time.

        For whoever watches: nothing that is computed depends on it.
        """

    def preflight(self, probe: Callable[[], object]) -> None:
        """Make sure, before anything runs, that every worker can do the work.

        ``probe`` is called on each and raises where something is wrong, such as a cube that cannot
        be read from there.

        Raises
        ------
        ClusterError
            If a worker differs from this process in what matters, or its probe failed; one message
            for all.
        """

    def map_batches(
        self, function: Callable[[T], R], items: Iterable[T]
    ) -> Iterator[Sequence[Finished[T, R]]]:
        """Yield items as they finish, in any order, a batch at a time; errors are never raised.

        Items are drawn as they are needed, and how many form a batch is up to the executor.
        """

    def map_folds(self, folds: Iterable[Reduction[T, P, S, R]]) -> Iterator[Finished[T, R]]:
        """Yield the item of each fold as it finishes, in any order; errors are never raised."""

    def reduce(
        self, function: Callable[[T], R], items: Iterable[T], combine: Callable[[R, R], R]
    ) -> R:
        """Combine the values of all items, in order; ``combine`` as for a :class:`Reduction`."""


def drain(
    executor: Executor, function: Callable[[T], R], items: Sequence[T], *, failed: str
) -> Iterator[tuple[T, R]]:
    """Yield every item and its value as they finish; only then say what has failed.

    ``failed`` ends the sentence that is added to the error: "2 of 9 …".

    Raises
    ------
    Exception
        The first error of an item, when all others are done.
    """
    errors = []
    for each in chain.from_iterable(executor.map_batches(function, items)):
        if each.value is None:
            errors.append(each.error or RuntimeError("an item came back empty"))
        else:
            yield each.item, each.value
    if errors:
        errors[0].add_note(f"{len(errors)} of {len(items)} {failed}")
        raise errors[0]
