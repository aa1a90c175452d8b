"""What the command line shows: progress, tables, nothing about a person."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.audit import Cost
    from clusterscale.cube import TraceCube

__all__ = ["err", "out", "progress", "show_cost", "show_cube", "show_results"]

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
    from clusterscale.cube.summary import summarise

    found = summarise(cube)
    rows = {
        "users": f"{found.n_users:,}",
        "ROIs": f"{found.n_rois:,}",
        "epochs": f"{found.n_epochs:,}  ({found.when})",
        "events": f"{found.n_events:,}",
        "events a user": _mean_sd(found.events),
        "unique ROIs a user": _mean_sd(found.unique_rois),
        "active epochs a user": _mean_sd(found.active_epochs),
        "size on disk": f"{_bytes(found.stored_bytes)}  ({found.compression:.1f} times smaller)",
        "fingerprint": cube.fingerprint,
    }
    for key, value in cube.attributes["provenance"].items():
        if text := _plain(value):
            rows[key.replace("_", " ")] = text
    _two_columns(cube.uri, rows)


def show_cost(cost: Cost, cluster: str, folder: str) -> None:
    """Print what an audit would run and take."""
    _two_columns(
        "what would run",
        {
            "targets": f"{cost.n_targets:,}",
            "tasks": f"{cost.n_tasks:,}",
            "results": f"{cost.n_cases:,}",
            "cluster": cluster,
            "read by each worker, once": _bytes(cost.store_bytes),
            "kept by each worker": _bytes(cost.trace_bytes),
            "needed by a task beside that": _bytes(cost.task_bytes),
            "output": folder,
        },
    )


def show_results(results: xr.Dataset) -> None:
    """Print the mean AUC and privacy loss over targets of every case."""
    table = Table(title="mean over targets", title_justify="left")
    dims = [dim for dim in results.auc.dims if dim != "target" and _tells(results, str(dim))]
    for dim in dims:
        table.add_column(str(dim).replace("_", " "), overflow="fold")
    for name in ("AUC", "privacy loss", "control AUC"):
        table.add_column(name, justify="right")
    for case in product(*(results[dim].values for dim in dims)):
        chosen = results.sel(dict(zip(dims, case, strict=True))).squeeze()
        means = [_mean(chosen[name].values) for name in ("auc", "privacy_loss", "control_auc")]
        table.add_row(*(str(value) for value in case), *means)
    out.print(table)


def _tells(results: xr.Dataset, dim: str) -> bool:
    return results.sizes[dim] > 1 or dim in ("group_size", "attack")


def _mean(values: NDArray[np.float64]) -> str:
    return "-" if np.isnan(values).all() else f"{np.nanmean(values):.3f}"


def _two_columns(title: str, rows: dict[str, str]) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in rows.items():
        table.add_row(key, value)
    out.print(table)


def _mean_sd(pair: tuple[float, float]) -> str:
    return f"{pair[0]:,.1f} ± {pair[1]:,.1f}"


def _plain(value: Any) -> str:
    """Return a value of the provenance as a person would write it; nothing for nothing."""
    if isinstance(value, dict):
        known = {key: text for key, each in value.items() if (text := _plain(each))}
        return ", ".join(f"{key.replace('_', ' ')} {text}" for key, text in known.items())
    if isinstance(value, list):
        return " ".join(_plain(each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int):
        return f"{value:,}" if value else ""
    return "" if value is None else str(value)


def _bytes(n_bytes: float) -> str:
    power = min(int(math.log10(max(n_bytes, 1))) // 3, len(_UNITS) - 1)
    scaled = n_bytes / 1000**power
    return (
        f"{scaled:.1f} {_UNITS[power]}"
        if power and scaled < 10
        else f"{scaled:.0f} {_UNITS[power]}"
    )
