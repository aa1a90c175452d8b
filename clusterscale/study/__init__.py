"""The spine: how every analysis is identified, run, resumed, kept and watched."""

from clusterscale.study.analysis import Analysis, Study, run
from clusterscale.study.cost import describe_bytes, describe_cost
from clusterscale.study.identity import Identity
from clusterscale.study.journal import JournalFolder
from clusterscale.study.stage import Progress, Stage, Tell, each, prefixed

__all__ = ["Analysis", "Identity", "JournalFolder", "Progress", "Stage", "Study", "Tell"]
__all__ += ["describe_bytes", "describe_cost", "each", "prefixed", "run"]
