"""The first screen of a recovery: how much a release reduces the adversary's errors."""

from __future__ import annotations

import xarray as xr
from markupsafe import Markup

from clusterscale.report.recovery.errors import GOALS, find_best, read_errors
from clusterscale.report.section import fill, json_attribute, number, percent, plural


def findings(recovered: xr.Dataset) -> Markup:
    """Build the findings."""
    source = json_attribute(recovered, "cube").get("source")
    plan = json_attribute(recovered, "plan")
    goals = [(goal, find_best(read_errors(recovered, goal))) for goal in GOALS]
    return fill(
        "recovery.html.j2",
        users=plural(recovered.sizes["user"], "user"),
        source=source if isinstance(source, str) else "",
        observed=plan.get("observed", ""),
        epochs=plural(recovered.sizes["epoch"], "epoch"),
        goals=goals,
        priors=plural(recovered.sizes["prior"], "prior"),
        n_mechanisms=recovered.sizes["mechanism"],
        number=number,
        percent=percent,
    )
