"""The ``screen`` command: score all users."""

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

__all__ = ["screen", "show_screen"]


def screen(
    config: ConfigFile = None,
    output: Output = None,
    cluster: ClusterName = None,
    workers: Workers = None,
    memory: Memory = None,
    explain: Explain = False,
    force: Force = False,
) -> None:
    """Score every user of the cube under every mechanism, or resume an interrupted screen.

    Uses only attacks without training; with `targets: {most_exposed: …}` in a config, an audit
    runs the others on the most exposed users.
    """
    from clusterscale.screening import ScreenAnalysis

    options = RunOptions(config, output, cluster, workers, memory, force, explain)
    run_analysis(
        lambda chosen: ScreenAnalysis(chosen.the_audit().whole_screen), options, show_screen
    )


def show_screen(screened: xr.Dataset) -> None:
    """Print the exposure of users in aggregate, one table per period and group size."""
    from clusterscale.report.screening import AUC_LEVELS, read_places
    from clusterscale.report.section import absent_users

    screened = with_labels(screened)
    for sentence in absent_users(screened):
        out.print(sentence, markup=False, highlight=False)
    key = Key()
    for case in read_places(screened):
        title = f"{case.n_users:,} users, {case.period}, groups of {case.group_size:,}"
        out.print(title, markup=False, highlight=False)
        table = new_table()
        table.add_column("mechanism", no_wrap=True)
        table.add_column("attack", no_wrap=True)
        add_numbers(table, "mean", "95 %", *(f"> {level:g}" for level in AUC_LEVELS), "±")
        for line in case.exposures:
            shares = (f"{100 * share:.1f} %" for share in line.above)
            numbers = (f"{line.mean:.3f}", f"{line.high:.3f}", *shares, f"{line.half:.3f}")
            table.add_row(key.short(line.mechanism), key.short(line.attack), *numbers)
        out.print(table)
        out.print(
            f"[dim]AUC of the attack with the highest mean; each user against {case.n_groups:,} "
            "groups (median), with the user and with another; ± half the 95 % interval[/]",
            highlight=False,
        )
    key.show(out)
