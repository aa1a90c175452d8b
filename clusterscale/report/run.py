"""Results of one run: any of an audit, a screen, traits and a recovery."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from clusterscale import schema
from clusterscale.errors import FormatError
from clusterscale.recovery import RECOVERY
from clusterscale.screening import SCREEN
from clusterscale.traits import TRAITS

__all__ = ["Results", "Run", "runs_of", "variables_of"]

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
