"""Where the work of a call runs, and how its progress is shown."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from html import escape
from importlib import import_module
from inspect import getdoc, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from rich import progress as bars
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Progress as Bar
from rich.segment import Segment

from clusterscale import study
from clusterscale.errors import InputError
from clusterscale.redaction import without_controls
from clusterscale.study import Analysis, Progress, Stage, Tell
from clusterscale.study.execution import MEMORY, Executor, Finished
from clusterscale.validation_messages import check_kinds

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.cube import TraceCube
    from clusterscale.runtime import Cluster

_BETWEEN, _BETWEEN_LINES = 0.1, 30.0
"""Least seconds between two updates of a bar in a notebook, and between two lines of a log."""


class PlainConsole(Console):
    """A console that shows control characters of data as ``�``, so that no text acts on it."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Yield the segments of a renderable, their text without control characters."""
        for segment in super().render(renderable, options):
            if segment.control:  # of rich itself, such as moves of the cursor
                yield segment
            else:
                yield Segment(without_controls(segment.text), segment.style)


def new_bar(console: Console, *, disable: bool = False) -> Bar:
    """Return a progress bar with counts, elapsed and estimated remaining time.

    Where there is no terminal, it is a line every half minute.
    """
    return (Bar if console.is_terminal else LineBar)(
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        bars.TextColumn("[dim]left[/]"),
        bars.TimeRemainingColumn(),
        console=console,
        disable=disable,
    )


class LineBar(Bar):
    """Progress as lines, for a log."""

    _next = 0.0

    def update(self, task_id: bars.TaskID, *args: Any, **fields: Any) -> None:
        """Note progress, and print it if the last line is not of the last half minute."""
        super().update(task_id, *args, **fields)
        now, task = self.get_time(), self._tasks[task_id]
        self._next = self._next or now + _BETWEEN_LINES
        if self.disable or now < self._next or not task.total:
            return
        self._next = now + _BETWEEN_LINES
        left = "" if task.time_remaining is None else (
            f", {timedelta(seconds=round(task.time_remaining))} left"
        )  # fmt: skip
        done = f"{task.completed:,.0f} of {task.total:,.0f}"
        self.console.print(f"{task.description}: {done}{left}", markup=False)


class NotebookBar(Bar):
    """A progress bar as HTML, which stays in the saved notebook.

    Rich's own bar needs ipywidgets, and warns at each update without them.
    """

    _display: Any = None
    _shown = 0.0

    def start(self) -> None:
        """Show the bar below the cell."""
        from IPython.display import display

        self._display = display(self._lines(), raw=True, display_id=True)

    def stop(self) -> None:
        """Show how far the work has come, and leave the bar there."""
        self.refresh()

    def update(self, task_id: bars.TaskID, *args: Any, **fields: Any) -> None:
        """Note progress, and show it if the last update was not just now."""
        super().update(task_id, *args, **fields)
        if self.get_time() >= self._shown + _BETWEEN:
            self.refresh()

    def refresh(self) -> None:
        """Show the progress."""
        if self._display is not None:
            self._shown = self.get_time()
            self._display.update(self._lines(), raw=True)

    def _lines(self) -> dict[str, str]:
        """Return the bar as HTML, and as text for frontends that show nothing else."""
        shown, texts = [], []
        for task in self.tasks:
            name, state = without_controls(task.description), _describe(task)
            share = f' max="{task.total:g}" value="{task.completed:g}"' if task.total else ""
            shown.append(f"<label>{escape(name)} <progress{share}></progress></label> {state}")
            texts.append(f"{name} {state}")
        return {"text/html": "<br>".join(shown), "text/plain": "\n".join(texts)}


def _describe(task: bars.Task) -> str:
    """Return counts, elapsed and estimated remaining time of the line of a bar."""
    counts = f"{task.completed:,.0f} of {task.total:,.0f}, " if task.total else ""
    remaining = None if task.finished else task.time_remaining
    left = "" if remaining is None else f", {timedelta(seconds=int(remaining))} left"
    return f"{counts}{timedelta(seconds=int(task.elapsed or 0))}{left}"


def teller(bar: Bar, line: bars.TaskID) -> Tell:
    """Return a callback that shows the progress of a study on a line of ``bar``."""

    def tell(now: Progress) -> None:
        n_ended = now.n_done + now.n_failed
        bar.update(line, description=now.stage, total=now.n_tasks, completed=n_ended)

    return tell


@contextmanager
def show_progress(progress: bool | Tell, what: str) -> Iterator[Tell]:
    """Yield a callback for progress.

    Parameters
    ----------
    progress
        True: show a bar in a terminal or notebook, and nothing elsewhere. A function: call it
        instead.
    what
        Description of the bar before anything is reported.
    """
    if callable(progress):
        yield progress
        return
    console = PlainConsole(stderr=True)
    if progress and console.is_jupyter:
        made: Bar = NotebookBar(console=console)
    else:
        made = new_bar(console, disable=not (progress and console.is_terminal))
    with made as bar:
        yield teller(bar, bar.add_task(what, total=None))


@contextmanager
def open_executor(where: Executor | Cluster | None) -> Iterator[tuple[Executor, int]]:
    """Yield an executor, and the bytes that work may use on each worker.

    Parameters
    ----------
    where
        An executor, a cluster, which is opened and closed, or None: this process.

    Raises
    ------
    InputError
        If ``where`` is something else.
    """
    from clusterscale.runtime import SerialExecutor

    given: Any = where
    if given is None:
        yield SerialExecutor(), MEMORY
    elif hasattr(given, "map_batches"):
        yield given, MEMORY
    elif hasattr(given, "open") and hasattr(given, "usable_memory"):
        with given.open() as executor:
            yield executor, given.usable_memory or MEMORY
    else:
        raise InputError(
            f"executor is of type {type(given).__name__}, but should be an executor, a cluster "
            "such as clusterscale.Local(workers=4), or None for this process"
        )


@contextmanager
def open_map(
    where: Executor | Cluster | None, progress: bool | Tell, what: str
) -> Iterator[Callable[[Callable[[Any], Any], Iterable[Any]], list[Any]] | None]:
    """Yield a function that maps items in order as tasks of an executor; None without one.

    Arguments and errors are those of :func:`open_executor` and :func:`show_progress`.
    """
    if where is None:
        yield None
        return
    with show_progress(progress, what) as tell, open_executor(where) as (executor, _):
        executor.preflight(partial(import_module, "clusterscale.release"))

        def run(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
            tasks, results = list(enumerate(items)), list[Finished[tuple[int, Any], Any]]()
            if tasks:
                stage: Stage[Any, Any] = Stage(
                    what, lambda task: function(task[1]), tasks, results.extend, len(tasks)
                )
                stage.run(executor, tell)
            return [one.value for one in sorted(results, key=lambda one: one.item[0])]

        yield run


def run_analysis(
    analysis: Analysis,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None = None,
    *,
    memory: int | None = None,
    force: bool = False,
    progress: bool | Tell = True,
) -> xr.Dataset:
    """Run any analysis; arguments and errors are those of :func:`clusterscale.audit`."""
    import_module("clusterscale.reporting.notebook")  # adds ``clusterscale`` to datasets
    with (
        show_progress(progress, analysis.kind) as tell,
        open_executor(executor) as (opened, usable),
    ):
        return study.run(
            analysis,
            cube,
            output,
            opened,
            memory=usable if memory is None else memory,
            force=force,
            on_progress=tell,
        )


class AnalysisFunction(Protocol):
    """A function that runs an analysis, and ``analysis``, which only makes it."""

    __name__: str
    analysis: Callable[..., Analysis]

    def __call__(
        self,
        plan: Any,
        cube: TraceCube,
        output: str | Path,
        executor: Executor | Cluster | None = None,
        *,
        memory: int | None = None,
        force: bool = False,
        progress: bool | Tell = True,
        **options: Any,
    ) -> xr.Dataset:
        """Run the analysis of ``plan``, or resume it.

        Parameters
        ----------
        plan, cube
            The settings, and the traces.
        output
            Folder of the run, a local path or fsspec URL that all workers reach; the results are
            kept there or in a folder below that has the name of the analysis. The same call with
            the same folder resumes the run, and computes only what is left.
        executor
            Where the tasks run: an executor, or a cluster such as ``Local(workers=4)``, which is
            opened and closed. None: one after another in this process.
        memory
            Bytes that a worker may use. None: 70 % of the memory of a cluster's worker, or 2 GB if
            that is not known.
        force
            Overwrite the results of another plan or cube in ``output``.
        progress
            Show a bar in terminals and notebooks; or a function, which is called with each
            :class:`clusterscale.study.Progress`.

        Raises
        ------
        InputError
            If an argument has another type.
        ConfigError, PoolError
            If the plan does not fit the cube, or memory is too small.
        ExistsError
            If ``output`` holds another study and ``force`` is not set.
        """


def analysis_function(make: Callable[..., Analysis]) -> AnalysisFunction:
    """Return a function that runs the analysis which ``make`` makes of a plan and options.

    Its docstring is that of ``make``, with the parameters and errors that all of them share.
    """
    kind = signature(make, eval_str=True).parameters["plan"].annotation
    given = signature(make).parameters

    running = signature(run_analysis)

    def function(
        plan: Any,
        cube: TraceCube,
        output: str | Path,
        executor: Executor | Cluster | None = None,
        **options: Any,
    ) -> xr.Dataset:
        check_kinds(plan=(plan, kind))
        how = {name: options.pop(name) for name in running.parameters if name in options}
        analysis = make(plan, **options)
        results = run_analysis(analysis, cube, output, executor, **how)
        if n_failed := analysis.failures(results):
            warnings.warn(
                f"{n_failed} tasks of the {analysis.kind} failed: see `status` and `error` of the "
                "results; the same call runs them again",
                RuntimeWarning,
                stacklevel=2,
            )
        if analysis.before:
            _warn_if_exceeded(output)
        return results

    own = [one for one in given.values() if one.name != "plan"]
    _, *shared = running.parameters.values()
    made: Any = function
    made.__signature__ = running.replace(parameters=[given["plan"], *shared, *own])
    made.__name__ = made.__qualname__ = make.__name__
    made.__module__, made.__doc__, made.analysis = make.__module__, _document(make), make
    return cast(AnalysisFunction, made)


def _document(make: Callable[..., Analysis]) -> str:
    """Return the docstring of ``make`` with the parameters and errors that all analyses share."""
    split = re.compile(r"^(Parameters|Returns|Raises|Warns)\n-+\n", re.MULTILINE).split
    _, *shared = split(getdoc(AnalysisFunction.__call__) or "")
    head, *own = split(getdoc(make) or "")
    found = dict[str, str]()
    for sections in (shared, own):
        for name, text in zip(sections[::2], sections[1::2], strict=True):
            found[name] = f"{found.get(name, '')}{text.strip()}\n"
    order = ("Parameters", "Returns", "Raises", "Warns")
    parts = [f"{name}\n{'-' * len(name)}\n{found[name].strip()}" for name in order if name in found]
    return "\n\n".join([head.strip(), *parts])


def _warn_if_exceeded(output: str | Path) -> None:
    from clusterscale.reporting import open_run
    from clusterscale.reporting.certificates import read_brackets

    run, _ = open_run(str(output))
    exceeded = {case.mechanism for case in read_brackets(run) if case.bracket.is_violated}
    if exceeded:
        warnings.warn(
            f"an attack did better than any adversary can if {', '.join(sorted(exceeded))} does "
            "what it states: do not publish with it",
            RuntimeWarning,
            stacklevel=3,
        )
