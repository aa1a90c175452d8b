"""The Executor protocol, and the items and results it exchanges."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from traceback import format_exc
from typing import Any, Generic, Protocol, TypeVar

from clusterscale.errors import SHARED_ERRORS, PartialResultError, PluginError
from clusterscale.redaction import clean

MEMORY = 2 * 10**9
"""Bytes that a worker may use by default."""

BATCH_SECONDS = 1.0
"""Shortest target duration of a batch: a thousand times the cost of scheduling or writing one."""


def batch_seconds(n_threads: int) -> float:
    """Return how long a batch of tasks should take, in seconds.

    On many threads batches take longer, since one process hears of all of them.
    """
    return max(BATCH_SECONDS, n_threads / 50)  # that finish, however many threads there are


T = TypeVar("T")
P = TypeVar("P")
S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Finished(Generic[T, R]):
    """A finished item: its value, or the error that ended it.

    ``traceback`` is the traceback of the error as text, empty if unknown.
    """

    item: T
    value: R | None = None
    error: BaseException | None = None
    traceback: str = ""


def settle(finished: Finished[T, R]) -> Finished[T, R]:
    """Return a finished item, as failed if it returned nothing or tried to end the program."""
    error = finished.error
    if finished.value is None and error is None:
        return replace(finished, error=RuntimeError("the task returned nothing"))
    if isinstance(error, SystemExit):
        ended = f"a task tried to end the program (SystemExit: {error.code})"
        return replace(finished, error=PluginError(f"{ended}: it must raise an error instead"))
    return finished


def describe_error(error: BaseException) -> str:
    """Return an error in one line, without secrets."""
    return clean(f"{type(error).__name__}: {error}")


@dataclass(slots=True)
class Failures:
    """The parts of a task that failed: the error of each, and the traceback of the first."""

    errors: dict[tuple[str, ...], str] = field(default_factory=dict)
    traceback: str = ""

    @contextmanager
    def note(self, parts: Sequence[tuple[str, ...]]) -> Iterator[None]:
        """Note an error for the part whose last name it has as ``part``, else for all ``parts``.

        Errors of what all parts of a task use pass through.
        """
        try:
            yield
        except SHARED_ERRORS:
            raise
        except Exception as error:
            name = getattr(error, "part", None)
            failed = [part for part in parts if part[-1] == name] or parts
            self.errors |= dict.fromkeys(failed, describe_error(error))
            self.traceback = self.traceback or format_exc()

    def raise_any(self, result: object) -> None:
        """Raise PartialResultError with the result of the task, if any part of it failed."""
        if self.errors:
            first, text = next(iter(self.errors.items()))
            more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
            error = PartialResultError(f"{', '.join(first)}: {text}{more}")
            error.result = result
            error.add_note(self.traceback)
            raise error


Write = Callable[[Sequence[Finished[T, R]]], Any]
"""Keeps the results of a batch where it ran, and returns a receipt, such as the file."""


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A task, and the first user to count for it and the one after the last."""

    task: T
    users: tuple[int, int]


def _keep_total(item: object, total: Any) -> Any:
    return total


@dataclass(frozen=True, slots=True)
class Reduction(Generic[T, P, S, R]):
    """One item too large for a single worker: computed in parts, combined, and finished once.

    Attributes
    ----------
    item
        The item to compute.
    parts
        Arguments of :attr:`function`, in order. The same index in any reduction is the same
        part of the data, so an executor sends it to a worker that may still have it in memory.
    function, combine
        Pure; ``combine`` adds the results of two neighbours, in order. It must be bitwise
        associative, as integer addition is, so that the grouping does not matter.
    finish
        Takes the item and the combined result of all parts, which it returns by default.
    """

    item: T
    parts: tuple[P, ...]
    function: Callable[[P], S]
    combine: Callable[[S, S], S]
    finish: Callable[[T, S], R] = _keep_total


@dataclass(frozen=True, slots=True)
class WorkerCount:
    """Workers, those that are lost, batches sent again, and the most bytes that a worker used."""

    n_workers: int
    n_lost: int = 0
    n_retries: int = 0
    memory: int | None = None


class Executor(Protocol):
    """Runs a pure function over many items, anywhere."""

    @property
    def n_workers(self) -> int:
        """Number of items that run at once."""

    @property
    def dashboard(self) -> str | None:
        """URL of a dashboard that shows the work, None if there is none."""

    def count_workers(self) -> WorkerCount | None:
        """Return the current workers, None if unknown; callable from any thread, without delay.

        For progress display only; no result depends on it.
        """

    def preflight(self, probe: Callable[[], object]) -> None:
        """Check, before anything runs, that every worker can do the work.

        ``probe`` is called on each worker and raises if something is wrong, such as a cube that
        the worker cannot read.

        Raises
        ------
        ClusterError
            If a worker's environment differs from this process in a way that matters, or its probe
            fails; one message covers all workers.
        """

    def map_batches(
        self,
        function: Callable[[T], R],
        items: Iterable[T],
        *,
        write: Write[T, R] | None = None,
        n_items: int = 0,
        urgent: bool = False,
    ) -> Iterator[Sequence[Finished[T, Any]]]:
        """Yield items as they finish, in any order, a batch at a time; their errors are not raised.

        Items are taken from the iterable as needed; the executor chooses the batch size. There are
        at most ``n_items``, 0 if that is unknown; ``urgent`` ones run before others that wait.

        ``write`` is called with each batch where it ran. What it returns takes the place of the
        values of all items of the batch, so that results need not pass through this process; its
        errors are raised.
        """

    def map_reductions(
        self, reductions: Iterable[Reduction[T, P, S, R]]
    ) -> Iterator[Finished[T, R]]:
        """Yield the item of each reduction as it finishes; otherwise as :meth:`map_batches`."""
