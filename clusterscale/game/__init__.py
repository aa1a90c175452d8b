"""One play of the distinguishability game (NDSS18 §III, Fig. 1), for one target."""

from collections.abc import Iterator, Sequence

from clusterscale.contracts import Attack, Bounds, Game, Mechanism
from clusterscale.game.attack_evaluation import (
    CONFIDENCE,
    FALSE_POSITIVE_RATE,
    AttackEvaluation,
    study,
)
from clusterscale.game.outcome import Outcome, ReleasePlacement
from clusterscale.game.retraining import N_PARTS

__all__ = [
    "CONFIDENCE",
    "FALSE_POSITIVE_RATE",
    "N_PARTS",
    "AttackEvaluation",
    "Outcome",
    "ReleasePlacement",
    "play",
    "study",
]


def play(
    game: Game,
    mechanisms: Sequence[Mechanism],
    attacks: Sequence[Attack],
    *,
    seed: int,
    path: Sequence[str | int],
    bounds: Bounds | None = None,
    control: bool = True,
) -> Iterator[Outcome]:
    """Publish the groups of ``game`` under each mechanism, and yield the outcome of each attack.

    The groups are the same for all mechanisms and attacks, so that these are compared on the
    same users. The other parameters are those of :class:`AttackEvaluation`.
    """
    for mechanism in mechanisms:
        evaluation = AttackEvaluation(
            game, mechanism, attacks, seed=seed, path=path, bounds=bounds, control=control
        )
        yield from evaluation.outcomes()
