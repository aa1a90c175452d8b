"""Tables and lines of verdicts: on exposure, on guarantees, on unrounded noise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from rich.console import RenderableType
from rich.markup import escape

from clusterscale.cli.tables import Key, add_numbers, new_table
from clusterscale.phrases import GUARANTEE_VERDICTS, LOOKS, privacy_unit

if TYPE_CHECKING:
    import xarray as xr

    from clusterscale.reporting.audit.model import AuditReport


_STYLES = {"good": "green", "middling": "yellow", "bad": "bold red"}


def guarantee_table(results: xr.Dataset, key: Key) -> Iterator[RenderableType]:
    """Yield a table of tests of the guarantee of every mechanism that declares one."""
    varied = [dim for dim in ("period", "group_size") if results.sizes[dim] > 1]
    rows = list(_rows(results, varied, key))
    if not rows:
        return
    yield "differential-privacy claims tested"
    table = new_table()
    table.add_column("mechanism", no_wrap=True)
    table.add_column("protects")
    for dim in varied:
        table.add_column(dim.replace("_", " "))
    add_numbers(table, "declared ε", "observed ε ≥")
    table.add_column("verdict")
    for row in rows:
        table.add_row(*row)
    yield table


def count_guarantees(audit: AuditReport, key: Key, most: int) -> Iterator[str]:
    """Yield a line per worst verdict on guarantees: its mechanisms, at most ``most`` by name."""
    order = list(dict.fromkeys([*GUARANTEE_VERDICTS, *audit.tested.values()]))
    yield from _count(audit.tested, order, "guarantees ", key, most)


def count_exposures(audit: AuditReport, key: Key, most: int) -> Iterator[str]:
    """Yield a line per verdict on exposure: its mechanisms, at most ``most`` by name."""
    from clusterscale.reporting.findings import EXPOSURES

    worst = {mechanism: finding.exposure for mechanism, finding in audit.worst.items()}
    yield from _count(worst, EXPOSURES, "", key, most)


def name_float_noise(audit: AuditReport, key: Key, most: int) -> Iterator[str]:
    """Yield a warning about mechanisms that publish unrounded noise, ``most`` by name."""
    labels = audit.float_noise
    more = ["…"] if labels[most:] else []
    yield from warn_of_float_noise([*map(key.short, labels[:most]), *more])


def warn_of_float_noise(names: Iterable[str]) -> Iterator[str]:
    """Yield a warning about the named mechanisms, which publish unrounded noise."""
    from clusterscale.mechanisms import FLOAT_NOISE_REMEDY, FLOAT_NOISE_RISK

    if listed := ", ".join(names):
        yield f"[yellow]not safe to publish as floating-point numbers:[/] {listed}"
        yield f"{FLOAT_NOISE_RISK}; {FLOAT_NOISE_REMEDY}"


def _count(
    worst: Mapping[str, str], order: Sequence[str], subject: str, key: Key, most: int
) -> Iterator[str]:
    """Yield a line per verdict: the number and names of its mechanisms."""
    for word in order:
        labels = [label for label, verdict in worst.items() if verdict == word]
        if labels:
            shown = ", ".join(map(key.short, labels[:most])) + (", …" if labels[most:] else "")
            yield f"{subject}{_styled(word)}: {len(labels)} ({shown})"


def _styled(verdict: str) -> str:
    """Return a verdict in the style of its look."""
    style = _STYLES.get(LOOKS.get(verdict, ""))
    return f"[{style}]{verdict}[/]" if style else escape(verdict)


def _rows(results: xr.Dataset, varied: list[str], key: Key) -> Iterator[list[str]]:
    dims = ("mechanism", "period", "group_size")
    for case in product(*(results[dim].values for dim in dims)):
        index = dict(zip(dims, case, strict=True))
        at = results.sel(index)
        observed, verdict = at["epsilon_seen"].item(), str(at["verdict"].item())
        if not np.isfinite(observed):
            continue
        unit, epsilon, delta = (
            at[f"guarantee_{name}"].item() for name in ("unit", "epsilon", "delta")
        )
        yield [
            key.short(index["mechanism"]),
            escape(privacy_unit(unit)),
            *(key.short(index[dim]) for dim in varied),
            f"{epsilon:.3g}" + (f", δ {delta:.2g}" if delta > 0 else ""),
            f"{observed:.2f}",
            _styled(verdict),
        ]
