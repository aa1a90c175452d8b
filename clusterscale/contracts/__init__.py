"""Value types and Protocols shared by all parts of an audit."""

from clusterscale.contracts.bounds import Bounds, CellCoordinates, Stability, check_days
from clusterscale.contracts.component import (
    Address,
    ConfigModel,
    Count,
    Even,
    Named,
    NamedModel,
    NonEmptyUnique,
    OptionalUnique,
    Positive,
    Probability,
    Share,
    distinct,
    hash_of,
    names_of,
)
from clusterscale.contracts.evidence import CellScore, Reference
from clusterscale.contracts.game import Game, GroupSample
from clusterscale.contracts.knowledge import Examples, Knowledge, TargetKnowledge
from clusterscale.contracts.mechanism import (
    Guarantee,
    Mechanism,
    NoiseScope,
    PrivacyLoss,
    TraceStep,
    publish,
    release_counts,
    stability_of,
)
from clusterscale.contracts.protocols import Attack, Distinguisher, GroupRequest, Prior
from clusterscale.contracts.release import (
    NO_NOISE,
    VERDICT_LEVELS,
    CellChange,
    CellLaw,
    Level,
    Noise,
    NoiseSource,
    Reason,
    Release,
    Support,
)
from clusterscale.contracts.traces import (
    Counts,
    Ints,
    Labels,
    Members,
    Scores,
    Traces,
    Values,
    Weights,
    check_weights,
)

__all__ = ["NO_NOISE", "VERDICT_LEVELS", "Address", "Attack", "Bounds", "CellCoordinates"]
__all__ += [
    "CellChange",
    "CellLaw",
    "CellScore",
    "ConfigModel",
    "Count",
    "Counts",
    "Distinguisher",
    "Even",
]
__all__ += ["Examples", "Game", "GroupRequest", "GroupSample", "Guarantee", "Ints", "Knowledge"]
__all__ += ["Labels", "Level", "Mechanism", "Members", "Named", "NamedModel", "Noise", "NoiseScope"]
__all__ += ["NoiseSource"]
__all__ += ["Positive", "Prior", "PrivacyLoss", "Probability", "Reason", "Reference", "Release"]
__all__ += ["Scores", "Share", "Stability", "Support", "TargetKnowledge", "TraceStep", "Traces"]
__all__ += ["NonEmptyUnique", "OptionalUnique", "check_days", "distinct", "hash_of", "names_of"]
__all__ += ["Values", "Weights", "check_weights", "publish", "release_counts", "stability_of"]
