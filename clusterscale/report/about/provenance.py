"""Provenance of the results: data, plan, seed and software versions."""

from __future__ import annotations

from collections.abc import Mapping

import xarray as xr
from markupsafe import Markup

from clusterscale.report.kinds import KINDS
from clusterscale.report.run import Run
from clusterscale.report.section import Section, fill, json_attribute

_CUBE = {
    "source": "Source",
    "when": "Time",
    "n_users": "Users",
    "n_rois": "Regions of interest",
    "n_epochs": "Epochs",
    "n_events": "Events",
    "null_roi": "Null region",
}
_RUN = {
    "cube_fingerprint": "Cube fingerprint",
    "plan_digest": "Plan digest",
    "seed": "Root seed",
}


def provenance(run: Run) -> Section:
    """Build the lists of data, run and software, with instructions to repeat the run."""
    folds = [(KINDS[name].heading, _lists(dataset)) for name, dataset in run.parts()]
    return Section(
        "provenance",
        "Provenance",
        "Runs with the same fingerprint, digest, seed and versions give the same results. To "
        "repeat this run, install the versions below, add the keys cube and output to the "
        "configuration above, and run clusterscale with it.",
        fill("folds.html.j2", folds=folds),
    )


def _lists(results: xr.Dataset) -> Markup:
    cube = json_attribute(results, "cube")
    known = {title: _text(cube[key]) for key, title in _CUBE.items() if key in cube}
    known |= {key: _text(value) for key, value in cube.items() if key not in _CUBE}
    about = {title: str(results.attrs.get(key, "not recorded")) for key, title in _RUN.items()}
    versions = json_attribute(results, "versions")
    lists = {
        "Data": known or {"Cube": "not recorded"},
        "Run": about,
        "Software": {key: str(versions[key]) for key in sorted(versions)}
        or {"Versions": "not recorded"},
    }
    return fill("definitions.html.j2", lists=lists)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_text(part)}" for key, part in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_text(part) for part in value)
    return "not recorded" if value is None else str(value)
