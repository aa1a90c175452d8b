"""What the command line shows of verdicts: on exposure, on promises, on unrounded noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from rich.console import RenderableType
from rich.markup import escape

from clusterscale.cli.tables import Key, add_numbers, new_table

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["count_exposures", "count_promises", "name_float_noise", "promise_table"]
__all__ += ["warn_of_float_noise", "worst_exposures"]

_UNITS = {
    "event": "event",
    "user_day": "user's day",
    "user": "user",
    "roi_series": "user at a place",
}
_STYLES = {
    "broken": "[bold red]broken[/]",
    "consistent": "[green]consistent[/]",
    "exposed": "[bold red]exposed[/]",
    "partly exposed": "[red]partly exposed[/]",
    "inconclusive": "[yellow]inconclusive[/]",
}
_WORST_FIRST = ("broken", "too few samples", "consistent")


def promise_table(results: xr.Dataset, key: Key) -> Iterator[RenderableType]:
    """Yield, for every mechanism that promises something, what trials of its promise say."""
    told = [dim for dim in ("period", "group_size") if results.sizes[dim] > 1]
    rows = list(_rows(results, told, key))
    if not rows:
        return
    yield "promises of differential privacy, tried"
    table = new_table()
    table.add_column("mechanism", no_wrap=True)
    table.add_column("hides")
    for dim in told:
        table.add_column(dim.replace("_", " "))
    add_numbers(table, "ε promised", "ε seen above")
    table.add_column("verdict")
    for row in rows:
        table.add_row(*row)
    yield table


def count_promises(results: xr.Dataset, key: Key, most: int) -> Iterator[str]:
    """Yield a line for each verdict on promises: whose worst it is, ``most`` by name."""
    worst: dict[str, str] = {}
    for mechanism in results.mechanism.values:
        at = results.sel(mechanism=mechanism)
        said = set(at.verdict.values[np.isfinite(at.epsilon_seen.values)].ravel().tolist())
        if said:  # a verdict that is not known here is no reassurance
            worst[str(mechanism)] = min(said, key=_rank)
    order = list(dict.fromkeys([*_WORST_FIRST, *worst.values()]))
    yield from _count(worst, order, "promises ", key, most)


def worst_exposures(results: xr.Dataset) -> dict[str, str]:
    """Return the worst verdict on exposure of each mechanism."""
    from clusterscale.audit.findings import find_exposures, worst_findings

    found = worst_findings(find_exposures(results))
    return {mechanism: finding.exposure for mechanism, finding in found.items()}


def count_exposures(worst: Mapping[str, str], key: Key, most: int) -> Iterator[str]:
    """Yield a line for each verdict of :func:`worst_exposures`: whose it is, ``most`` by name."""
    from clusterscale.audit.findings import EXPOSURES

    yield from _count(worst, EXPOSURES, "", key, most)


def name_float_noise(results: xr.Dataset, key: Key, most: int) -> Iterator[str]:
    """Yield what is to be said of mechanisms that publish unrounded noise, ``most`` by name."""
    from clusterscale.report.defences import list_float_noise

    labels = list_float_noise(results)
    more = ["…"] if labels[most:] else []
    yield from warn_of_float_noise([*map(key.short, labels[:most]), *more])


def warn_of_float_noise(names: Iterable[str]) -> Iterator[str]:
    """Yield what is to be said of mechanisms, by name, that publish unrounded noise."""
    from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK

    if listed := ", ".join(names):
        yield f"[yellow]not safe to publish as floating-point numbers:[/] {listed}"
        yield f"{FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"


def _count(
    worst: Mapping[str, str], order: Sequence[str], subject: str, key: Key, most: int
) -> Iterator[str]:
    """Yield a line for each word: how many mechanisms have it, and their names."""
    for word in order:
        labels = [label for label, each in worst.items() if each == word]
        if labels:
            shown = ", ".join(map(key.short, labels[:most])) + (", …" if labels[most:] else "")
            yield f"{subject}{_STYLES.get(word, escape(word))}: {len(labels)} ({shown})"


def _rank(verdict: str) -> int:
    return _WORST_FIRST.index(verdict) if verdict in _WORST_FIRST else -1


def _rows(results: xr.Dataset, told: list[str], key: Key) -> Iterator[list[str]]:
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
            key.short(place["mechanism"]),
            _UNITS.get(unit, escape(unit)),
            *(key.short(place[dim]) for dim in told),
            f"{epsilon:.3g}" + (f", δ {delta:.2g}" if delta > 0 else ""),
            f"{seen:.2f}",
            _STYLES.get(verdict, escape(verdict)),
        ]
