"""The verb that infers where everybody was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clusterscale.cli.console import out, show_recovery_cost
from clusterscale.cli.options import (
    ClusterName,
    ConfigFile,
    Force,
    Memory,
    Output,
    Workers,
    describe_memory,
    load_config,
    parse_memory,
    pick_cluster,
    report_status,
    running_cluster,
)
from clusterscale.cli.reports import write_page
from clusterscale.cli.tables import Key, add_numbers, new_table
from clusterscale.schema import with_labels

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["recover", "show_recovery"]

_STRATEGIES = 4  # columns beside each other


def recover(
    config: ConfigFile = None,
    output: Output = None,
    cluster: ClusterName = None,
    workers: Workers = None,
    memory: Memory = None,
    explain: Annotated[bool, typer.Option("--explain", help="Only say what would run.")] = False,
    force: Force = False,
) -> None:
    """Infer where every user was from what is published of all, and write the report.

    Or go on with a recovery that was cut off. The `recovery` section of a config says what the
    adversary knows, what is published, and of which epochs.
    """
    from clusterscale.recovery import RecoveryProgress, predict, run

    chosen = load_config(config)
    place = pick_cluster(chosen.cluster, cluster, workers)
    plan, folder = chosen.the_recovery(), (output or chosen.output).rstrip("/")
    cube, allowed = chosen.cube.open(), parse_memory(memory, place)
    if explain:
        cost = predict(plan, cube, allowed, place.n_workers)
        told = describe_memory(memory, place)
        show_recovery_cost(cost, place.label, f"{folder}/recovery", told)
        return
    with report_status(folder, "recovery", place) as beacon:
        with running_cluster(place, "recover", beacon) as (executor, move):

            def tell(now: RecoveryProgress) -> None:
                move("recover", now.n_tasks, now.n_done)

            found = run(plan, cube, folder, executor, memory=allowed, force=force, on_progress=tell)
        beacon.tell("report", 0, 0)
        show_recovery(found)
        out.print(f"results  {folder}/recovery/results.zarr", highlight=False, soft_wrap=True)
        write_page(folder)


def show_recovery(found: xr.Dataset) -> None:
    """Print mean errors over users of every prior and strategy, a table for each mechanism."""
    found = with_labels(found)
    profiling = found.profiling_error.mean("user").compute()
    localization = found.localization_error.mean("user").compute()
    key = Key()
    for mechanism, error in zip(found.mechanism.values, found.relative_error.values, strict=True):
        title = f"{found.sizes['user']:,} users, {key.short(mechanism)}, relative error {error:.3g}"
        out.print(title, highlight=False)
        for start in range(0, found.sizes["strategy"], _STRATEGIES):
            strategies = found.strategy.values[start : start + _STRATEGIES]
            table = new_table()
            table.add_column("prior", no_wrap=True)
            add_numbers(table, *(key.plain(strategy) for strategy in strategies))
            for prior in found.prior.values:
                cells = []
                for strategy in strategies:
                    at = {"mechanism": mechanism, "prior": prior, "strategy": strategy}
                    best = localization.sel(at).min().item()
                    cells.append(f"{profiling.sel(at).item():.2f} {best:.2f}")
                table.add_row(key.short(prior), *cells)
            out.print(table)
    out.print("[dim]mean errors: profiling, and localization by the better reading[/]")
    key.show(out)
