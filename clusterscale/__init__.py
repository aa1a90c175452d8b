"""Membership and recovery audits of aggregate location time-series, at cluster scale.

An audit of raw traces takes a few lines; here on synthetic commuters, without a cluster:

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
>>> results = cs.run(plan, cube, folder / "run", cs.SerialExecutor())
>>> results.auc.sizes["target"], results.auc.sizes["mechanism"]
(3, 2)
>>> bool((results.auc.sel(mechanism="exact") > 0.9).all())
True
>>> cs.write_report(results, folder / "report.html") == str(folder / "report.html")
True

After ``import clusterscale.report``, ``results.clusterscale`` shows the findings in a notebook.

``cs.run`` with the same plan and folder resumes an interrupted run. To run on a Dask cluster, pass
the executor of an opened cluster instead::

    with cs.Local(workers=2).open() as executor:
        results = cs.run(plan, cube, "runs/commuters", executor)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from clusterscale.audit import AuditPlan, open_results, run, screen
    from clusterscale.cube import TraceCube
    from clusterscale.cube.synthetic import synthesise
    from clusterscale.errors import ClusterscaleError
    from clusterscale.recovery import RecoveryPlan, open_recovery
    from clusterscale.registry import register
    from clusterscale.report import write_report
    from clusterscale.runtime import Local, Serial, SerialExecutor
    from clusterscale.screening import open_screen
    from clusterscale.traits import TraitsPlan, open_traits

__all__ = [
    "AuditPlan",
    "ClusterscaleError",
    "Local",
    "RecoveryPlan",
    "Serial",
    "SerialExecutor",
    "TraceCube",
    "TraitsPlan",
    "open_recovery",
    "open_results",
    "open_screen",
    "open_traits",
    "register",
    "run",
    "screen",
    "synthesise",
    "write_report",
]
__all__ += ["__version__"]

_PACKAGES = {
    "AuditPlan": "audit",
    "ClusterscaleError": "errors",
    "Local": "runtime",
    "RecoveryPlan": "recovery",
    "Serial": "runtime",
    "SerialExecutor": "runtime",
    "TraceCube": "cube",
    "TraitsPlan": "traits",
    "open_recovery": "recovery",
    "open_results": "audit",
    "open_screen": "screening",
    "open_traits": "traits",
    "register": "registry",
    "run": "audit",
    "screen": "audit",
    "synthesise": "cube.synthetic",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that each part imports only what it needs."""
    if name == "__version__":
        from importlib.metadata import version

        return version("clusterscale")
    if name not in _PACKAGES:
        raise AttributeError(f"module 'clusterscale' has no attribute {name!r}")
    return getattr(import_module(f"clusterscale.{_PACKAGES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names, including those not loaded yet."""
    return sorted(__all__)
