"""The grammar: value types and the Protocols that every part of an audit speaks."""

from clusterscale.contracts.bounds import Bounds, Frame
from clusterscale.contracts.component import Component, Count, Even, Positive, Probability, Share
from clusterscale.contracts.knowledge import (
    NO_NOISE,
    Examples,
    Game,
    Knowledge,
    Noise,
    Release,
    Sample,
    Whereabouts,
)
from clusterscale.contracts.protocols import (
    Attack,
    Distinguisher,
    Executor,
    Finished,
    Guarantee,
    Mechanism,
    Prior,
    Spending,
    TraceStep,
)
from clusterscale.contracts.traces import (
    Counts,
    Ints,
    Labels,
    Members,
    Scores,
    Traces,
    Values,
)

__all__ = [
    "NO_NOISE",
    "Attack",
    "Bounds",
    "Component",
    "Count",
    "Counts",
    "Distinguisher",
    "Even",
    "Examples",
    "Executor",
    "Finished",
    "Frame",
    "Game",
    "Guarantee",
    "Ints",
    "Knowledge",
    "Labels",
    "Mechanism",
    "Members",
    "Noise",
    "Positive",
    "Prior",
    "Probability",
    "Release",
    "Sample",
    "Scores",
    "Share",
    "Spending",
    "TraceStep",
    "Traces",
    "Values",
    "Whereabouts",
]
