"""Attacks that are trained once, or anew for each release that they are asked about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Attack, Distinguisher, Knowledge, Release

__all__ = [
    "AttackEnsemble",
    "Path",
    "RetrainPerRelease",
    "ScoreTable",
    "TrainOnce",
    "TrainingInput",
    "join",
]

Floats = NDArray[np.float64]
Generators = Sequence[np.random.Generator]
Path = tuple[str | int, ...]
"""What tells the streams of one release from those of others."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """What attacks say of groups.

    Attributes
    ----------
    scores
        float64, shape (attack, group): higher = more likely inside.
    thresholds
        float64, shape (attack, group): the score from which on the attack says *inside*.
    seconds
        float64, shape (attack,): the time each took to train and score. What several share is in
        that of the first.
    misled
        float64, shape (attack, group): scores after training on worthless labels; None where
        these were not asked for.
    """

    scores: Floats
    thresholds: Floats
    seconds: Floats
    label_shuffled: Floats | None = None


def join(parts: Sequence[ScoreTable]) -> ScoreTable:
    """Return what is said of all groups, in order."""
    label_shuffled = [part.label_shuffled for part in parts if part.label_shuffled is not None]
    return ScoreTable(
        np.concatenate([part.scores for part in parts], axis=1),
        np.concatenate([part.thresholds for part in parts], axis=1),
        np.sum([part.seconds for part in parts], axis=0),
        np.concatenate(label_shuffled, axis=1) if label_shuffled else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class TrainingInput:
    """What attacks learn from, and the generators of each.

    ``worthless`` has shuffled labels, for the attacks that are misled, whose generators are
    ``label_shuffled``; None where none are.
    """

    knowledge: Knowledge
    rngs: Generators
    worthless: Knowledge | None = None
    label_shuffled: Generators = ()


class AttackEnsemble(Protocol):
    """Several attacks on what one mechanism publishes."""

    def answer(
        self, release: Release, *, path: Path = (), label_shuffled: bool = False
    ) -> ScoreTable:
        """Let each score every group; ``label_shuffled``: also once trained on worthless labels.

        Groups that are asked about for a control have a ``path`` of their own, for these change
        nothing about others.
        """


class TrainOnce:
    """Attacks that learn once, each when it is first asked."""

    def __init__(self, attacks: Sequence[Attack], learned: TrainingInput) -> None:
        self._attacks, self._trained = attacks, list[Distinguisher]()
        self._learned: TrainingInput | None = learned  # until all are trained

    def answer(
        self, release: Release, *, path: Path = (), label_shuffled: bool = False
    ) -> ScoreTable:
        """Let each score every group."""
        learned, self._learned = self._learned, None
        found, lost = [], []
        for i, attack in enumerate(self._attacks):
            started = perf_counter()
            if learned is not None:
                self._trained.append(attack.fit(learned.knowledge, rng=learned.rngs[i]))
            scores = self._trained[i].score(release)
            seconds = perf_counter() - started
            found.append((scores, np.full(len(scores), self._trained[i].threshold), seconds))
            if label_shuffled and learned is not None and learned.worthless is not None:
                # now, while what both derive of the release is at hand
                lost.append(
                    attack.fit(learned.worthless, rng=learned.label_shuffled[i]).score(release)
                )
        scores, thresholds, times = (np.array(each) for each in zip(*found, strict=True))
        return ScoreTable(scores, thresholds, times, np.array(lost) if lost else None)


class RetrainPerRelease:
    """Attacks by an adversary who studies every release that it is asked about.

    ``learn`` returns what is learnt from the release of one group, of which it is told the path
    and, last, how many of that path were asked about before.
    """

    def __init__(
        self, attacks: Sequence[Attack], learn: Callable[[Release, Path], TrainingInput]
    ) -> None:
        self._attacks, self._learn, self._n_asked = attacks, learn, Counter[Path]()

    def answer(
        self, release: Release, *, path: Path = (), label_shuffled: bool = False
    ) -> ScoreTable:
        """Let each score every group, as learnt from that group's release alone."""
        parts = []
        for row in range(len(release.values)):
            one = release.take(np.array([row]))
            started = perf_counter()
            learned = self._learn(one, (*path, self._n_asked[path]))
            studied = perf_counter() - started
            part = TrainOnce(self._attacks, learned).answer(one, label_shuffled=label_shuffled)
            part.seconds[0] += studied
            parts.append(part)
            self._n_asked[path] += 1
        return join(parts)
