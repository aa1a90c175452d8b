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
from typing import TYPE_CHECKING, Any

from clusterscale import api

if TYPE_CHECKING:
    __version__: str
    from clusterscale.analyses.advise import AdvicePlan
    from clusterscale.analyses.audit import AuditPlan
    from clusterscale.analyses.certify import CertifyPlan, Visits, ceiling, compose
    from clusterscale.analyses.publish import PublishPlan
    from clusterscale.analyses.recovery import RecoveryPlan
    from clusterscale.analyses.traits import TraitsPlan
    from clusterscale.api import *  # noqa: F403
    from clusterscale.api import figures
    from clusterscale.cube import TraceCube
    from clusterscale.cube.synthetic import synthesise
    from clusterscale.errors import ClusterscaleError
    from clusterscale.registry import register
    from clusterscale.reporting import write_report
    from clusterscale.runtime import Local, Serial, SerialExecutor

__all__ = [
    "AdvicePlan",
    "AuditPlan",
    "CertifyPlan",
    "ClusterscaleError",
    "Local",
    "PublishPlan",
    "RecoveryPlan",
    "Serial",
    "SerialExecutor",
    "TraceCube",
    "TraitsPlan",
    "Visits",
    "ceiling",
    "compose",
    "figures",
    "register",
    "synthesise",
    "write_report",
]
__all__ += ["__version__"]
__all__ += api.__all__

_HOMES = {
    "analyses.advise": "AdvicePlan",
    "analyses.audit": "AuditPlan",
    "analyses.certify": "CertifyPlan Visits ceiling compose",
    "analyses.publish": "PublishPlan",
    "analyses.recovery": "RecoveryPlan",
    "analyses.traits": "TraitsPlan",
    "cube": "TraceCube",
    "cube.synthetic": "synthesise",
    "errors": "ClusterscaleError",
    "registry": "register",
    "reporting": "write_report",
    "runtime": "Local Serial SerialExecutor",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that each part imports only what it needs."""
    if name == "__version__":
        from importlib.metadata import version

        return version("clusterscale")
    if name == "figures":
        return import_module("clusterscale.api.figures")
    if name.startswith("_"):
        raise AttributeError(f"module 'clusterscale' has no attribute {name!r}")
    if name in _MODULES:
        return getattr(import_module(f"clusterscale.{_MODULES[name]}"), name)
    if name in api.__all__:
        return getattr(api, name)
    try:
        return import_module(f"clusterscale.{name}")  # a subpackage
    except ModuleNotFoundError as error:
        if error.name != f"clusterscale.{name}":
            raise
    return getattr(api, name)  # an analysis of another package


def __dir__() -> list[str]:
    """Return the public names, including those not loaded yet."""
    return sorted(__all__)
