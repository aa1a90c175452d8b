"""Print the results of an audit: a summary of one screen, or all cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from clusterscale.cli.console import out
from clusterscale.cli.tables import LONGEST, Key, add_numbers, fits, lines_of, new_table, several
from clusterscale.cli.utility_tables import empty_lines, every_utility, worst_utility
from clusterscale.cli.verdicts import (
    count_exposures,
    count_guarantees,
    guarantee_table,
    name_float_noise,
    worst_exposures,
)
from clusterscale.phrases import NOT_TESTED
from clusterscale.schema import with_labels
from clusterscale.validation_messages import find_ties

if TYPE_CHECKING:
    import xarray as xr


_CONTROLS = ("control_auc", "absent_auc", "naive_auc")
_AROUND = ("period", "prior")
_LINES = 35  # lines of a summary, which leaves five for errors and the paths of the results
_MECHANISMS = 8  # mechanisms in a summary,
_FEWER = (8, 6, 4, 2, 1)  # or fewer if their labels are long
_SHORT = 8  # characters of labels in a table with many columns


def show_results(results: xr.Dataset, *, full: bool = False) -> None:
    """Print the results of an audit.

    Parameters
    ----------
    results
        Dataset that conforms to :data:`clusterscale.schema.RESULTS`.
    full
        Print all cases, each guarantee at each group size, and all utility measures. Otherwise the
        most exposing case of each mechanism, in at most 35 lines of 80 columns.
    """
    results = with_labels(results).assign(_failed_controls(results))
    key = Key()
    parts: Iterable[RenderableType] = _full(results, key)
    if not full:
        parts, key = _summary(results)
    for part in parts:
        out.print(part, highlight=False)
    key.show(out)


def _full(results: xr.Dataset, key: Key) -> Iterator[RenderableType]:
    from clusterscale.reporting.audit.defences import gains_of_settings

    gains = gains_of_settings(results)
    for around in product(*(results[dim].values for dim in _AROUND)):
        chosen = results.sel(dict(zip(_AROUND, around, strict=True)))
        yield ", ".join(["mean over targets", *several(results, _AROUND, around, key)])
        yield _case_table(chosen, key, gains[str(around[0]), str(around[1])])
    n_mechanisms = results.sizes["mechanism"]
    yield from count_exposures(worst_exposures(results), key, n_mechanisms)
    yield from empty_lines(results, key)
    yield from _control_lines(results)
    yield from _absent_lines(results)
    yield from guarantee_table(results, key)
    yield from name_float_noise(results, key, n_mechanisms)
    yield from every_utility(results, key)
    yield NOT_TESTED


def _summary(results: xr.Dataset) -> tuple[list[RenderableType], Key]:
    """Return what fits on a screen; drop utility first, then the least exposing mechanisms."""
    parts: list[RenderableType] = []
    key = Key()
    exposures = worst_exposures(results)
    longest = LONGEST if fits(out, _strongest_table(results, Key(), _MECHANISMS)) else _SHORT
    for n_mechanisms, with_utility in ((_MECHANISMS, True), *((n, False) for n in _FEWER)):
        key = Key(longest)
        parts = ["strongest case of each mechanism, mean over targets"]
        parts.append(_strongest_table(results, key, n_mechanisms))
        if (n_left := results.sizes["mechanism"] - n_mechanisms) > 0:
            parts.append(f"and {n_left:,} more, none with a higher AUC")
        parts += count_exposures(exposures, key, n_mechanisms)
        parts += empty_lines(results, key)
        parts += _control_lines(results)
        parts += _absent_lines(results)
        parts += count_guarantees(results, key, n_mechanisms)
        parts += name_float_noise(results, key, n_mechanisms)
        parts.append(NOT_TESTED)
        if with_utility:
            if results.sizes["mechanism"] > n_mechanisms:
                continue
            parts += worst_utility(results, key)
        if lines_of(out, [*parts, key.table(out.width)]) <= _LINES:
            break
    return parts, key


def _strongest_table(results: xr.Dataset, key: Key, n_rows: int) -> Table:
    """Return a table of the case with the highest mean AUC over targets, per mechanism."""
    dims = [dim for dim in (*_AROUND, "group_size") if results.sizes[dim] > 1] + ["attack"]
    from clusterscale.reporting.audit.defences import least_gains, read_results

    defended = results.sizes["mechanism"] > 1
    audited = read_results(results)
    gains = {str(audited.raw_counts): 0.0} | least_gains(audited)
    mean = results.auc.mean("target")
    rows = []
    for mechanism in results.mechanism.values:
        cases = mean.sel(mechanism=mechanism).stack(case=(*_AROUND, "group_size", "attack"))
        if cases.isnull().all():
            rows.append((np.inf, mechanism, ["-"] * (2 + defended) + ["-"] * len(dims)))
            continue
        at = cases.case.values[np.flatnonzero(cases == cases.max())[0]]
        index = dict(zip((*_AROUND, "group_size", "attack"), at, strict=True))
        ties = cases.case.values[find_ties(cases.values)]
        best = results.sel(index, drop=True).sel(mechanism=mechanism)
        cells = [_mean(best[name].values) for name in ("auc", "privacy_loss")]
        cells += [_shown_gain(gains.get(str(mechanism)))] if defended else []
        cells += [_value_or_tie(ties, dim, index, key) for dim in dims]
        rows.append((float(cases.max()), mechanism, cells))
    table = new_table()
    table.add_column("mechanism", no_wrap=True)
    add_numbers(table, "AUC", "privacy loss", *(["gain"] if defended else []))
    for dim in dims:
        table.add_column(dim.replace("_", " "), no_wrap=dim != "group_size", justify="left")
    # in the order of the plan; if not all fit, only the most exposing ones
    kept = np.argsort([-auc for auc, *_ in rows], kind="stable")[:n_rows]
    for number in sorted(kept.tolist()):
        _, mechanism, cells = rows[number]
        table.add_row(key.short(mechanism), *cells)
    return table


def _value_or_tie(ties: NDArray[np.object_], dim: str, index: dict[str, object], key: Key) -> str:
    """Return the value of a dimension, or the number of values that tie."""
    axis = (*_AROUND, "group_size", "attack").index(dim)
    n_values = len({case[axis] for case in ties})
    if n_values > 1:
        return f"tie of {n_values}"
    value = index[dim]
    return f"{value:,}" if dim == "group_size" else key.short(value)


def _shown_gain(gain: float | None) -> str:
    return "-" if gain is None else f"{gain:.3f}"


def _case_table(results: xr.Dataset, key: Key, gains: Mapping[tuple[int, str], float]) -> Table:
    """Return a table of all cases of a period and prior, by group size and mechanism.

    ``gains``: smallest mean gain over attacks, by group size and mechanism.
    """
    defended = results.sizes["mechanism"] > 1
    names = {"auc": "AUC", "privacy_loss": "privacy loss"}
    table = new_table()
    if defended:
        table.add_column("mechanism", no_wrap=True)
    table.add_column("attack", no_wrap=True)
    add_numbers(table, *names.values(), *(["gain"] if defended else []))
    table.add_column("controls", no_wrap=True)
    for size in results.group_size.values:
        table.add_section()
        table.add_row(f"[bold]groups of {size:,}[/]")
        for mechanism in results.mechanism.values:
            for number, attack in enumerate(results.attack.values):
                chosen = results.sel(group_size=size, mechanism=mechanism, attack=attack)
                means = [_mean(chosen[name].values) for name in names]
                controls = " ".join(_control(chosen, name) for name in _CONTROLS)
                first = [key.short(mechanism) if number == 0 else ""] if defended else []
                gain = _shown_gain(gains.get((int(size), str(mechanism))))
                means += [gain if number == 0 else ""] if defended else []
                table.add_row(*first, key.short(attack), *means, controls)
    return table


def _failed_controls(results: xr.Dataset) -> dict[str, xr.DataArray]:
    """Return a mask for each control, named ``<control>_off``: cases where the control fails."""
    from clusterscale.metrics import off_cells, weak_cells

    ordered = results.transpose(..., "target")
    shuffled, absent, naive, auc = (ordered[name] for name in (*_CONTROLS, "auc"))
    wrong = off_cells(shuffled.values, absent.values)
    wrong.append(weak_cells(auc.values, naive.transpose(*auc.dims).values))
    arrays = zip(_CONTROLS, (shuffled, absent, auc), wrong, strict=True)
    return {f"{name}_off": like.isel(target=0).copy(data=off) for name, like, off in arrays}


def _control_lines(results: xr.Dataset) -> Iterator[RenderableType]:
    """Yield lines on controls off chance, and on attacks no better than the naive one."""
    n_off = {name: int(results[f"{name}_off"].sum()) for name in _CONTROLS}
    for name, where in (
        ("control_auc", "with shuffled labels"),
        ("absent_auc", "without the target"),
    ):
        if n_off[name]:
            yield (
                f"[bold red]off chance {where}:[/] {n_off[name]} of "
                f"{results[f'{name}_off'].size} cases; do not rely on these figures yet"
            )
    if n_off["naive_auc"]:
        yield (
            f"[bold red]no better than adding up all values:[/] {n_off['naive_auc']} of "
            f"{results['naive_auc_off'].size} cases; too weak an attack to show that anyone is safe"
        )
    if results.control_auc.isnull().all():
        return
    sound = not n_off["control_auc"] + n_off["absent_auc"]
    yield (
        "controls: shuffled labels, target absent"
        + (", both at chance; " if sound else "; ")
        + "adding up all values"
    )


def _absent_lines(results: xr.Dataset) -> Iterator[RenderableType]:
    from clusterscale.reporting.section import absent_users

    yield from map(escape, absent_users(results))


def _control(results: xr.Dataset, name: str) -> str:
    """Return the mean of a control over targets, in red if the control fails."""
    text = _mean(results[name].values, 2)
    return f"[bold red]{text}[/]" if results[f"{name}_off"].values.any() else text


def _mean(values: NDArray[np.float64], digits: int = 3) -> str:
    return "-" if np.isnan(values).all() else f"{np.nanmean(values):z.{digits}f}"
