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

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import Signature, signature
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    __version__: str
    from clusterscale.advise import AdvicePlan, open_advice
    from clusterscale.api import (
        Gate,
        advise,
        analyse,
        attack,
        audit,
        certify,
        check,
        check_tables,
        figures,
        gate,
        ingest,
        inspect,
        play,
        publish,
        read_table,
        reaudit,
        recover,
        report,
        screen,
        traits,
    )
    from clusterscale.audit import AuditPlan, open_results, run
    from clusterscale.certify import CertifyPlan, open_certificates
    from clusterscale.cube import TraceCube
    from clusterscale.cube.synthetic import synthesise
    from clusterscale.errors import ClusterscaleError
    from clusterscale.publish import PublishPlan
    from clusterscale.recovery import RecoveryPlan, open_recovery
    from clusterscale.registry import register
    from clusterscale.report import write_report
    from clusterscale.runtime import Local, Serial, SerialExecutor
    from clusterscale.screening import open_screen
    from clusterscale.traits import TraitsPlan, open_traits

__all__ = [
    "AdvicePlan",
    "AuditPlan",
    "CertifyPlan",
    "ClusterscaleError",
    "Gate",
    "Local",
    "PublishPlan",
    "RecoveryPlan",
    "Serial",
    "SerialExecutor",
    "TraceCube",
    "TraitsPlan",
    "advise",
    "analyse",
    "attack",
    "audit",
    "certify",
    "check",
    "check_tables",
    "figures",
    "gate",
    "ingest",
    "inspect",
    "open_advice",
    "open_certificates",
    "open_recovery",
    "open_results",
    "open_screen",
    "open_traits",
    "play",
    "publish",
    "read_table",
    "reaudit",
    "recover",
    "register",
    "report",
    "run",
    "screen",
    "synthesise",
    "traits",
    "write_report",
]
__all__ += ["__version__"]

_CALLABLE = (
    "advise",
    "audit",
    "certify",
    "ingest",
    "publish",
    "reaudit",
    "report",
    "traits",
)  # also names of subpackages
_PACKAGES = {
    "AdvicePlan": "advise",
    "AuditPlan": "audit",
    "CertifyPlan": "certify",
    "ClusterscaleError": "errors",
    "Gate": "api",
    "Local": "runtime",
    "PublishPlan": "publish",
    "RecoveryPlan": "recovery",
    "Serial": "runtime",
    "SerialExecutor": "runtime",
    "TraceCube": "cube",
    "TraitsPlan": "traits",
    "analyse": "api",
    "attack": "api",
    "check": "api",
    "check_tables": "api",
    "gate": "api",
    "inspect": "api",
    "open_advice": "advise",
    "open_certificates": "certify",
    "open_recovery": "recovery",
    "open_results": "audit",
    "open_screen": "screening",
    "open_traits": "traits",
    "play": "api",
    "read_table": "api",
    "recover": "api",
    "register": "registry",
    "run": "audit",
    "screen": "api",
    "synthesise": "cube.synthetic",
    "write_report": "report",
}


class _Callable(ModuleType):
    """A subpackage that can be called as the function of the API with its name."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._function(*args, **options)

    @property
    def __signature__(self) -> Signature:
        return signature(self._function)

    @property
    def _function(self) -> Callable[..., Any]:
        api = import_module("clusterscale.api")
        return cast(Callable[..., Any], getattr(api, self.__name__.rpartition(".")[2]))


class _Package(ModuleType):
    """The package, in which ``audit``, ``report`` and the like are subpackages and functions."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets a subpackage as an attribute when it is imported, by whomever.
        if name in _CALLABLE and type(value) is ModuleType:
            value.__class__ = _Callable
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that each part imports only what it needs."""
    if name == "__version__":
        from importlib.metadata import version

        return version("clusterscale")
    if name in (*_CALLABLE, "api"):
        return import_module(f"clusterscale.{name}")
    if name == "figures":
        return import_module("clusterscale.api.figures")
    if name not in _PACKAGES:
        raise AttributeError(f"module 'clusterscale' has no attribute {name!r}")
    if name.startswith("open_"):
        import_module("clusterscale.report.accessor")  # adds ``clusterscale`` to datasets
    return getattr(import_module(f"clusterscale.{_PACKAGES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names, including those not loaded yet."""
    return sorted(__all__)
