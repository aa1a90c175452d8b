"""Where the work of a call runs, and how its progress is shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.segment import Segment

from clusterscale import study
from clusterscale.errors import InputError
from clusterscale.redaction import without_controls
from clusterscale.study import Analysis, Progress, Tell
from clusterscale.study.execution import MEMORY, Executor

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.cube import TraceCube
    from clusterscale.runtime import Cluster

_BETWEEN = 0.1
"""Least seconds between two updates of a bar in a notebook."""


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
    """Return a progress bar with counts, elapsed and estimated remaining time."""
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]left[/]"),
        TimeRemainingColumn(),
        console=console,
        disable=disable,
    )


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

    def update(self, task_id: TaskID, *args: Any, **fields: Any) -> None:
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
        bars, texts = [], []
        for task in self.tasks:
            name, state = without_controls(task.description), _describe(task)
            share = f' max="{task.total:g}" value="{task.completed:g}"' if task.total else ""
            bars.append(f"<label>{escape(name)} <progress{share}></progress></label> {state}")
            texts.append(f"{name} {state}")
        return {"text/html": "<br>".join(bars), "text/plain": "\n".join(texts)}


def _describe(task: Task) -> str:
    """Return counts, elapsed and estimated remaining time of the line of a bar."""
    counts = f"{task.completed:,.0f} of {task.total:,.0f}, " if task.total else ""
    remaining = None if task.finished else task.time_remaining
    left = "" if remaining is None else f", {timedelta(seconds=int(remaining))} left"
    return f"{counts}{timedelta(seconds=int(task.elapsed or 0))}{left}"


def teller(bar: Bar, line: TaskID) -> Tell:
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


def run_analysis(
    analysis: Analysis,
    cube: TraceCube,
    output: str | Path,
    executor: Executor | Cluster | None,
    memory: int | None,
    force: bool,
    progress: bool | Tell,
) -> xr.Dataset:
    """Run any analysis; arguments and errors are those of :func:`clusterscale.audit`."""
    import_module("clusterscale.reporting.accessor")  # adds ``clusterscale`` to datasets
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
