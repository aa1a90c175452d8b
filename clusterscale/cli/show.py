"""What the command line shows: progress, tables, nothing about a person."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from string import ascii_lowercase
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
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
    from clusterscale.recovery import RecoveryCost
    from clusterscale.screening import ScreenCost

__all__ = ["err", "out", "progress", "show_cost", "show_cube", "show_float_noise"]
__all__ += ["show_recovery_cost", "show_results", "show_screen_cost"]

_CONTROLS = ("control_auc", "absent_auc", "naive_auc")
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
    from clusterscale.cube.facts import tell_origins, tell_sizes
    from clusterscale.cube.summary import summarise

    found = summarise(cube)
    rows = {
        **tell_sizes(cube),
        "events a user": _mean_sd(found.events),
        "unique ROIs a user": _mean_sd(found.unique_rois),
        "active epochs a user": _mean_sd(found.active_epochs),
        "size on disk": f"{_bytes(found.stored_bytes)}  ({found.compression:.1f} times smaller)",
        **tell_origins(cube),
    }
    _two_columns(cube.uri, rows)


def show_cost(cost: Cost, cluster: str, folder: str) -> None:
    """Print what an audit would run and take."""
    plan = cost.arrangement
    share = f", in {len(plan.users)} parts" if plan.users else ", by each worker"
    _two_columns(
        "what would run",
        {
            "targets": f"{cost.n_targets:,}",
            "tasks": f"{cost.n_tasks:,}",
            "results": f"{cost.n_cases:,}",
            "cluster": cluster,
            "way": "by blocks of users" if plan.users else "in memory",
            "why": plan.why,
            "read": _bytes(cost.store_bytes) + share,
            "used by each worker": f"up to {_bytes(plan.worker_bytes)}, "
            f"{_bytes(plan.trace_bytes)} of it traces",
            "work": f"about {plan.core_seconds:,.0f} s of one processor",
            "time": f"about {plan.seconds:,.0f} s of the cluster",
            "output": folder,
        },
    )


def show_float_noise(mechanisms: Iterable[str]) -> None:
    """Print which mechanisms, by label, publish unrounded noise, and what to do instead."""
    from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK

    labels = list(mechanisms)
    if not labels:
        return
    out.print("[yellow]not safe to publish as floating-point numbers:[/]")
    for label in labels:
        out.print(f"  {escape(label)}", highlight=False)
    out.print(f"{FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}", highlight=False)


def show_screen_cost(cost: ScreenCost, cluster: str, folder: str) -> None:
    """Print what a screen would run and take."""
    _two_columns(
        "what would run",
        {
            "users": f"{cost.n_users:,}",
            "rows": f"{cost.n_rows:,}",
            "blocks of users": f"{cost.n_blocks:,}",
            "cluster": cluster,
            "read": f"{_bytes(cost.store_bytes)}, {cost.n_readings} times",
            "used by each worker": f"up to {_bytes(cost.worker_bytes)}",
            "work": f"about {cost.core_seconds:,.0f} s of one processor",
            "time": f"about {cost.seconds:,.0f} s of the cluster",
            "output": folder,
        },
    )


def show_recovery_cost(cost: RecoveryCost, cluster: str, folder: str) -> None:
    """Print what a recovery would run and take."""
    _two_columns(
        "what would run",
        {
            "users": f"{cost.n_users:,}",
            "tasks": f"{cost.n_tasks:,}",
            "cluster": cluster,
            "read": f"{_bytes(cost.store_bytes)}, by each worker",
            "used by each worker": f"up to {_bytes(cost.worker_bytes)}",
            "work": f"about {cost.core_seconds:,.0f} s of one processor",
            "time": f"about {cost.seconds:,.0f} s of the cluster",
            "output": folder,
        },
    )


def show_results(results: xr.Dataset) -> None:
    """Print means over targets of every case, controls beside them, and what is left of counts."""
    from clusterscale.report.section import absent_users

    defended = results.sizes["mechanism"] > 1
    results = results.assign(_judge_controls(results))
    for period, prior in product(results.period.values, results.prior.values):
        chosen = results.sel(period=period, prior=prior)
        names = {"period": period, "prior": prior}
        title = ["mean over targets", *(str(names[dim]) for dim in names if results.sizes[dim] > 1)]
        _show_cases(chosen, ", ".join(title), defended=defended)
    _show_controls(results)
    for sentence in absent_users(results):
        out.print(escape(sentence), highlight=False)
    if defended and np.isfinite(results.utility.values).any():
        for period, size in product(results.period.values, results.group_size.values):
            where = f"groups of {size}" + (f", {period}" if results.sizes["period"] > 1 else "")
            _show_utility(results.sel(period=period, group_size=size), f"utility, {where}")
        for letter, title, best in zip(
            ascii_lowercase, results.measure_title.values, results.ideal.values, strict=False
        ):
            out.print(f"{letter}  {escape(str(title))}, best {best:g}", highlight=False)


def _show_cases(results: xr.Dataset, title: str, *, defended: bool) -> None:
    table = Table(title=escape(title), title_justify="left")
    table.add_column("group size", max_width=5)
    dims = ["group_size", "mechanism", "attack"] if defended else ["group_size", "attack"]
    for dim in dims[1:]:
        table.add_column(dim, overflow="fold")
    numbers = {"auc": "AUC", "privacy_loss": "privacy loss"}
    numbers |= {"privacy_gain": "gain"} if defended else {}
    for name in numbers.values():
        table.add_column(name, justify="right", max_width=7)
    table.add_column("controls", max_width=14)
    for case in product(*(results[dim].values for dim in dims)):
        chosen = results.sel(dict(zip(dims, case, strict=True)))
        means = [_mean(chosen[name].values) for name in numbers]
        controls = " ".join(_control(chosen, name) for name in _CONTROLS)
        table.add_row(*(escape(str(value)) for value in case), *means, controls)
    out.print(table)


def _judge_controls(results: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return, by the name of each control and ``_off``, where it should be shown in red."""
    from clusterscale.metrics import off_cells, weak_cells

    ordered = results.transpose(..., "target")
    shuffled, absent, naive, auc = (ordered[name] for name in (*_CONTROLS, "auc"))
    wrong = off_cells(shuffled.values, absent.values)
    wrong.append(weak_cells(auc.values, naive.transpose(*auc.dims).values))
    arrays = zip(_CONTROLS, (shuffled, absent, auc), wrong, strict=True)
    return {f"{name}_off": like.isel(target=0).copy(data=off) for name, like, off in arrays}


def _show_controls(results: xr.Dataset) -> None:
    """Say in a line whether controls are at chance and attacks better than adding up."""
    n_off = {name: int(results[f"{name}_off"].sum()) for name in _CONTROLS}
    for name, where in (
        ("control_auc", "with shuffled labels"),
        ("absent_auc", "without the target"),
    ):
        if n_off[name]:
            out.print(
                f"[bold red]off chance {where}:[/] {n_off[name]} of "
                f"{results[f'{name}_off'].size} cases; do not rely on these figures yet"
            )
    if n_off["naive_auc"]:
        out.print(
            f"[bold red]no better than adding up all values:[/] {n_off['naive_auc']} of "
            f"{results['naive_auc_off'].size} cases; too weak an attack to say that anybody is safe"
        )
    if results.control_auc.isnull().all():
        return
    sound = not n_off["control_auc"] + n_off["absent_auc"]
    out.print(
        "controls: shuffled labels, target absent"
        + (", both at chance; " if sound else "; ")
        + "adding up all values",
        highlight=False,
    )


def _show_utility(results: xr.Dataset, title: str) -> None:
    """Print measures by mechanism, and of values made up without any data.

    Mechanisms whose releases are nearly empty are marked in red.
    """
    from clusterscale.report.defences import emptiness

    table = Table(title=escape(title), title_justify="left")
    table.add_column("mechanism", overflow="fold")
    # names are longer than numbers: they stand below the last table, and letters above the columns
    for letter in ascii_lowercase[: results.sizes["measure"]]:
        table.add_column(letter, justify="right")
    columns = (results[name].values for name in ("mechanism", "utility", "released_share"))
    for name, values, share in zip(*columns, strict=True):
        empty = f" [bold red]{word} release[/]" if (word := emptiness(float(share))) else ""
        table.add_row(escape(str(name)) + empty, *map(_mean, values))
    table.add_row("[italic]random guess[/]", *map(_mean, results.random_guess.values))
    out.print(table)


def _control(results: xr.Dataset, name: str) -> str:
    """Return the mean of a control over targets, in red where it should be another."""
    text = _mean(results[name].values, 2)
    return f"[bold red]{text}[/]" if results[f"{name}_off"].values.any() else text


def _mean(values: NDArray[np.float64], digits: int = 3) -> str:
    return "-" if np.isnan(values).all() else f"{np.nanmean(values):z.{digits}f}"


def _two_columns(title: str, rows: dict[str, str]) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for key, value in rows.items():
        table.add_row(key, value)
    out.print(table)


def _mean_sd(pair: tuple[float, float]) -> str:
    return f"{pair[0]:,.1f} ± {pair[1]:,.1f}"


def _bytes(n_bytes: float) -> str:
    power = min(int(math.log10(max(n_bytes, 1))) // 3, len(_UNITS) - 1)
    scaled = n_bytes / 1000**power
    return (
        f"{scaled:.1f} {_UNITS[power]}"
        if power and scaled < 10
        else f"{scaled:.0f} {_UNITS[power]}"
    )
