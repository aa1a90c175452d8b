"""Dimensions, variables, dtypes and units of every store, and the check that they are kept."""

from collections.abc import Mapping
from dataclasses import dataclass

import xarray as xr

from clusterscale.errors import FormatError

__all__ = ["CUBE_FORMAT", "CUBE_VERSION", "RESULTS", "RESULTS_FORMAT", "Variable", "validate"]

CUBE_FORMAT = "clusterscale-cube"
CUBE_VERSION = 1
RESULTS_FORMAT = "clusterscale-results"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a dataset: its dimensions, NumPy kinds (``dtype.kind``) and meaning."""

    dims: tuple[str, ...]
    kinds: str
    units: str
    long_name: str


_CASE = ("target", "period", "prior", "group_size", "mechanism", "attack")
_PROMISE = ("period", "mechanism")
_PRICE = ("period", "group_size", "mechanism", "measure")
_GUESS = ("period", "group_size", "measure")

RESULTS: Mapping[str, Variable] = {
    "target": Variable(("target",), "iu", "1", "index of the target user in the cube"),
    "pseudonym": Variable(("target",), "OUT", "", "pseudonym of the target user"),
    "tertile": Variable(("target",), "OUT", "", "mobility tertile: high, mild or some"),
    "n_events": Variable(("target",), "iu", "1", "events of the target in the whole cube"),
    "period": Variable(("period",), "OUT", "", "observation and inference epochs"),
    "prior": Variable(("prior",), "OUT", "", "what the adversary knows"),
    "group_size": Variable(("group_size",), "iu", "1", "members in each group"),
    "mechanism": Variable(("mechanism",), "OUT", "", "how counts were published"),
    "attack": Variable(("attack",), "OUT", "", "distinguisher"),
    "measure": Variable(("measure",), "OUT", "", "measure of utility"),
    "measure_title": Variable(("measure",), "OUT", "", "the measure in words"),
    "ideal": Variable(("measure",), "f", "1", "the best value that the measure can take"),
    "auc": Variable(_CASE, "f", "1", "area under the ROC curve over the challenges"),
    "privacy_loss": Variable(_CASE, "f", "1", "max(0, 2 auc - 1)"),
    "privacy_gain": Variable(
        _CASE, "f", "1", "share of the attack's advantage over chance on bare counts that is gone"
    ),
    "accuracy": Variable(_CASE, "f", "1", "share of challenges answered rightly"),
    "control_auc": Variable(_CASE, "f", "1", "auc of the same attack trained on shuffled labels"),
    "seconds": Variable(_CASE, "f", "s", "time to train and score"),
    "status": Variable(_CASE, "OUT", "", "done, failed or missing"),
    "error": Variable(_CASE, "OUT", "", "what ended a failed task"),
    "utility": Variable(_PRICE, "f", "1", "the measure, mean over groups drawn at random"),
    "utility_sd": Variable(_PRICE, "f", "1", "its standard deviation over these groups"),
    "random_guess": Variable(_GUESS, "f", "1", "the measure of values drawn without any data"),
    "guarantee_unit": Variable(_PROMISE, "OUT", "", "event, user_day, user, roi_series or none"),
    "guarantee_epsilon": Variable(_PROMISE, "f", "1", "epsilon at that unit, infinite if none"),
    "guarantee_delta": Variable(_PROMISE, "f", "1", "delta at that unit"),
    "guarantee_neighbours": Variable(_PROMISE, "OUT", "", "add_remove or replace"),
    "guarantee_reason": Variable(_PROMISE, "OUT", "", "why the guarantee holds, or why none does"),
    "sensitivity": Variable(_PROMISE, "f", "visits", "norm of one unit that noise is scaled to"),
    "sensitivity_needed": Variable(_PROMISE, "f", "visits", "norm of one unit in this cube"),
    "user_epsilon": Variable(_PROMISE, "f", "1", "epsilon for all of one user, plain sum"),
    "user_delta": Variable(_PROMISE, "f", "1", "delta that goes with user_epsilon"),
    "composed_epsilon": Variable(_PROMISE, "f", "1", "epsilon for all of one user, accounted"),
    "composed_delta": Variable(_PROMISE, "f", "1", "delta that goes with composed_epsilon"),
    "auc_ceiling": Variable(_PROMISE, "f", "1", "most AUC that the guarantee leaves any attack"),
}
"""Variables and coordinates of the dataset of an audit; more may stand beside them."""


def validate(dataset: xr.Dataset, variables: Mapping[str, Variable] = RESULTS) -> xr.Dataset:
    """Return ``dataset`` if it keeps ``variables``.

    Raises
    ------
    FormatError
        Naming every variable that is absent, has other dimensions or another kind of dtype.
    """
    faults = []
    for name, want in variables.items():
        if name not in dataset.variables:
            faults.append(f"{name} is missing")
            continue
        have = dataset[name]
        if have.dims != want.dims:
            faults.append(f"{name} has dimensions {have.dims}, not {want.dims}")
        if have.dtype.kind not in want.kinds:
            faults.append(f"{name} is {have.dtype}, not one of the kinds {want.kinds!r}")
    if faults:
        raise FormatError("not a dataset of this schema: " + "; ".join(faults))
    return dataset
