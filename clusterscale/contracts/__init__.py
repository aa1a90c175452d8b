"""Value types and Protocols shared by all parts of an audit."""

from clusterscale.contracts.adversary import (
    Adversary,
    Attack,
    CellScore,
    CellwiseAttack,
    Distinguisher,
    Examples,
    Game,
    GroupRequest,
    GroupSample,
    Knowledge,
    Prior,
    Reference,
    TargetKnowledge,
)
from clusterscale.contracts.data import (
    NO_NOISE,
    VERDICT_LEVELS,
    CellChange,
    CellCoordinates,
    CellLaw,
    Counts,
    Ints,
    Labels,
    Level,
    Members,
    Noise,
    NoiseSource,
    Reason,
    Release,
    Scores,
    Support,
    Traces,
    Values,
    Weights,
    check_days,
    check_weights,
)
from clusterscale.contracts.mechanism import (
    Bounds,
    Guarantee,
    Mechanism,
    NoiseScope,
    PrivacyLoss,
    Stability,
    TraceStep,
    publish,
    release_counts,
    stability_of,
)
from clusterscale.models import (
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

__all__ = ["NO_NOISE", "VERDICT_LEVELS", "Address", "Adversary", "Attack", "Bounds", "CellChange"]
__all__ += ["CellCoordinates", "CellLaw", "CellScore", "CellwiseAttack", "ConfigModel", "Count"]
__all__ += ["Counts", "Distinguisher", "Even", "Examples", "Game", "GroupRequest", "GroupSample"]
__all__ += ["Guarantee", "Ints", "Knowledge", "Labels", "Level", "Mechanism", "Members", "Named"]
__all__ += ["NamedModel", "Noise", "NoiseScope", "NoiseSource", "NonEmptyUnique", "OptionalUnique"]
__all__ += ["Positive", "Prior", "PrivacyLoss", "Probability", "Reason", "Reference", "Release"]
__all__ += ["Scores", "Share", "Stability", "Support", "TargetKnowledge", "TraceStep", "Traces"]
__all__ += ["Values", "Weights", "check_days", "check_weights", "distinct", "hash_of", "names_of"]
__all__ += ["publish", "release_counts", "stability_of"]
