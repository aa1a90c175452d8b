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
    Flags,
    Floats,
    Ints,
    Labels,
    Level,
    Members,
    Noise,
    NoiseSource,
    Reason,
    Release,
    Scores,
    Singles,
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
__all__ += ["Counts", "Distinguisher", "Even", "Examples", "Flags", "Floats", "Game"]
__all__ += ["GroupRequest", "GroupSample", "Guarantee", "Ints", "Knowledge", "Labels", "Level"]
__all__ += ["NO_NOISE", "Mechanism", "Members", "Named", "NamedModel", "Noise", "NoiseScope"]
__all__ += ["ONE_DAY", "NoiseSource", "NonEmptyUnique", "OptionalUnique", "Positive", "Prior"]
__all__ += ["PrivacyLoss", "Probability", "Reason", "Reference", "Release", "Scores", "Share"]
__all__ += ["Singles", "Stability", "Support", "TableLaw", "TargetKnowledge", "TraceStep"]
__all__ += ["VERDICT_LEVELS", "Traces", "UsualSettings", "Values", "Weights", "check_days"]
__all__ += ["check_weights", "distinct", "hash_of", "names_of", "publish", "release_counts"]
__all__ += ["stability_of"]
