"""Dimensions, variables, dtypes and units of every store, and their validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import FormatError

if TYPE_CHECKING:  # screening workers need no dataset, so they do not import xarray
    import xarray as xr


CUBE_FORMAT = "clusterscale-cube"
CUBE_VERSION = 2
RESULTS_FORMAT = "clusterscale-results"

RESULTS_REVISION = 4
"""Raised whenever any number of any result may change; runs and verdicts of another are redone."""

RAW_COUNTS = "exact"
"""Id of the mechanism that publishes the counts themselves."""

STATUS = "status"
"""Folder below a run's folder with progress files; not part of any result."""


TEXT = "OUT"
"""NumPy kinds of text: objects, and Unicode of fixed and of any length."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a dataset: its dimensions, NumPy kinds (``dtype.kind``) and meaning.

    An ``optional`` variable may be absent from a dataset in memory, and is then unknown: empty
    text, or NaN. Results that are opened have the text, but may lack the number.
    """

    dims: tuple[str, ...]
    kinds: str
    units: str
    long_name: str
    optional: bool = False


def read_variables(file: Path) -> dict[str, Variable]:
    """Return the variables of a table in Markdown, by name; optional ones have a question mark."""
    kinds, variables = {"float": "f", "int": "iu", "text": TEXT, "time": "M"}, {}
    for line in file.read_text("utf-8").splitlines():
        if line.startswith("| `"):
            name, dims, kind, units, about = (cell.strip() for cell in line.split("|")[1:-1])
            optional = name.endswith("?")
            variables[name.strip("`?")] = Variable(
                tuple(dims.split()), kinds[kind], units, about, optional
            )
    return variables


RESULTS: Mapping[str, Variable] = read_variables(Path(__file__).with_suffix(".md"))
"""Variables and coordinates of the dataset of an audit; it may have more."""


Coordinates = dict[str, tuple[str, NDArray[Any]]]
"""Dimension and values of each coordinate of a dataset that is to be written."""


def empty_variable(coords: Coordinates, name: str) -> NDArray[Any]:
    """Return a variable of :data:`RESULTS` without values: NaN, 0 for counts, empty text."""
    return _empty(RESULTS[name], {dim: len(values) for dim, (_, values) in coords.items()})


def _empty(variable: Variable, sizes: Mapping[Any, int]) -> NDArray[Any]:
    shape = tuple(sizes[dim] for dim in variable.dims)
    if variable.kinds == "f":
        return np.full(shape, np.nan)
    return np.zeros(shape, np.int32) if "i" in variable.kinds else np.full(shape, "", dtype=object)


def validate(
    dataset: xr.Dataset, variables: Mapping[str, Variable] = RESULTS, *, stored: bool = False
) -> xr.Dataset:
    """Return ``dataset`` if it matches ``variables``; missing optional ones are added, empty.

    If it was read from a store, optional text must be there, and names of its coordinates must
    not be empty, as they are where a chunk was lost. Raises FormatError, which names each
    variable, if one is missing, has other dimensions or another dtype kind, or is empty where
    it must not be.
    """
    sizes, faults = dataset.sizes, list[str]()
    for name, expected in variables.items():
        may_lack = expected.optional and not (stored and expected.kinds == TEXT)
        if may_lack and name not in dataset.variables and sizes.keys() >= {*expected.dims}:
            dataset = dataset.assign({name: (expected.dims, _empty(expected, sizes))})
        if name not in dataset.variables:
            faults.append(f"{name} is missing")
            continue
        actual = dataset[name]
        if actual.dims != expected.dims:
            faults.append(f"{name} has dimensions {actual.dims}, not {expected.dims}")
        if actual.dtype.kind not in expected.kinds:
            faults.append(f"{name} is {actual.dtype}, not one of the kinds {expected.kinds!r}")
        elif stored and _is_name(name, expected) and "" in actual.values.tolist():
            faults.append(f"{name} has empty values")
    if faults:
        raise FormatError("not a dataset of this schema: " + "; ".join(faults))
    return dataset


def _is_name(name: str, variable: Variable) -> bool:
    """Return whether a variable has the ids, labels or titles along a dimension of its own."""
    dim = name.removesuffix("_label").removesuffix("_title")
    return variable.kinds == TEXT and variable.dims == (dim,)


def with_labels(dataset: xr.Dataset, *, suffix: str = "label") -> xr.Dataset:
    """Return a dataset for display: ids of mechanisms, priors and the like become labels.

    Results key everything by stable ids. ``suffix`` ``title`` gives the settings in words instead.
    The ids remain as ``<name>_id``. Results of older versions, which have no ids, stay as they are.
    """
    for name in (str(name).removesuffix(f"_{suffix}") for name in dataset.variables):
        names = dataset.variables.get(f"{name}_{suffix}")
        if names is None or (suffix == "label" and f"{name}_id" in dataset.variables):
            continue
        ids = dataset.variables.get(f"{name}_id", dataset.variables[name])
        shown = np.where(names.values == "", ids.values, names.values)
        if suffix == "title" and len(set(shown.tolist())) < len(shown):  # some share a title
            labels = dataset.variables[f"{name}_label"].values
            shown = np.where(labels == "", ids.values, labels)
        found = {name: (ids.dims, shown), f"{name}_id": (ids.dims, ids.values)}
        to = dataset.assign_coords if name in dataset.coords else dataset.assign
        dataset = to(found)
    return dataset


def find_mechanism(dataset: xr.Dataset, key: str) -> str | None:
    """Return the name by which a dataset has the mechanism with this id, None where it has not."""
    ids = dataset.variables.get("mechanism_id", dataset.variables["mechanism"]).values.tolist()
    return str(dataset["mechanism"].values[ids.index(key)]) if key in ids else None
