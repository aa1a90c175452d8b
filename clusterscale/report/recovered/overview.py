"""The first screen: whose whereabouts, and how much closer the release brings an adversary."""

from __future__ import annotations

import xarray as xr

from clusterscale.report.recovered.errors import GOALS, closest, read_errors, strongest
from clusterscale.report.section import Section, fill, json_attribute, number, percent, plural


def build(found: xr.Dataset) -> Section:
    """Build the findings."""
    source = json_attribute(found, "cube").get("source")
    plan = json_attribute(found, "plan")
    read = [read_errors(found, goal) for goal in GOALS]
    goals = [(each.goal, strongest(each), closest(each)) for each in read]
    body = fill(
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
    return Section("overview", "Findings", "", body)
