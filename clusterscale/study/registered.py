"""Analyses of other packages, which a config can name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from clusterscale.contracts import NamedModel
from clusterscale.foreign import Fault, returns
from clusterscale.registry import Registry
from clusterscale.study.analysis import Analysis


class AnalysisPlan(NamedModel):
    """The settings of an analysis that another package defines.

    A subclass has a literal ``name``, which is also the ``kind`` of its analysis, and defines
    :meth:`analysis`. Its settings decide the identity of a study.
    """

    _registry: ClassVar[str] = "clusterscale.study:ANALYSES"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {"analysis": returns(Analysis)}

    @abstractmethod
    def analysis(self) -> Analysis:
        """Return the analysis with these settings; its ``plan`` is this object."""

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain values that may be shown to anyone."""
        return self.model_dump(mode="json")


ANALYSES: Registry[AnalysisPlan] = Registry(
    "analysis", base=AnalysisPlan, plugins="clusterscale.analyses"
)
"""Analyses of other packages; those of this package have commands of their own."""
