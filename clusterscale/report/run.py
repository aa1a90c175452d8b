"""The results of one run, whichever there are: an audit, a screen, traits, a recovery."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from clusterscale import schema
from clusterscale.errors import FormatError

__all__ = ["Results", "Run", "runs_of", "variables_of"]

_KINDS = {
    schema.RESULTS_FORMAT: ("audit", schema.RESULTS),
    schema.SCREEN_FORMAT: ("screen", schema.SCREEN),
    schema.TRAITS_FORMAT: ("traits", schema.TRAITS),
    schema.RECOVERY_FORMAT: ("recovery", schema.RECOVERY),
}


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What is told together: datasets that are made of one cube, at most one of a kind.

    ``name`` tells the run from others on a page; it is not shown where there is one only.
    ``titles`` are what a page shows in place of labels.
    """

    audit: xr.Dataset | None = None
    screen: xr.Dataset | None = None
    traits: xr.Dataset | None = None
    recovery: xr.Dataset | None = None
    name: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Iterable[xr.Dataset], *, name: str = "") -> Run:
        """Return the run that datasets belong to, each told by its attribute ``format``.

        Raises
        ------
        FormatError
            If there is none, two are of a kind, one is of no kind or does not keep its schema, or
            they are made of different cubes.
        """
        parts: dict[str, Any] = {}
        for dataset in found:
            form = dataset.attrs.get("format", schema.RESULTS_FORMAT)
            if form not in _KINDS:
                raise FormatError(f"a report is made from {' or '.join(_KINDS)}, not from {form}")
            kind, variables = _KINDS[form]
            if kind in parts:
                raise FormatError(f"two results of a kind in one run: {kind}")
            parts[kind] = schema.with_labels(schema.validate(dataset, variables))
        if not parts:
            raise FormatError("a report is made from results; there are none")
        _one_cube(parts.values())
        return cls(**parts, name=name)

    def parts(self) -> Iterator[tuple[str, xr.Dataset]]:
        """Yield what there is, by kind, in the order of a page."""
        for kind, _ in _KINDS.values():
            dataset = getattr(self, kind)
            if dataset is not None:
                yield kind, dataset


Results = xr.Dataset | Run | Sequence[Run]
"""What a report can be made from."""


def variables_of(kind: str) -> Mapping[str, schema.Variable]:
    """Return the variables of results of a kind, by the name of a field of :class:`Run`."""
    return dict(_KINDS.values())[kind]


def runs_of(results: Results) -> list[Run]:
    """Return the runs that ``results`` are.

    Raises
    ------
    FormatError
        As :meth:`Run.of`.
    """
    if isinstance(results, xr.Dataset):
        return [Run.of([results])]
    runs = [results] if isinstance(results, Run) else list(results)
    if not runs:
        raise FormatError("a report is made from results; there are none")
    return runs


def _one_cube(found: Iterable[xr.Dataset]) -> None:
    prints = {each.attrs.get("cube_fingerprint") for each in found} - {None}
    if len(prints) > 1:
        raise FormatError(
            "results of different cubes in one run, with fingerprints "
            + ", ".join(sorted(map(str, prints)))
        )
