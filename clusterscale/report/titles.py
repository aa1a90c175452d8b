"""Titles of mechanisms and priors, which pages show in place of labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from clusterscale.report.run import Run

__all__ = ["entitle"]

_COORDINATES = ("mechanism", "prior")
_VARIABLES = ("compared_mechanism", "compared_prior", "view_mechanism", "view_prior")


def entitle(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with titles in place of the labels of mechanisms and priors.

    A label stays where the results have no title, or where another one on the page has the same
    title. What was replaced is in
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
    """Yield the label and the title of each mechanism and prior of a run."""
    for _, results in run.parts():
        for name in (*_COORDINATES, *_VARIABLES):
            pair = f"{name}_label", f"{name}_title"
            if all(each in results.variables for each in pair):
                both = zip(*(results[each].values.tolist() for each in pair), strict=True)
                yield from ((label, title) for label, title in both if title not in ("", label))
