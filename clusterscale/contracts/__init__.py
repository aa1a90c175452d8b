"""The grammar: value types and the Protocols that every part of an audit speaks."""

from clusterscale.contracts.component import Component, Count, Even, Positive, Share
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
    "Component",
    "Count",
    "Counts",
    "Distinguisher",
    "Even",
    "Examples",
    "Executor",
    "Finished",
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
    "Release",
    "Sample",
    "Scores",
    "Share",
    "Traces",
    "Values",
    "Whereabouts",
]
