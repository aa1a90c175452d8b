"""The ``traits`` command: explain why users are exposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape

from clusterscale.cli.console import out
from clusterscale.cli.options import (
    ClusterName,
    ConfigFile,
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

__all__ = ["show_traits", "traits"]

_GAP = 0.02  # between mean AUCs: with less, the membership of the two groups is chance


def traits(
    config: ConfigFile = None,
    output: Output = None,
    cluster: ClusterName = None,
    workers: Workers = None,
    memory: Memory = None,
    force: Force = False,
) -> None:
    """Report what the most exposed users of an audit or a screen have in common.

    Compares their mobility with that of the least exposed, and reports which locations and times
    the attack uses. The `traits` section of a config sets how they are compared.
    """
    from clusterscale.audit import TraitsAnalysis, find_exposures

    options = RunOptions(config, output, cluster, workers, memory, force)
    plan = options.config.the_audit()
    run_analysis(
        TraitsAnalysis(plan, options.config.traits),
        options,
        show_traits,
        check=lambda: find_exposures(plan, options.cube, options.folder),
    )


def show_traits(results: xr.Dataset) -> None:
    """Print how the two groups differ, by the strongest attack of each source."""
    results = with_labels(results)
    for source in ("audit", "screen"):
        at = np.flatnonzero(results.source.values == source)
        if len(at):
            exposed = (results.auc_top + results.auc_bottom).values[at]
            _show_comparison(results.isel(comparison=int(at[np.argmax(exposed)])))
    if not results.sizes["comparison"]:
        out.print("too few users were attacked to compare the most exposed with the least exposed")


def _show_comparison(comparison: xr.Dataset) -> None:
    key = Key()
    names = "period", "prior", "group_size", "mechanism", "attack"
    setting = [str(comparison[f"compared_{name}"].item()) for name in names]
    title = ", ".join(key.plain(part) for part in (str(comparison.source.item()), *setting) if part)
    out.print(title, markup=False, highlight=False)
    high, low = comparison.auc_top.item(), comparison.auc_bottom.item()
    table = new_table()
    table.add_column("characteristic", min_width=14)
    add_numbers(table, "most", "least", "forest", "weight", "apart")
    for i, words in enumerate(comparison.characteristic_title.values):
        one = comparison.isel(characteristic=i)
        pairs = [_pair(one[f"{side}_mean"], one[f"{side}_sd"]) for side in ("top", "bottom")]
        numbers = (one[n].item() for n in ("forest_importance", "logistic_coefficient"))
        last = f"{one.separation.item():.2f}"
        table.add_row(escape(str(words)), *pairs, *(f"{number:z.2f}" for number in numbers), last)
    out.print(table)
    out.print(
        f"[dim]the {comparison.n_compared.item():,} most exposed, mean AUC {high:.3f}, and as many "
        f"least exposed, {low:.3f}: mean ± standard deviation; the forest classifies "
        f"{comparison.forest_accuracy.item():.0%} correctly; weight of a logistic regression; "
        "apart: probability that one of the most exposed has more[/]",
        highlight=False,
    )
    key.show(out)
    if high - low < _GAP:
        out.print("[bold]both groups are about equally exposed[/]: the comparison explains little")


def _pair(mean: xr.DataArray, sd: xr.DataArray) -> str:
    digits = 1 if mean.item() >= 10 else 2 if mean.item() >= 1 else 3
    return f"{mean.item():,.{digits}f} ± {sd.item():,.{digits}f}"
