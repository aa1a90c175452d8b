"""The spine: how every analysis is identified, run, resumed, kept and watched."""

from clusterscale.study.analysis import Analysis, Study, run
from clusterscale.study.identity import Identity
from clusterscale.study.resources import (
    PROCESS_BYTES,
    Cost,
    describe_bytes,
    describe_cost,
    require_memory,
)
from clusterscale.study.stage import Progress, Stage, Tell, each, prefixed

__all__ = ["PROCESS_BYTES", "Analysis", "Cost", "Identity", "Progress", "Stage", "Study", "Tell"]
__all__ += ["describe_bytes", "describe_cost", "each", "prefixed", "require_memory", "run"]
