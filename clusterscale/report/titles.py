"""Titles of mechanisms and priors, which pages show in place of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from pydantic import ValidationError

from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors import PRIORS
from clusterscale.recovery.priors import BELIEFS
from clusterscale.registry import Registry
from clusterscale.report.run import Run
from clusterscale.report.section import json_attribute

__all__ = ["entitle"]

_REGISTRIES: Mapping[str, Sequence[Registry[Any]]] = {
    "mechanisms": (MECHANISMS,),
    "priors": (PRIORS, BELIEFS),
}
_COORDINATES = ("mechanism", "prior")
_VARIABLES = ("compared_mechanism", "compared_prior", "view_mechanism", "view_prior")


def entitle(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with titles in place of the labels of mechanisms and priors.

    The settings are read from the plans of the results. A label is kept if its settings cannot be
    read or another label on the page has the same title. The replacements are in
    :attr:`~clusterscale.report.Run.titles`.
    """
    read = [dict.fromkeys(_read(run)) for run in runs]
    pairs = dict.fromkeys(pair for titled in read for pair in titled)
    n_uses = Counter(name for pair in pairs for name in pair)
    titles = {label: title for label, title in pairs if n_uses[label] == 1 and n_uses[title] == 1}
    shown = []
    for run, own in zip(runs, read, strict=True):
        parts: dict[str, Any] = {name: _rename(data, titles) for name, data in run.parts()}
        parts["titles"] = {label: titles[label] for label, _ in own if label in titles}
        shown.append(replace(run, **parts))
    return shown


def _rename(results: xr.Dataset, titles: Mapping[str, str]) -> xr.Dataset:
    def renamed(names: Sequence[str]) -> dict[str, Any]:
        return {
            name: (
                results[name].dims,
                np.array([titles.get(str(v), str(v)) for v in results[name].values], dtype=object),
            )
            for name in names
            if name in results.variables
        }

    return results.assign_coords(renamed(_COORDINATES)).assign(renamed(_VARIABLES))


def _read(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the label and the title of each mechanism and prior in the plans of a run."""
    for _, results in run.parts():
        plan = json_attribute(results, "plan")
        for settings in (plan, plan.get("audit"), json_attribute(results, "mechanisms")):
            for key, registries in _REGISTRIES.items():
                entries = settings.get(key) if isinstance(settings, Mapping) else None
                for entry in entries if isinstance(entries, list) else ():
                    yield from _describe(entry, registries)


def _describe(entry: object, registries: Sequence[Registry[Any]]) -> Iterator[tuple[str, str]]:
    name = entry.get("name") if isinstance(entry, dict) else None
    for registry in registries:
        if name not in list(registry):
            continue
        try:
            component = registry[str(name)].model_validate(entry)
        except ValidationError:  # written by another version
            continue
        yield component.label, getattr(component, "title", component.label)
