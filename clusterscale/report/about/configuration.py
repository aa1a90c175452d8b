"""The plans that were run, in the format of a configuration file."""

from __future__ import annotations

import yaml
from markupsafe import Markup

from clusterscale.report.kinds import KINDS
from clusterscale.report.run import Run
from clusterscale.report.section import Column, Section, Table, breakable, fill, json_attribute

_WORDS = (
    "This page describes mechanisms and priors in words. The table lists the exact settings, which "
    "also appear when the pointer is over a description. "
)
_COLUMNS = (
    Column("Description", number=False, header=True, wide=True),
    Column("Setting", number=False, wide=True),
)


def configuration(run: Run) -> Section | None:
    """Build the settings behind titles, and the plans as YAML; None if there are no plans."""
    folds = []
    for name, dataset in run.parts():
        if plan := json_attribute(dataset, "plan"):
            text = yaml.safe_dump(dict(plan), sort_keys=False, allow_unicode=True, width=88)
            label = KINDS[name].plan
            folds.append((label, fill("code.html.j2", text=text, label=label)))
    if not folds:
        return None
    rows = [[title, breakable(label)] for label, title in run.titles.items()]
    table = Table("Mechanisms and priors, described and as configured", _COLUMNS, [("", rows)]).html
    return Section(
        "configuration",
        "Configuration",
        (_WORDS if rows else "")
        + "The plan that was run. The same plan, cube, seed and versions give the same results.",
        (table if rows else Markup("")) + fill("folds.html.j2", folds=folds),
    )
