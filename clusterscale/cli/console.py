"""Output of the command line: consoles, progress bar and summary of a cube."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment

from clusterscale.cli.tables import show_pairs
from clusterscale.redaction import without_controls

if TYPE_CHECKING:
    from clusterscale.cube import TraceCube

__all__ = ["PlainConsole", "err", "out", "progress", "show_cube"]


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


out = PlainConsole()
err = PlainConsole(stderr=True)


def progress() -> Progress:
    """Return a progress bar on stderr with counts, elapsed and estimated remaining time."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]left[/]"),
        TimeRemainingColumn(),
        console=err,
    )


def show_cube(cube: TraceCube) -> None:
    """Print a summary of a cube."""
    from clusterscale.cube.store import describe_origins, describe_sizes
    from clusterscale.cube.summary import summarise
    from clusterscale.study import describe_bytes

    summary = summarise(cube)
    rows = {
        **describe_sizes(cube),
        "events a user": _mean_sd(summary.events),
        "unique ROIs a user": _mean_sd(summary.unique_rois),
        "active epochs a user": _mean_sd(summary.active_epochs),
        "size on disk": f"{describe_bytes(summary.stored_bytes)}  "
        f"({summary.compression:.1f} times smaller)",
        **describe_origins(cube),
    }
    show_pairs(out, cube.uri, rows)


def _mean_sd(pair: tuple[float, float]) -> str:
    return f"{pair[0]:,.1f} ± {pair[1]:,.1f}"
