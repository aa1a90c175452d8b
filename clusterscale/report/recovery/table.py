"""Table of all mean errors."""

from __future__ import annotations

import xarray as xr

from clusterscale.report.recovery.errors import GOALS, Errors, read_errors
from clusterscale.report.section import Column, Section, Table, number, percent

_COLUMNS = (
    Column("Strategy", number=False, header=True),
    Column("Profiling error", hint="Mean over users"),
    Column("Loss", hint="Mean privacy loss in profiling"),
    Column("Users affected", hint="Users whose profiling error decreases"),
    Column("Gain", hint="Mean privacy gain in profiling"),
    Column("Localization error", hint="Mean over users, with the better decision rule"),
    Column("Loss", hint="Mean privacy loss in localization"),
    Column("Gain", hint="Mean privacy gain in localization"),
)


def build(recovered: xr.Dataset) -> Section:
    """Build a row for each mechanism, prior and strategy."""
    profiling, localization = (read_errors(recovered, goal) for goal in GOALS)
    groups = []
    for i, mechanism in enumerate(profiling.mechanisms):
        for j, prior in enumerate(profiling.priors):
            rows = [
                [name, *_cells(profiling, i, j, k), *_cells(localization, i, j, k)]
                for k, name in enumerate(profiling.strategies)
            ]
            groups.append((f"{mechanism} · {prior}", rows))
    return Section(
        "recovery-results",
        "All errors",
        "Losses are relative to the prior alone, gains relative to raw counts; both are means over "
        "users.",
        Table("Errors by mechanism, prior and strategy", _COLUMNS, groups).html,
    )


def _cells(errors: Errors, mechanism: int, prior: int, strategy: int) -> list[str]:
    at = mechanism, prior, strategy
    cells = [number(float(errors.error[at].mean())), number(float(errors.loss[at].mean()))]
    if errors.goal.name == "profiling":
        cells.append(percent(float((errors.loss[at] > 0).mean())))
    return [*cells, number(float(errors.gain[at].mean()))]
