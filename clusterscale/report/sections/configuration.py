"""The plan of the audit, as one would write it in a file."""

from __future__ import annotations

import xarray as xr
import yaml

from clusterscale.report.section import Section, fill, json_attribute


def build(results: xr.Dataset) -> Section | None:
    """Build the plan as YAML; None when the results carry none."""
    plan = json_attribute(results, "plan")
    if not plan:
        return None
    text = yaml.safe_dump(dict(plan), sort_keys=False, allow_unicode=True, width=88)
    return Section(
        "configuration",
        "Configuration",
        "The plan that was run. The same plan, cube, seed and versions give the same results.",
        fill("code.html.j2", text=text, label="Plan of the audit"),
    )
