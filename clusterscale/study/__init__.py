"""The spine: how every analysis is identified, run, resumed, kept and watched."""

from clusterscale.study.analysis import Analysis, Study, run
from clusterscale.study.identity import Identity
from clusterscale.study.journal import JournalFolder
from clusterscale.study.registered import ANALYSES, AnalysisPlan
from clusterscale.study.resources import (
    PROCESS_BYTES,
    StudyCost,
    describe_bytes,
    describe_cost,
    require_memory,
)
from clusterscale.study.stage import Progress, Stage, Tell, each, prefixed

__all__ = ["ANALYSES", "PROCESS_BYTES", "Analysis", "AnalysisPlan", "Identity", "JournalFolder"]
__all__ += [
    "Progress",
    "Stage",
    "Study",
    "StudyCost",
    "Tell",
    "describe_bytes",
    "describe_cost",
    "each",
    "prefixed",
]
__all__ += ["require_memory", "run"]
