"""Stages of a study: tasks, the pure function of a task, and how its result is kept."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic

from clusterscale.foreign import guard_function
from clusterscale.storage.result_table import TableStore
from clusterscale.study.execution import Executor, Finished, R, Reduction, T, Write, settle


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage has come.

    Attributes
    ----------
    stage
        Name of the stage.
    n_tasks, n_done, n_failed
        Tasks in all, those done (perhaps by an earlier run), and those failed.
    n_merging
        Merges of files of results for which the stage waits.
    """

    stage: str
    n_tasks: int
    n_done: int = 0
    n_failed: int = 0
    n_merging: int = 0


Tell = Callable[[Progress], None]


def prefixed(tell: Tell, name: str) -> Tell:
    """Return a function that reports the progress of one of several studies.

    Parameters
    ----------
    tell
        Is called with the progress.
    name
        Name of the study.

    Returns
    -------
    Callable[[Progress], None]
        Calls ``tell`` with the stage ``name: stage``.
    """
    return lambda now: tell(replace(now, stage=f"{name}: {now.stage}"))


def _merging(tell: Tell, now: Progress) -> Tell:
    """Return a function that reports ``now`` with the merges that are left."""
    return lambda merges: tell(replace(now, n_merging=merges.n_tasks - merges.n_done))


def _of_part(function: Callable[[T], R], part: tuple[str, T]) -> R:
    return function(part[1])


@dataclass(frozen=True, slots=True, eq=False)
class Stage(Generic[T, R]):
    """One stage of a study.

    Attributes
    ----------
    name
        Name for progress and status.
    function
        Pure function of a task. One of another package is called in the guarded form.
    tasks
        Tasks that are left, drawn as they are needed.
    keep
        Keeps a batch of finished tasks; when it returns, their results are durable. It may return
        another stage, to be run before this one goes on.
    write
        Keeps a batch where it ran, also its errors, if given; its receipt takes the place of the
        values, and ``keep`` only notes it.
    n_tasks, n_done
        Weight of all tasks, and of those that an earlier run has done.
    weigh
        Weight of a task in the progress; 1 by default.
    by_parts
        Whether ``function`` returns the :class:`Reduction` of a task instead of its result; its
        parts run on several workers.
    keeps_errors
        Whether ``keep`` records failed tasks. If not, the first error is raised once all other
        tasks of the stage are done.
    urgent
        Whether its tasks run before those of another stage that wait.
    """

    name: str
    function: Callable[[T], Any]
    tasks: Iterable[T]
    keep: Callable[[Sequence[Finished[T, Any]]], "Stage[Any, Any] | None"]
    n_tasks: int
    n_done: int = 0
    weigh: Callable[[T], int] = lambda task: 1
    write: Write[T, R] | None = None
    by_parts: bool = False
    keeps_errors: bool = False
    urgent: bool = False

    @classmethod
    def fill(
        cls,
        name: str,
        function: Callable[[T], R],
        tasks: Mapping[str, T],
        store: TableStore,
        write: Callable[[T, R], None],
    ) -> "Stage[tuple[str, T], R]":
        """Return a stage that fills a table part by part.

        Parameters
        ----------
        name, function
            As the attributes.
        tasks
            The task of each part, by the name of the part.
        store
            The table; parts that it has are not computed again.
        write
            Writes the result of a task to the table.
        """
        left = [part for part in tasks.items() if part[0] not in store.done()]

        def keep(part: tuple[str, T], value: R) -> None:
            write(part[1], value)
            store.mark_done(part[0])

        n_tasks, of_part = len(tasks), partial(_of_part, guard_function(function))
        return Stage(name, of_part, left, each(keep), n_tasks, n_tasks - len(left))

    def run(self, executor: Executor, tell: Tell) -> None:
        """Run the tasks that are left and keep each result.

        Raises
        ------
        Exception
            The first error of a task when all others are done, unless errors are kept.
        """
        n_done, n_failed, n_run, errors = self.n_done, 0, 0, list[BaseException]()
        tell(Progress(self.name, self.n_tasks, n_done))
        for batch in self._batches(executor):
            well = [finished for finished in batch if finished.error is None]
            failed = [finished for finished in batch if finished.error is not None]
            if (between := self.keep(batch if self.keeps_errors else well)) is not None:
                now = Progress(self.name, self.n_tasks, n_done, n_failed)
                between.run(executor, _merging(tell, now))
            n_done += sum(self.weigh(finished.item) for finished in well)
            n_failed += sum(self.weigh(finished.item) for finished in failed)
            n_run += len(batch)
            errors += [finished.error for finished in failed if finished.error is not None]
            tell(Progress(self.name, self.n_tasks, n_done, n_failed))
        if errors and not self.keeps_errors:
            errors[0].add_note(
                f"{len(errors)} of {n_run} tasks of stage {self.name} failed; the others "
                "are kept, and the same command resumes with those that are left"
            )
            raise errors[0]

    def _batches(self, executor: Executor) -> Iterator[Sequence[Finished[T, Any]]]:
        if self.by_parts:
            for finished in executor.map_reductions(map(self._reduction, self.tasks)):
                yield self._write_lost([settle(finished)])
            return
        n_left = self.n_tasks - self.n_done
        for batch in executor.map_batches(
            guard_function(self.function),
            self.tasks,
            write=self.write,
            n_items=n_left,
            urgent=self.urgent,
        ):
            yield self._write_lost(batch)

    def _reduction(self, task: T) -> Reduction[T, Any, Any, Any]:
        made: Reduction[T, Any, Any, Any] = guard_function(self.function)(task)
        reduction = replace(
            made,
            function=guard_function(made.function),
            combine=guard_function(made.combine),
            finish=guard_function(made.finish),
        )
        if self.write is None:
            return reduction
        return replace(reduction, finish=partial(_finish_written, reduction.finish, self.write))

    def _write_lost(self, batch: Sequence[Finished[T, Any]]) -> Sequence[Finished[T, Any]]:
        """Return a batch in which the errors of tasks without a receipt are written."""
        if self.write is None:
            return list(map(settle, batch))
        if all(finished.value is not None for finished in batch):
            return batch
        receipt = self.write(batch)
        return [replace(finished, value=receipt) for finished in batch]


def _finish_written(finish: Callable[[T, Any], R], write: Write[T, R], item: T, total: Any) -> Any:
    finished = settle(Finished(item, finish(item, total)))
    if finished.error is not None:
        raise finished.error
    return write([finished])


def each(keep: Callable[[T, R], None]) -> Callable[[Sequence[Finished[T, R]]], None]:
    """Return a function that keeps a batch of results one by one.

    Parameters
    ----------
    keep
        Is called with each task and its result.

    Returns
    -------
    Callable[[Sequence[Finished]], None]
        As :class:`Stage` takes it.
    """

    def keep_batch(batch: Sequence[Finished[T, R]]) -> None:
        for finished in batch:
            keep(finished.item, finished.value)  # type: ignore[arg-type]

    return keep_batch
