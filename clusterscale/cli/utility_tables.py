"""Utility of releases as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.table import Table

from clusterscale.cli.tables import Key, add_numbers, new_table, several

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.reporting.audit.model import AuditReport


_MEASURES = 6  # columns per table


class _UtilityRow(NamedTuple):
    """Utility of a mechanism, or of a random guess, whose name is empty."""

    mechanism: str
    released_share: float
    values: NDArray[np.float64]


def empty_lines(audit: AuditReport, key: Key) -> Iterator[RenderableType]:
    """Name in red the mechanisms with nearly empty releases in any setting."""
    several_cases = len(list(audit.defences.cases())) > 1
    some = " for some group size or period" if several_cases else ""
    if audit.empty:
        yield f"[bold red]nearly empty releases{some}:[/] {', '.join(map(key.short, audit.empty))}"


def every_utility(results: xr.Dataset, key: Key) -> Iterator[RenderableType]:
    """Yield the measures of every mechanism, period and group size."""
    if not _has_utility(results):
        return
    where = ("period", "group_size")
    for at in product(*(results[dim].values for dim in where)):
        chosen = results.sel(dict(zip(where, at, strict=True)))
        names = [f"groups of {at[1]:,}", *several(results, ("period",), at[:1], key)]
        yield ", ".join(["utility", *names])
        columns = (chosen[name].values for name in ("mechanism", "released_share", "utility"))
        rows = [_UtilityRow(str(name), *row) for name, *row in zip(*columns, strict=True)]
        yield from _tables(results, [*rows, _UtilityRow("", 1.0, chosen.random_guess.values)], key)


def worst_utility(results: xr.Dataset, key: Key) -> Iterator[RenderableType]:
    """Yield the measures of every mechanism, each in its worst setting."""
    if not _has_utility(results):
        return
    varied = any(results.sizes[dim] > 1 for dim in ("period", "group_size"))
    yield "utility" + (", worst case over all groups" if varied else "")
    ideal = results.ideal.values
    rows = []
    for mechanism in results.mechanism.values:
        at = results.sel(mechanism=mechanism)
        values = at.utility.transpose(..., "measure").values
        shares = at.released_share.values
        least = np.nan if np.isnan(shares).all() else float(np.nanmin(shares))
        rows.append(_UtilityRow(str(mechanism), least, _farthest(values, ideal)))
    guess = results.random_guess.transpose(..., "measure").values
    yield from _tables(results, [*rows, _UtilityRow("", 1.0, _farthest(guess, ideal))], key)


def _farthest(values: NDArray[np.float64], ideal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the value of each measure that is farthest from its ideal, shape (measure,)."""
    flat = values.reshape(-1, values.shape[-1])
    distance = np.where(np.isnan(flat), -1.0, np.abs(flat - ideal))
    worst: NDArray[np.float64] = flat[distance.argmax(axis=0), np.arange(flat.shape[1])]
    return worst


def _tables(results: xr.Dataset, rows: Sequence[_UtilityRow], key: Key) -> Iterator[Table]:
    """Yield tables of measures by mechanism and of a random guess.

    Mechanisms whose releases are nearly empty are marked in red.
    """
    from clusterscale.utility import emptiness

    titles = [
        f"{title}, best {best:g}"
        for title, best in zip(results.measure_title.values, results.ideal.values, strict=True)
    ]
    for start in range(0, len(titles), _MEASURES):
        part = slice(start, start + _MEASURES)
        table = new_table()
        table.add_column("mechanism", no_wrap=True)
        add_numbers(table, *map(key.letter, titles[part]))
        for row in rows:
            label = key.short(row.mechanism) if row.mechanism else "[italic]random guess[/]"
            if empty := emptiness(row.released_share):
                label += f" [bold red]({empty})[/]"
            table.add_row(label, *map(_value, row.values[part]))
        yield table


def _value(value: float) -> str:
    if np.isnan(value):
        return "-"
    return f"{value:z.3f}" if abs(value) < 1000 else f"{value:.3g}"


def _has_utility(results: xr.Dataset) -> bool:
    return results.sizes["mechanism"] > 1 and bool(np.isfinite(results.utility.values).any())
