"""Membership and recovery audits of aggregate location time-series, at cluster scale.

An audit of raw traces takes a few lines; here on synthetic commuters, in this process:

>>> import clusterscale as cs
>>> folder = getfixture("tmp_path")
>>> cube = cs.synthesise("tfl", folder / "commuters.zarr", users=200, seed=1)
>>> plan = cs.AuditPlan(
...     targets={"random": 3},
...     group_sizes=[10],
...     priors=[{"name": "known_subset", "alpha": 0.3, "training": 100, "challenges": 40}],
...     mechanisms=[{"name": "exact"}, {"name": "laplace", "epsilon": 1.0, "unit": "event"}],
...     attacks=[{"name": "projection"}],
... )
>>> results = cs.audit(plan, cube, folder / "run")
>>> results.auc.sizes["target"], results.auc.sizes["mechanism"]
(3, 2)
>>> bool((results.auc.sel(mechanism="exact") > 0.9).all())
True
>>> cs.report(folder / "run") == str(folder / "run" / "report.html")
True

``results.clusterscale`` shows the findings in a notebook.

``cs.audit`` with the same plan and folder resumes an interrupted run. To run on a Dask cluster,
pass the cluster, which is opened for the call::

    results = cs.audit(plan, cube, "runs/commuters", cs.Local(workers=2))

``help(cs.api)`` lists the other functions.
"""

from importlib import import_module
from typing import Any

import lazy_loader

from clusterscale import api

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that each part imports only what it needs."""
    if name == "figures":
        return import_module("clusterscale.api.figures")
    if name in __all__:
        return _load(name)
    if name.startswith("_"):
        raise AttributeError(f"module 'clusterscale' has no attribute {name!r}")
    try:
        return import_module(f"clusterscale.{name}")  # a subpackage
    except ModuleNotFoundError as error:
        if error.name != f"clusterscale.{name}":
            raise
    return getattr(api, name)  # an analysis of another package
