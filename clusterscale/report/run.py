"""Results of one run: any of an audit, a screen, traits and a recovery, with titles for labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from clusterscale import schema
from clusterscale.errors import FormatError
from clusterscale.recovery import RECOVERY
from clusterscale.screening import SCREEN
from clusterscale.traits import TRAITS

__all__ = ["Results", "Run", "entitle", "runs_of", "variables_of"]


_KINDS = {
    schema.RESULTS_FORMAT: ("audit", schema.RESULTS),
    schema.SCREEN_FORMAT: ("screen", SCREEN),
    schema.TRAITS_FORMAT: ("traits", TRAITS),
    schema.RECOVERY_FORMAT: ("recovery", RECOVERY),
}


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Datasets computed from one cube, at most one of each kind, that are reported together.

    ``name`` identifies the run on a page with several; it is not shown on a page with one.
    ``titles`` maps labels to the titles that a page shows instead.
    """

    audit: xr.Dataset | None = None
    screen: xr.Dataset | None = None
    traits: xr.Dataset | None = None
    recovery: xr.Dataset | None = None
    name: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[xr.Dataset], *, name: str = "") -> Run:
        """Return the run of several datasets, whose kinds follow from their attribute ``format``.

        Raises
        ------
        FormatError
            If there is no dataset, two are of the same kind, one is of an unknown kind or does not
            conform to its schema, or they are from different cubes.
        """
        parts: dict[str, Any] = {}
        for dataset in found:
            form = dataset.attrs.get("format", schema.RESULTS_FORMAT)
            if form not in _KINDS:
                raise FormatError(f"a report is made from {' or '.join(_KINDS)}, not from {form}")
            kind, variables = _KINDS[form]
            if kind in parts:
                raise FormatError(f"a run has two datasets of the same kind: {kind}")
            parts[kind] = schema.with_labels(schema.validate(dataset, variables))
        if not parts:
            raise FormatError("a report needs at least one dataset of results")
        _one_cube(parts.values())
        return cls(**parts, name=name)

    def parts(self) -> Iterator[tuple[str, xr.Dataset]]:
        """Yield kinds and datasets, in the order of a page."""
        for kind, _ in _KINDS.values():
            dataset = getattr(self, kind)
            if dataset is not None:
                yield kind, dataset


Results = xr.Dataset | Run | Sequence[Run]
"""Input of a report."""


def variables_of(kind: str) -> Mapping[str, schema.Variable]:
    """Return the variables of results of a kind, by the name of a field of :class:`Run`."""
    return dict(_KINDS.values())[kind]


def runs_of(results: Results) -> list[Run]:
    """Return ``results`` as a list of runs.

    Raises
    ------
    FormatError
        As :meth:`Run.of`.
    """
    if isinstance(results, xr.Dataset):
        return [Run.of([results])]
    runs = [results] if isinstance(results, Run) else list(results)
    if not runs:
        raise FormatError("a report needs at least one dataset of results")
    return runs


def _one_cube(datasets: Iterable[xr.Dataset]) -> None:
    prints = {dataset.attrs.get("cube_fingerprint") for dataset in datasets} - {None}
    if len(prints) > 1:
        raise FormatError(
            "the results in one run are from different cubes, with fingerprints "
            + ", ".join(sorted(map(str, prints)))
        )


_COORDINATES = ("mechanism", "prior")
_VARIABLES = ("compared_mechanism", "compared_prior", "view_mechanism", "view_prior")


def entitle(runs: Sequence[Run]) -> list[Run]:
    """Return the runs with titles in place of the labels of mechanisms and priors.

    A label stays where the results have no title, or where another one on the page has the same
    title. What was replaced is in
    :attr:`~clusterscale.report.Run.titles`.
    """
    read = [dict.fromkeys(_titles_of(run)) for run in runs]
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


def _titles_of(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the label and the title of each mechanism and prior of a run."""
    for _, results in run.parts():
        for name in (*_COORDINATES, *_VARIABLES):
            pair = f"{name}_label", f"{name}_title"
            if all(each in results.variables for each in pair):
                both = zip(*(results[each].values.tolist() for each in pair), strict=True)
                yield from ((label, title) for label, title in both if title not in ("", label))
