"""Dimensions, variables, dtypes and units of every store, and their validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import FormatError

if TYPE_CHECKING:  # screening workers need no dataset, so they do not import xarray
    import xarray as xr


CUBE_FORMAT = "clusterscale-cube"
CUBE_VERSION = 2
RESULTS_FORMAT = "clusterscale-results"

RESULTS_REVISION = 3
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

    An ``optional`` text variable may be absent from a dataset in memory, and is then empty, meaning
    unknown; results that are opened have it.
    """

    dims: tuple[str, ...]
    kinds: str
    units: str
    long_name: str
    optional: bool = False


def name_variables(name: str, long_name: str, dim: str = "") -> dict[str, Variable]:
    """Return the variable ``name``, which has ids, and those with the names that people use."""
    dims = (dim or name,)
    return {
        name: Variable(dims, TEXT, "", long_name),
        f"{name}_label": Variable(dims, TEXT, "", "short name", optional=True),
        f"{name}_title": Variable(dims, TEXT, "", "settings in words", optional=True),
    }


_POOLED = ("period", "prior", "group_size", "mechanism", "attack")
_CASE = ("target", *_POOLED)
_GUARANTEE = ("period", "mechanism")
_VERDICT = ("period", "group_size", "mechanism")
_UTILITY = ("period", "group_size", "mechanism", "measure")
_RANDOM = ("period", "group_size", "measure")

RESULTS: Mapping[str, Variable] = {
    "target": Variable(("target",), "iu", "1", "index of the target user in the cube"),
    "pseudonym": Variable(("target",), TEXT, "", "pseudonym of the target user"),
    "tertile": Variable(("target",), TEXT, "", "mobility tertile: high, mild or some"),
    "n_events": Variable(("target",), "iu", "1", "events of the target in all audited periods"),
    "period": Variable(("period",), TEXT, "", "name of the period"),
    "period_id": Variable(("period",), TEXT, "", "epochs of the period", optional=True),
    "n_seen": Variable(("period",), "iu", "1", "users of the cube with an event in the period"),
    **name_variables("prior", "what the adversary knows"),
    "group_size": Variable(("group_size",), "iu", "1", "members in each group"),
    **name_variables("mechanism", "how counts were published"),
    **name_variables("attack", "distinguisher"),
    "level": Variable(("level",), "f", "1", "the largest p-value of a level"),
    **name_variables("measure", "measure of utility"),
    "measure_name": Variable(("measure",), TEXT, "", "name in the registry", optional=True),
    "measure_kind": Variable(
        ("measure",),
        TEXT,
        "",
        "relative to the counts, the total kept, a share that is lost, or other",
        optional=True,
    ),
    "ideal": Variable(("measure",), "f", "1", "the best value that the measure can take"),
    "auc": Variable(_CASE, "f", "1", "area under the ROC curve over the challenges"),
    "privacy_loss": Variable(_CASE, "f", "1", "max(0, 2 auc - 1)"),
    "privacy_gain": Variable(
        _CASE, "f", "1", "share of the attack's advantage over chance on raw counts that is removed"
    ),
    "accuracy": Variable(_CASE, "f", "1", "share of challenges answered correctly"),
    "auc_low": Variable(_CASE, "f", "1", "low end of the 95 % interval of auc (DeLong, odds)"),
    "auc_high": Variable(_CASE, "f", "1", "high end of the 95 % interval of auc (DeLong, odds)"),
    "tpr": Variable(_CASE, "f", "1", "true positive rate at the plan's false_positive_rate"),
    "epsilon_lower": Variable(
        _CASE,
        "f",
        "1",
        "epsilon exceeded with 95 % confidence, delta 0, for replacing one user by another: "
        "twice that of adding or removing one",
    ),
    "control_auc": Variable(_CASE, "f", "1", "auc of the same attack trained on shuffled labels"),
    "absent_auc": Variable(
        _CASE, "f", "1", "auc of the same distinguisher with another user in the target's place"
    ),
    "naive_auc": Variable(_CASE, "f", "1", "auc of the sum of all published values"),
    "n_challenges": Variable(_CASE, "iu", "1", "challenge groups, half of them with the target"),
    "level_inside": Variable(
        (*_CASE, "level"), "iu", "1", "of the first challenges, groups with the target by p-value"
    ),
    "level_outside": Variable(
        (*_CASE, "level"), "iu", "1", "of those without it, the half that did not calibrate"
    ),
    "pooled_epsilon_lower": Variable(
        _POOLED, "f", "1", "epsilon_lower over all targets, so that the largest over attacks holds"
    ),
    "pooled_tpr": Variable(_POOLED, "f", "1", "tpr over all targets, by p-value"),
    "resolvable_fpr": Variable(
        _POOLED, "f", "1", "the smallest false positive rate that all targets together can show"
    ),
    "seconds": Variable(_CASE, "f", "s", "time to train and score"),
    "status": Variable(_CASE, TEXT, "", "done, failed, missing or unseen"),
    "error": Variable(_CASE, TEXT, "", "error that ended a failed task"),
    "utility": Variable(_UTILITY, "f", "1", "the measure, mean over groups drawn at random"),
    "utility_sd": Variable(_UTILITY, "f", "1", "its standard deviation over these groups"),
    "released_share": Variable(
        _VERDICT, "f", "1", "smaller share released of the events, and of the counts above 0"
    ),
    "random_guess": Variable(_RANDOM, "f", "1", "the measure of values drawn without any data"),
    "guarantee_unit": Variable(_GUARANTEE, TEXT, "", "event, user_day, user, roi_series or none"),
    "guarantee_epsilon": Variable(_GUARANTEE, "f", "1", "epsilon at that unit, infinite if none"),
    "guarantee_delta": Variable(_GUARANTEE, "f", "1", "delta at that unit"),
    "guarantee_neighbours": Variable(_GUARANTEE, TEXT, "", "add_remove or replace"),
    "guarantee_reason": Variable(_GUARANTEE, TEXT, "", "why the guarantee holds, or why none does"),
    "float_noise": Variable(
        _GUARANTEE, TEXT, "", "is continuous noise published unrounded: yes or no", optional=True
    ),
    "sensitivity": Variable(_GUARANTEE, "f", "visits", "norm of one unit to which noise is scaled"),
    "sensitivity_needed": Variable(_GUARANTEE, "f", "visits", "norm of one unit in this cube"),
    "user_epsilon": Variable(_GUARANTEE, "f", "1", "epsilon for all of one user, plain sum"),
    "user_delta": Variable(_GUARANTEE, "f", "1", "delta that goes with user_epsilon"),
    "composed_epsilon": Variable(_GUARANTEE, "f", "1", "epsilon for all of one user, accounted"),
    "composed_delta": Variable(_GUARANTEE, "f", "1", "delta that goes with composed_epsilon"),
    "auc_ceiling": Variable(
        _GUARANTEE, "f", "1", "highest AUC that the guarantee allows any attack"
    ),
    "epsilon_seen": Variable(
        _VERDICT,
        "f",
        "1",
        "lower bound on epsilon, measured at the unit and delta of the guarantee",
    ),
    "verdict_trials": Variable(_VERDICT, "f", "1", "releases with the unit, and as many without"),
    "verdict": Variable(
        _VERDICT, TEXT, "", "consistent, broken, too few samples or nothing promised"
    ),
}
"""Variables and coordinates of the dataset of an audit; it may have more."""


Coordinates = dict[str, tuple[str, NDArray[Any]]]
"""Dimension and values of each coordinate of a dataset that is to be written."""


def empty_variable(coords: Coordinates, name: str) -> NDArray[Any]:
    """Return a variable of :data:`RESULTS` without values: NaN, 0 for counts, empty text."""
    variable = RESULTS[name]
    shape = tuple(len(coords[dim][1]) for dim in variable.dims)
    if variable.kinds == "f":
        return np.full(shape, np.nan)
    return np.zeros(shape, np.int32) if "i" in variable.kinds else np.full(shape, "", dtype=object)


def validate(
    dataset: xr.Dataset, variables: Mapping[str, Variable] = RESULTS, *, stored: bool = False
) -> xr.Dataset:
    """Return ``dataset`` if it matches ``variables``; missing optional ones are added, empty.

    If it was read from a store, optional variables must be there, and names of its coordinates
    must not be empty, as they are where a chunk was lost. Raises FormatError, which names each
    variable, if one is missing, has other dimensions or another dtype kind, or is empty where
    it must not be.
    """
    for name, expected in variables.items():
        if stored or not expected.optional or name in dataset.variables:
            continue
        if set(expected.dims) <= set(dataset.dims):
            shape = [dataset.sizes[dim] for dim in expected.dims]
            dataset = dataset.assign({name: (expected.dims, np.full(shape, "", object))})
    faults = []
    for name, expected in variables.items():
        if not stored and expected.optional and name not in dataset.variables:
            continue
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
