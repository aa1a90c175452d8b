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
    UsualSettings,
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

__all__ = ["NO_NOISE", "VERDICT_LEVELS", "Address", "Adversary", "Attack", "AttackSeconds"]
__all__ += ["Bounds", "CellChange", "CellCoordinates", "CellLaw", "CellScore", "CellwiseAttack"]
__all__ += ["ConfigModel", "Count", "Counts", "Distinguisher", "Even", "Examples", "Game"]
__all__ += ["GroupRequest", "GroupSample", "Guarantee", "Ints", "Knowledge", "Labels", "Level"]
__all__ += ["Mechanism", "Members", "Named", "NamedModel", "Noise", "NoiseScope", "NoiseSource"]
__all__ += ["NonEmptyUnique", "OptionalUnique", "Positive", "Prior", "PrivacyLoss", "Probability"]
__all__ += ["Reason", "Reference", "Release", "Scores", "Share", "Stability", "Support"]
__all__ += ["TargetKnowledge", "TraceStep", "Traces", "UsualSettings", "Values", "Weights"]
__all__ += ["check_days", "check_weights", "distinct", "hash_of", "names_of", "publish"]
__all__ += ["release_counts", "stability_of"]
