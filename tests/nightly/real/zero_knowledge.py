"""Adversaries and defences of POPETS24, for what its studies leave out."""

import tempfile
from typing import Any

import numpy as np
import xarray as xr
from running import run

from clusterscale.analyses.audit import AuditPlan
from clusterscale.cube import TraceCube
from clusterscale.runtime import Local
from clusterscale.seeds import stream

Fields = dict[str, Any]


def laplace(epsilon: float, unit: str, sensitivity: float) -> Fields:
    """Return Laplace noise as POPETS24 publishes it: whole numbers from 0 on."""
    return {
        "name": "laplace",
        "epsilon": epsilon,
        "unit": unit,
        "sensitivity": sensitivity,
        "clip": True,
        "integers": "floor",
    }


def suppress(up_to: int) -> Fields:
    """Return the suppression of counts up to that one."""
    return {"name": "suppress_small", "up_to": up_to}


def adversaries(reference: int, **common: Any) -> dict[str, Fields]:
    """Return who knows half of all users, who knows none, and who makes up counts, not people."""
    zero = {"name": "zero_knowledge", "reference": reference, "refit": "shared", **common}
    return {
        "known": {
            "name": "known_subset",
            "alpha": 0.5,
            "sampling": "paired",
            "validation": 100,
            **common,
        },
        "zero": zero,
        "own": zero | {"correction": "matched", "crowd": "counts"},
    }


def attack(cube: TraceCube, n_targets: int, fields: Fields) -> xr.DataArray:
    """Return the AUCs of ``fields`` on users with ten events or more."""
    active = np.flatnonzero(np.diff(cube.offsets) >= 10)
    chosen = np.sort(stream(1, "active").choice(active, n_targets, replace=False))
    plan = AuditPlan(
        seed=1,
        targets={"listed": [str(name) for name in cube.pseudonyms(chosen)]},
        periods=[{"name": "all", "first": 0, "epochs": cube.n_epochs}],
        null_roi=False,
        control=False,
        **fields,
    )
    with tempfile.TemporaryDirectory() as folder, Local(workers=2).open() as executor:
        return run(plan, cube, folder, executor, memory=8_000_000_000).auc.load()
