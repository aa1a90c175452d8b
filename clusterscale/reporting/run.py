"""Results of one run: the datasets of its analyses."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import xarray as xr

from clusterscale import schema, storage
from clusterscale.errors import FormatError, MissingError
from clusterscale.storage.manifest import from_sealed
from clusterscale.storage.result_table import attributes_of, is_table, open_sealed, require_own
from clusterscale.study import Analysis, built_in

_IDENTITY = {"cube_fingerprint", "plan_digest", "plan", "version"}  # keys that a page shows


def _kinds() -> dict[str, type[Analysis]]:
    """Return the classes of the analyses that a run has as attributes, by kind."""
    return {kind: cls for kind, cls in built_in().items() if kind in Run.__annotations__}


def forms() -> dict[str, type[Analysis]]:
    """Return the classes of the analyses that a page knows, by the ``format`` of a dataset."""
    return {cls.format(): cls for cls in _kinds().values()}


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Datasets computed from one cube, at most one of each kind, that are reported together.

    Attributes
    ----------
    audit, screen, certify, traits, recovery
        Datasets; None if there is none of the kind.
    name
        Name of the run on a page with several; a page with one does not show it.
    titles
        Titles that a page shows instead of labels, by label.
    others
        Results of further analyses by kind, of which a page has a summary.
    chosen
        Label of the mechanism that the picture of a page marks, empty for the best defence.
    limits
        AUCs by name, which are lines in that picture.
    """

    audit: xr.Dataset | None = None
    screen: xr.Dataset | None = None
    certify: xr.Dataset | None = None
    traits: xr.Dataset | None = None
    recovery: xr.Dataset | None = None
    name: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)
    others: Mapping[str, xr.Dataset] = field(default_factory=dict)
    chosen: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        found: Iterable[xr.Dataset],
        *,
        name: str = "",
        others: Mapping[str, xr.Dataset] | None = None,
    ) -> Self:
        """Return the run of several datasets, whose kinds follow from their attribute ``format``.

        Raises FormatError if there is no dataset, two are of a kind, one is of an unknown kind or
        does not conform to its schema, or they are from different cubes.
        """
        parts: dict[str, Any] = {}
        for dataset in found:
            form = dataset.attrs.get("format", schema.RESULTS_FORMAT)
            known = forms()
            if form not in known:
                raise FormatError(f"a report is made from {' or '.join(known)}, not from {form}")
            kind = known[form].kind
            if kind in parts:
                raise FormatError(f"a run has two datasets of the same kind: {kind}")
            parts[kind] = schema.with_labels(schema.validate(dataset, known[form].schema))
        others = others or {}
        if not parts and not others:
            raise FormatError("a report needs at least one dataset of results")
        _one_cube([*parts.values(), *others.values()])
        return cls(**parts, name=name, others=others)

    def parts(self) -> Iterator[tuple[str, xr.Dataset]]:
        """Yield kinds and datasets, in the order of a page."""
        for kind in _kinds():
            dataset = getattr(self, kind)
            if dataset is not None:
                yield kind, dataset
        yield from self.others.items()


def open_run(folder: str) -> tuple[Run, list[str]]:
    """Open all finished analyses of one cube in the folder of a run.

    Parameters
    ----------
    folder
        Local path or fsspec URL.

    Returns
    -------
    tuple[Run, list[str]]
        The run, and notes on analyses that are left out.

    Raises
    ------
    MissingError
        If nothing has finished.
    FormatError
        If a dataset does not conform to its schema.
    """
    folder = folder.rstrip("/").removesuffix("/results.zarr")
    opened, notes = dict[str, xr.Dataset](), list[str]()
    for kind, opener in _openers(folder):
        try:
            dataset = opener()
        except MissingError:
            notes.append(f"the {kind} in {folder} has not finished, and is left out")
            continue
        prints = {data.attrs.get("cube_fingerprint") for data in (*opened.values(), dataset)}
        if len(prints) > 1:
            notes.append(f"the {kind} in {folder} is of another cube, and left out")
        else:
            opened[kind] = dataset
    if not opened:
        raise MissingError(f"{folder}: there are no results; has a run finished there?")
    known = _kinds()
    others = {kind: data for kind, data in opened.items() if kind not in known}
    found = [data for kind, data in opened.items() if kind in known]
    return Run.of(found, name=folder, others=others), notes


def _openers(folder: str) -> Iterator[tuple[str, Callable[[], xr.Dataset]]]:
    """Yield the kind of each analysis in a folder, and a function that opens it."""
    known = _kinds()
    for kind, cls in known.items():
        for uri in (folder, f"{folder}/{kind}"):
            store = f"{uri}/results.zarr"
            if is_table(store, cls.format()) or (_identity(uri, kind) and storage.exists(store)):
                yield kind, partial(cls.read, uri)
                break
    for uri in (folder, *(f"{folder}/{name}" for name in storage.list_names(folder))):
        kind = uri.rpartition("/")[2]
        if kind in known or not storage.exists(f"{uri}/results.zarr"):
            continue  # the study of a release has no table of results
        if identity := _identity(uri, kind):
            yield kind, partial(_open_other, uri, identity)


def _identity(uri: str, kind: str) -> dict[str, Any]:
    """Return the identity of a study of that kind; empty if the folder has none."""
    try:
        identity = from_sealed(storage.read(f"{uri}/{kind}.json"))
    except (FileNotFoundError, ValueError):
        return {}
    is_known = identity.get("kind") == kind and identity.keys() >= _IDENTITY
    return identity if is_known else {}


def _open_other(uri: str, identity: Mapping[str, Any]) -> xr.Dataset:
    """Open the results of an analysis, with the identity of its study as attributes."""
    store = f"{uri}/results.zarr"
    if not attributes_of(store).get("complete"):
        raise MissingError(f"{store}: this {identity['kind']} has not finished")
    require_own(store, str(identity["kind"]))
    dataset = open_sealed(store, {})
    about = {name: identity[name] for name in ("cube_fingerprint", "plan_digest")}
    about["plan"] = json.dumps(identity["plan"])
    about["versions"] = json.dumps({"clusterscale": identity["version"]})
    return dataset.assign_attrs(about | dataset.attrs)


Results = xr.Dataset | Run | Sequence[Run]
"""Input of a report."""


def variables_of(kind: str, dataset: xr.Dataset) -> list[str]:
    """Return the names of the variables of results of a kind; all of those of another analysis."""
    known = _kinds().get(kind)
    return list(known.schema) if known else list(map(str, dataset.variables))


def runs_of(results: Results) -> list[Run]:
    """Return ``results`` as a list of runs; raises FormatError as :meth:`Run.of`."""
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
