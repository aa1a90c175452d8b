"""Train attacks once, or retrain them for each challenge release."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from clusterscale.attacks.base import score_groups
from clusterscale.contracts import Attack, Distinguisher, Knowledge, Release

Floats = NDArray[np.float64]
Generators = Sequence[np.random.Generator]
Path = tuple[str | int, ...]
"""Path that distinguishes the random streams of a release from those of others."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoreTable:
    """Scores of groups by several attacks.

    Attributes
    ----------
    scores
        float64, shape (attack, group): higher = more likely inside.
    thresholds
        float64, shape (attack, group): scores at or above it mean *inside*.
    seconds
        float64, shape (attack,): training and scoring time of each. Time that several share is
        counted for the first.
    label_shuffled
        float64, shape (attack, group): scores after training on shuffled labels; None if these were
        not requested.
    """

    scores: Floats
    thresholds: Floats
    seconds: Floats
    label_shuffled: Floats | None = None


def join(parts: Sequence[ScoreTable]) -> ScoreTable:
    """Concatenate tables along groups, in order; training times are summed."""
    label_shuffled = [part.label_shuffled for part in parts if part.label_shuffled is not None]
    return ScoreTable(
        np.concatenate([part.scores for part in parts], axis=1),
        np.concatenate([part.thresholds for part in parts], axis=1),
        np.sum([part.seconds for part in parts], axis=0),
        np.concatenate(label_shuffled, axis=1) if label_shuffled else None,
    )


@dataclass(frozen=True, slots=True, eq=False)
class TrainingInput:
    """Knowledge to train attacks on, and a generator for each.

    ``shuffled`` has shuffled labels, for the control attacks, whose generators are
    ``shuffled_rngs``; None without a control.
    """

    knowledge: Knowledge
    rngs: Generators
    shuffled: Knowledge | None = None
    shuffled_rngs: Generators = ()


class TrainOnce:
    """Attacks on the releases of one mechanism, trained once, each before it first scores."""

    def __init__(self, attacks: Sequence[Attack], training: TrainingInput) -> None:
        self._attacks, self._trained = attacks, list[Distinguisher]()
        self._training: TrainingInput | None = training  # until all are trained

    def score(
        self, release: Release, *, path: Path = (), label_shuffled: bool = False
    ) -> ScoreTable:
        """Score every group; with ``label_shuffled``, also after training on shuffled labels."""
        training, self._training = self._training, None
        results, shuffled = [], []
        for i, attack in enumerate(self._attacks):
            started = perf_counter()
            if training is not None:
                self._trained.append(attack.fit(training.knowledge, rng=training.rngs[i]))
            scores = score_groups(attack, self._trained[i], release)
            seconds = perf_counter() - started
            results.append((scores, np.full(len(scores), self._trained[i].threshold), seconds))
            if label_shuffled and training is not None and training.shuffled is not None:
                # now, while both share cached features of the release
                rng = training.shuffled_rngs[i]
                control = attack.fit(training.shuffled, rng=rng)
                shuffled.append(score_groups(attack, control, release))
        scores, thresholds, times = (np.array(column) for column in zip(*results, strict=True))
        return ScoreTable(scores, thresholds, times, np.array(shuffled) if shuffled else None)


class RetrainPerRelease:
    """Attacks that are retrained for every challenge release.

    ``make_input`` takes the release of one group, and a path that ends with the number of earlier
    releases of the same path; it returns the training input.
    """

    def __init__(
        self, attacks: Sequence[Attack], make_input: Callable[[Release, Path], TrainingInput]
    ) -> None:
        self._attacks, self._make_input, self._n_scored = attacks, make_input, Counter[Path]()

    def score(
        self, release: Release, *, path: Path = (), label_shuffled: bool = False
    ) -> ScoreTable:
        """Score every group with each attack, trained on the release of that group alone.

        Groups of a control have their own ``path``, so that they change no other scores.
        """
        parts = []
        for row in range(len(release.values)):
            one = release.take(np.array([row]))
            started = perf_counter()
            training = self._make_input(one, (*path, self._n_scored[path]))
            study_seconds = perf_counter() - started
            part = TrainOnce(self._attacks, training).score(one, label_shuffled=label_shuffled)
            part.seconds[0] += study_seconds
            parts.append(part)
            self._n_scored[path] += 1
        return join(parts)


AttackEnsemble = TrainOnce | RetrainPerRelease
