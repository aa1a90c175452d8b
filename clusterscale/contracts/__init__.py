"""The grammar: value types and the Protocols that every part of an audit speaks."""

from clusterscale.contracts.bounds import Bounds, Frame, check_days
from clusterscale.contracts.component import (
    Address,
    Component,
    Count,
    Even,
    Positive,
    Probability,
    Share,
    hash_of,
)
from clusterscale.contracts.evidence import CellRule, CellwiseAttack, Reference
from clusterscale.contracts.execution import MEMORY, Crew, Executor, Finished, Fold, see_through
from clusterscale.contracts.game import Adversary, Game, Informed, Sample
from clusterscale.contracts.knowledge import Examples, Knowledge, Whereabouts
from clusterscale.contracts.protocols import (
    REACHES,
    Attack,
    Distinguisher,
    Guarantee,
    Mechanism,
    Prior,
    Reach,
    Spending,
    TraceStep,
)
from clusterscale.contracts.release import NO_NOISE, CellLaw, Noise, Release, publish
from clusterscale.contracts.traces import (
    Counts,
    Ints,
    Labels,
    Members,
    Scores,
    Traces,
    Values,
)
from clusterscale.contracts.verdict import LEVELS, Level, Reason

__all__ = [
    "LEVELS",
    "MEMORY",
    "NO_NOISE",
    "REACHES",
    "Address",
    "Adversary",
    "Attack",
    "Bounds",
    "CellLaw",
    "CellRule",
    "CellwiseAttack",
    "Component",
    "Count",
    "Counts",
    "Crew",
    "Distinguisher",
    "Even",
    "Examples",
    "Executor",
    "Finished",
    "Fold",
    "Frame",
    "Game",
    "Guarantee",
    "Informed",
    "Ints",
    "Knowledge",
    "Labels",
    "Level",
    "Mechanism",
    "Members",
    "Noise",
    "Positive",
    "Prior",
    "Probability",
    "Reach",
    "Reason",
    "Reference",
    "Release",
    "Sample",
    "Scores",
    "Share",
    "Spending",
    "TraceStep",
    "Traces",
    "Values",
    "Whereabouts",
    "check_days",
    "hash_of",
    "publish",
    "see_through",
]
