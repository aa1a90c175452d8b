"""What was asked, as one would write it in a file."""

from __future__ import annotations

import yaml

from clusterscale.report.kinds import KINDS
from clusterscale.report.run import Run
from clusterscale.report.section import Section, fill, json_attribute


def configuration(run: Run) -> Section | None:
    """Build the plans as YAML; None when the results carry none."""
    folds = []
    for name, dataset in run.parts():
        if plan := json_attribute(dataset, "plan"):
            text = yaml.safe_dump(dict(plan), sort_keys=False, allow_unicode=True, width=88)
            label = KINDS[name].plan
            folds.append((label, fill("code.html.j2", text=text, label=label)))
    if not folds:
        return None
    return Section(
        "configuration",
        "Configuration",
        "The plan that was run. The same plan, cube, seed and versions give the same results.",
        fill("folds.html.j2", folds=folds),
    )
