"""Value types and Protocols shared by all parts of an audit."""

from clusterscale.contracts.adversary import (
    Adversary,
    Attack,
    AttackSeconds,
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
    TableLaw,
    Traces,
    Values,
    Weights,
    check_days,
    check_weights,
)
from clusterscale.contracts.mechanism import (
    Guarantee,
    Mechanism,
    NoiseScope,
    PrivacyLoss,
    UsualSettings,
    publish,
    release_counts,
)
from clusterscale.contracts.trace_steps import ONE_DAY, Bounds, Stability, TraceStep, stability_of
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

__all__ = ["Address", "Adversary", "Attack", "AttackSeconds", "Bounds", "CellChange"]
__all__ += ["CellCoordinates", "CellLaw", "CellScore", "CellwiseAttack", "ConfigModel", "Count"]
__all__ += ["Counts", "Distinguisher", "Even", "Examples", "Game", "GroupRequest", "GroupSample"]
__all__ += ["NO_NOISE", "Guarantee", "Ints", "Knowledge", "Labels", "Level", "Mechanism", "Members"]
__all__ += ["Named", "NamedModel", "Noise", "NoiseScope", "NoiseSource", "NonEmptyUnique"]
__all__ += ["ONE_DAY", "OptionalUnique", "Positive", "Prior", "PrivacyLoss", "Probability"]
__all__ += ["Reason", "Reference", "Release", "Scores", "Share", "Stability", "Support"]
__all__ += ["TableLaw", "TargetKnowledge", "TraceStep", "Traces", "UsualSettings"]
__all__ += ["VERDICT_LEVELS", "Values", "Weights", "check_days", "check_weights", "distinct"]
__all__ += ["hash_of", "names_of", "publish", "release_counts", "stability_of"]
