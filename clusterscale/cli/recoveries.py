"""The ``recover`` command: infer the locations of all users."""

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

_STRATEGIES = 4  # columns per table


def recover(
    config: ConfigFile = None,
    output: Output = None,
    cluster: ClusterName = None,
    workers: Workers = None,
    memory: Memory = None,
    explain: Explain = False,
    force: Force = False,
) -> None:
    """Infer the locations of every user from the published aggregates, and write the report.

    Resumes an interrupted recovery. The `recovery` section of a config sets the adversary's prior
    knowledge, the published mechanisms and the epochs.
    """
    from clusterscale.recovery import RecoveryAnalysis

    options = RunOptions(config, output, cluster, workers, memory, force, explain)
    run_analysis(RecoveryAnalysis(options.config.the_recovery()), options, show_recovery)


def show_recovery(recovery: xr.Dataset) -> None:
    """Print mean errors over users by prior and strategy, one table per mechanism."""
    recovery = with_labels(recovery)
    profiling = recovery.profiling_error.mean("user").compute()
    localization = recovery.localization_error.mean("user").compute()
    key = Key()
    errors = recovery.relative_error.values
    n_users = recovery.sizes["user"]
    for mechanism, error in zip(recovery.mechanism.values, errors, strict=True):
        title = f"{n_users:,} users, {key.short(mechanism)}, relative error {error:.3g}"
        out.print(title, highlight=False)
        for start in range(0, recovery.sizes["strategy"], _STRATEGIES):
            strategies = recovery.strategy.values[start : start + _STRATEGIES]
            table = new_table()
            table.add_column("prior", no_wrap=True)
            add_numbers(table, *(key.plain(strategy) for strategy in strategies))
            for prior in recovery.prior.values:
                cells = []
                for strategy in strategies:
                    at = {"mechanism": mechanism, "prior": prior, "strategy": strategy}
                    best = localization.sel(at).min().item()
                    cells.append(f"{profiling.sel(at).item():.2f} {best:.2f}")
                table.add_row(key.short(prior), *cells)
            out.print(table)
    out.print("[dim]mean errors: profiling, and localization by the better decision rule[/]")
    key.show(out)
