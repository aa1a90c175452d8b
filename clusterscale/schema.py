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
    "auc": Variable(_CASE, "f", "1", "area under the ROC curve over the challenges"),
    "privacy_loss": Variable(_CASE, "f", "1", "max(0, 2 auc - 1)"),
    "accuracy": Variable(_CASE, "f", "1", "share of challenges answered rightly"),
    "control_auc": Variable(_CASE, "f", "1", "auc of the same attack trained on shuffled labels"),
    "seconds": Variable(_CASE, "f", "s", "time to train and score"),
    "status": Variable(_CASE, "OUT", "", "done, failed or missing"),
    "error": Variable(_CASE, "OUT", "", "what ended a failed task"),
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
