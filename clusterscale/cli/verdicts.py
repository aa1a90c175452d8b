"""What the command line shows of promises: which are kept, which are broken."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape
from rich.table import Table

from clusterscale.cli.show import out, show_float_noise

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["show_verdicts"]

_UNITS = {
    "event": "event",
    "user_day": "user's day",
    "user": "user",
    "roi_series": "user at a place",
}
_STYLES = {"broken": "[bold red]broken[/]", "consistent": "[green]consistent[/]"}


def show_verdicts(results: xr.Dataset) -> None:
    """Print what trials say of each guarantee, and which mechanisms publish unrounded noise."""
    from clusterscale.report.defences import list_float_noise

    _show_trials(results)
    show_float_noise(list_float_noise(results))


def _show_trials(results: xr.Dataset) -> None:
    told = [dim for dim in ("period", "group_size") if results.sizes[dim] > 1]
    rows = list(_rows(results, told))
    if not rows:
        return
    table = Table(title="promises of differential privacy, tried", title_justify="left")
    table.add_column("mechanism", overflow="fold", min_width=20)
    table.add_column("hides", overflow="fold", max_width=10)
    for dim in told:
        table.add_column(dim.replace("_", " "), overflow="fold", max_width=8)
    for name in ("ε promised", "ε seen above"):
        table.add_column(name, justify="right", max_width=8)
    table.add_column("verdict", max_width=11)
    for row in rows:
        table.add_row(*row)
    out.print(table)


def _rows(results: xr.Dataset, told: list[str]) -> Iterator[list[str]]:
    dims = ("mechanism", "period", "group_size")
    for case in product(*(results[dim].values for dim in dims)):
        place = dict(zip(dims, case, strict=True))
        at = results.sel(place)
        seen, verdict = at["epsilon_seen"].item(), str(at["verdict"].item())
        if not np.isfinite(seen):
            continue
        unit, epsilon, delta = (
            at[f"guarantee_{name}"].item() for name in ("unit", "epsilon", "delta")
        )
        yield [
            escape(str(place["mechanism"])),
            _UNITS.get(unit, escape(unit)),
            *(escape(str(place[dim])) for dim in told),
            f"{epsilon:.3g}" + (f", δ {delta:.2g}" if delta > 0 else ""),
            f"{seen:.2f}",
            _STYLES.get(verdict, escape(verdict)),
        ]
