"""The verb that infers where everybody was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterscale.cli.console import out
from clusterscale.cli.options import (
    ClusterName,
    ConfigFile,
    Explain,
    Force,
    Memory,
    Output,
    Workers,
)
from clusterscale.cli.running import RunOptions, run_analysis
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
    explain: Explain = False,
    force: Force = False,
) -> None:
    """Infer where every user was from what is published of all, and write the report.

    Or go on with a recovery that was cut off. The `recovery` section of a config says what the
    adversary knows, what is published, and of which epochs.
    """
    from clusterscale.recovery import RecoveryAnalysis

    options = RunOptions(config, output, cluster, workers, memory, force, explain)
    run_analysis(lambda chosen: RecoveryAnalysis(chosen.the_recovery()), options, show_recovery)


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
