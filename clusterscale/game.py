"""One play of the distinguishability game (NDSS18 §III, Fig. 1), for one target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np

from clusterscale.contracts import Attack, Bounds, Game, Knowledge, Labels, Mechanism, Release
from clusterscale.metrics import accuracy, auc
from clusterscale.seeds import stream

__all__ = ["Outcome", "play"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attack did against one mechanism.

    ``auc``, ``accuracy`` and ``control_auc`` (with shuffled labels; not a number where no control
    was asked for) are over the challenges; ``seconds`` is the time to train and score, without
    the control. What several attacks share is in the time of the first.
    """

    mechanism: str
    attack: str
    auc: float
    accuracy: float
    control_auc: float
    seconds: float


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
    """Publish the groups of ``game`` under each mechanism and let each attack tell them apart.

    Parameters
    ----------
    game
        Drawn and counted groups; the same for all mechanisms and attacks, so that these are
        compared on the same people.
    mechanisms, attacks
        What to try; every pair yields one outcome.
    seed, path
        Root seed, and what tells this play from every other. Noise is drawn from the streams
        ``(…, "noise", path, mechanism, "training" | "challenge")``, an attack's own randomness
        from ``(…, "attack", path, mechanism, attack)``.
    bounds
        The most that one unit of data changes the counts; mechanisms take from it what sensitivity
        they were not given.
    control
        Also train each attack on shuffled labels; its AUC should be about ½. An attack that
        ignores training labels scores as before, so there the answers are shuffled instead.
    """
    for mechanism in mechanisms:
        place = (*path, mechanism.label)
        bound = mechanism if bounds is None else mechanism.bind(bounds)
        knowledge = game.knowledge(bound, rng=stream(seed, "noise", *place, "training"))
        noise = stream(seed, "noise", *place, "challenge")
        challenge = game.publish(game.challenge.counts, bound, rng=noise)
        worthless = knowledge.shuffled(stream(seed, "control", *place)) if control else None
        for attack in attacks:
            rngs = (stream(seed, use, *place, attack.label) for use in ("attack", "control"))
            found = _try(attack, knowledge, worthless, challenge, game.challenge.labels, *rngs)
            yield replace(found, mechanism=mechanism.label)  # as it was called, not as bound


def _try(
    attack: Attack,
    knowledge: Knowledge,
    worthless: Knowledge | None,
    challenge: Release,
    labels: Labels,
    rng: np.random.Generator,
    control_rng: np.random.Generator,
) -> Outcome:
    started = perf_counter()
    distinguisher = attack.fit(knowledge, rng=rng)
    scores = distinguisher.score(challenge)
    seconds = perf_counter() - started
    control_auc = np.nan
    if worthless is not None:
        misled = attack.fit(worthless, rng=control_rng).score(challenge)
        ignores_labels = np.array_equal(misled, scores)
        answers = control_rng.permutation(labels) if ignores_labels else labels
        control_auc = auc(answers, misled)
    return Outcome(
        mechanism=challenge.mechanism,
        attack=attack.label,
        auc=auc(labels, scores),
        accuracy=accuracy(labels, scores, distinguisher.threshold),
        control_auc=control_auc,
        seconds=seconds,
    )
