"""The kinds of analysis: those of this package, and those that others define.

A kind is declared once, by its class: the name of its folder and verb, the variables of its
dataset, its stages, cost and checks, its page, its tables in a terminal and as files.
Its command, its Python function, ``--explain``, the report, ``watch`` and the names that other
analyses leave alone in the folder of a run all follow from the class.
"""

from collections.abc import Mapping
from pkgutil import resolve_name
from typing import Any, ClassVar

from clusterscale.contracts import NamedModel
from clusterscale.errors import ClusterscaleError, InputError
from clusterscale.foreign import Fault, returns
from clusterscale.registry import Registry
from clusterscale.study.analysis import Analysis

_BUILT_IN = {  # in the order of a page
    "audit": "clusterscale.analyses.audit.analysis:AuditAnalysis",
    "screen": "clusterscale.analyses.screening.analysis:ScreenAnalysis",
    "certify": "clusterscale.analyses.certify.analysis:CertifyAnalysis",
    "traits": "clusterscale.analyses.traits.analysis:TraitsAnalysis",
    "recovery": "clusterscale.analyses.recovery.analysis:RecoveryAnalysis",
    "advise": "clusterscale.analyses.advise.analysis:AdviseAnalysis",
    "publication": "clusterscale.analyses.publish.analysis:PublishAnalysis",
}


class AnalysisPlan(NamedModel):
    """The settings of an analysis that another package defines.

    A subclass has a literal ``name``, which is also the ``kind`` of its analysis, and ``runs``, the
    class of the analysis, which is made from the plan. Its settings decide the identity of a study.
    """

    _registry: ClassVar[str] = "clusterscale.study:ANALYSES"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {"analysis": returns(Analysis)}
    runs: ClassVar[Any] = None
    """The class of the analysis."""

    def analysis(self) -> Analysis:
        """Return the analysis with these settings; its ``plan`` is this object."""
        if self.runs is None:
            raise InputError(f"{type(self).__name__} has no `runs`: set it to the analysis' class")
        return self.runs(self)  # type: ignore[no-any-return]

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain values that may be shown to anyone."""
        return self.model_dump(mode="json")


ANALYSES: Registry[AnalysisPlan] = Registry(
    "analysis", base=AnalysisPlan, plugins="clusterscale.analyses"
)
"""Plans of analyses of other packages, which a config can name."""


def built_in() -> dict[str, type[Analysis]]:
    """Return the classes of the analyses of this package, by kind, in the order of a page."""
    return {kind: resolve_name(path) for kind, path in _BUILT_IN.items()}


def find_kind(kind: str) -> type[Analysis] | None:
    """Return the class of an analysis of this or another package, None if it is not known here."""
    if kind in _BUILT_IN:
        return resolve_name(_BUILT_IN[kind])  # type: ignore[no-any-return]
    try:
        cls: type[Analysis] | None = ANALYSES[kind].runs
    except ClusterscaleError:  # it is not installed here, or cannot be loaded
        return None
    return cls
