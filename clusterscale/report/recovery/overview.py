"""The first screen: whose whereabouts, and how much closer the release brings an adversary."""

from __future__ import annotations

import xarray as xr
from markupsafe import Markup

from clusterscale.report.recovery.errors import GOALS, find_best, read_errors
from clusterscale.report.section import fill, json_attribute, number, percent, plural


def findings(found: xr.Dataset) -> Markup:
    """Build the findings."""
    source = json_attribute(found, "cube").get("source")
    plan = json_attribute(found, "plan")
    goals = [(goal, find_best(read_errors(found, goal))) for goal in GOALS]
    return fill(
        "recovery.html.j2",
        users=plural(found.sizes["user"], "user"),
        source=source if isinstance(source, str) else "",
        observed=plan.get("observed", ""),
        epochs=plural(found.sizes["epoch"], "epoch"),
        goals=goals,
        priors=plural(found.sizes["prior"], "prior"),
        n_mechanisms=found.sizes["mechanism"],
        number=number,
        percent=percent,
    )
