"""What the command line shows: progress, tables, nothing about a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from clusterscale.cli.tables import show_pairs

if TYPE_CHECKING:
    from clusterscale.cube import TraceCube

__all__ = ["err", "out", "progress", "show_cube"]

out = Console()
err = Console(stderr=True)


def progress() -> Progress:
    """Return a bar with counts, elapsed time and an estimate of what is left, on stderr."""
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
    """Print what a cube holds."""
    from clusterscale.cube.describe import describe_origins, describe_sizes
    from clusterscale.cube.summary import summarise
    from clusterscale.study import describe_bytes

    found = summarise(cube)
    rows = {
        **describe_sizes(cube),
        "events a user": _mean_sd(found.events),
        "unique ROIs a user": _mean_sd(found.unique_rois),
        "active epochs a user": _mean_sd(found.active_epochs),
        "size on disk": f"{describe_bytes(found.stored_bytes)}  "
        f"({found.compression:.1f} times smaller)",
        **describe_origins(cube),
    }
    show_pairs(out, cube.uri, rows)


def _mean_sd(pair: tuple[float, float]) -> str:
    return f"{pair[0]:,.1f} ± {pair[1]:,.1f}"
