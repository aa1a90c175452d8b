"""What the command line shows: progress, tables, nothing about a person."""

from __future__ import annotations

import math
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
    from clusterscale.audit import Cost
    from clusterscale.cube import TraceCube
    from clusterscale.recovery import RecoveryCost
    from clusterscale.screening import ScreenCost

__all__ = ["err", "out", "progress", "show_cost", "show_cube", "show_recovery_cost"]
__all__ += ["show_screen_cost", "size_of"]

_UNITS = ("B", "kB", "MB", "GB", "TB")

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

    found = summarise(cube)
    rows = {
        **describe_sizes(cube),
        "events a user": _mean_sd(found.events),
        "unique ROIs a user": _mean_sd(found.unique_rois),
        "active epochs a user": _mean_sd(found.active_epochs),
        "size on disk": f"{size_of(found.stored_bytes)}  ({found.compression:.1f} times smaller)",
        **describe_origins(cube),
    }
    show_pairs(out, cube.uri, rows)


def show_cost(cost: Cost, cluster: str, folder: str, memory: str) -> None:
    """Print what an audit would run and take; ``memory`` says what a worker may use, and why."""
    plan, (least, most) = cost.arrangement, cost.seconds_range
    share = f", in {len(plan.users)} parts" if plan.users else ", by each worker"
    show_pairs(
        out,
        "what would run",
        {
            "targets": f"{cost.n_targets:,}",
            "tasks": f"{cost.n_tasks:,}",
            "results": f"{cost.n_cases:,}",
            "cluster": cluster,
            "way": "by blocks of users" if plan.users else "in memory",
            "why": plan.why,
            "read": size_of(cost.store_bytes) + share,
            "memory": memory,
            "used by each worker": f"up to {size_of(plan.worker_bytes)}, "
            f"{size_of(plan.trace_bytes)} of it traces",
            "work": f"about {plan.core_seconds:,.0f} s of one processor",
            "time": f"{least:,.0f} to {most:,.0f} s of the cluster, if it does nothing else",
            "output": folder,
        },
    )


def show_screen_cost(cost: ScreenCost, cluster: str, folder: str, memory: str) -> None:
    """Print what a screen would run and take."""
    show_pairs(
        out,
        "what would run",
        {
            "users": f"{cost.n_users:,}",
            "rows": f"{cost.n_rows:,}",
            "blocks of users": f"{cost.n_blocks:,}",
            "cluster": cluster,
            "read": f"{size_of(cost.store_bytes)}, {cost.n_readings} times",
            "memory": memory,
            "used by each worker": f"up to {size_of(cost.worker_bytes)}",
            "work": f"about {cost.core_seconds:,.0f} s of one processor",
            "time": f"about {cost.seconds:,.0f} s of the cluster",
            "output": folder,
        },
    )


def show_recovery_cost(cost: RecoveryCost, cluster: str, folder: str, memory: str) -> None:
    """Print what a recovery would run and take."""
    show_pairs(
        out,
        "what would run",
        {
            "users": f"{cost.n_users:,}",
            "tasks": f"{cost.n_tasks:,}",
            "cluster": cluster,
            "read": f"{size_of(cost.store_bytes)}, by each worker",
            "memory": memory,
            "used by each worker": f"up to {size_of(cost.worker_bytes)}",
            "work": f"about {cost.core_seconds:,.0f} s of one processor",
            "time": f"about {cost.seconds:,.0f} s of the cluster",
            "output": folder,
        },
    )


def _mean_sd(pair: tuple[float, float]) -> str:
    return f"{pair[0]:,.1f} ± {pair[1]:,.1f}"


def size_of(n_bytes: float) -> str:
    """Return a number of bytes in the unit that fits."""
    power = min(int(math.log10(max(n_bytes, 1))) // 3, len(_UNITS) - 1)
    scaled = n_bytes / 1000**power
    return (
        f"{scaled:.1f} {_UNITS[power]}"
        if power and scaled < 10
        else f"{scaled:.0f} {_UNITS[power]}"
    )
