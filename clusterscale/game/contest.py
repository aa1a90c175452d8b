"""Attacks trained on what one mechanism publishes, and asked about groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import (
    Attack,
    Bounds,
    Distinguisher,
    Game,
    Knowledge,
    Labels,
    Mechanism,
    Release,
    Sample,
    Scores,
    publish,
)
from clusterscale.errors import InputError
from clusterscale.game.controls import Controls
from clusterscale.game.outcome import Outcome
from clusterscale.metrics import (
    LEVELS,
    accuracy,
    auc,
    auc_interval,
    calibrated_counts,
    epsilon_lower_bound,
    tpr_at_fpr,
)
from clusterscale.seeds import stream

__all__ = ["CONFIDENCE", "FALSE_POSITIVE_RATE", "Contest"]

CONFIDENCE = 0.95
"""Of intervals and bounds."""

FALSE_POSITIVE_RATE = 0.1
"""Where true positives are told, unless another rate is asked for."""

Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass(slots=True)
class _Trial:
    """One attack after training: what it said of the challenges so far."""

    attack: str
    distinguisher: Distinguisher
    scores: Scores
    seconds: float
    control_auc: float = np.nan
    absent_auc: float = np.nan


class Contest:
    """Every attack on what one mechanism publishes; trained once, asked as often as one likes.

    Parameters
    ----------
    game
        Drawn and counted groups.
    mechanism
        What publishes them. It is called by its label as given, not as bound.
    attacks
        What to try.
    seed, path
        Root seed, and what tells this play from every other. Noise is drawn from the streams
        ``(…, "noise", path, mechanism, "training" | "challenge" | "absent")``, an attack's own
        randomness from ``(…, "attack", path, mechanism, attack)``.
    bounds
        The most that one unit of data changes the counts; the mechanism takes from it what
        sensitivity it was not given.
    control
        Also train each attack on shuffled labels, and ask each about groups with a stand-in for
        the target, where the game has them: either AUC should be about ½. An attack that ignores
        training labels scores as before when they are shuffled, so there the answers are shuffled
        instead. Controls are over the first challenges.
    """

    def __init__(
        self,
        game: Game,
        mechanism: Mechanism,
        attacks: Sequence[Attack],
        *,
        seed: int,
        path: Sequence[str | int],
        bounds: Bounds | None = None,
        control: bool = True,
    ) -> None:
        place = (*path, mechanism.label)
        self._label, self._group_size = mechanism.label, game.group_size
        self._bound = mechanism if bounds is None else mechanism.bind(bounds)
        self._asks_again, self._n_first = game.asks_again, len(game.challenge)
        self._noise = stream(seed, "noise", *place, "challenge")
        self._labels = game.challenge.labels
        self._sums: Floats | None = None
        knowledge = game.knowledge(self._bound, rng=stream(seed, "noise", *place, "training"))
        challenge = self._publish(game.challenge, self._noise)
        controls = None
        if control:
            self._sums = _sums(challenge)
            worthless = knowledge.shuffled(stream(seed, "control", *place))
            controls = Controls(worthless, challenge, game.challenge.labels)
            if game.absent is not None:
                release = self._publish(game.absent, stream(seed, "noise", *place, "absent"))
                controls = replace(controls, absent=release, stands_in=game.absent.labels)
        self._trials = []
        for attack in attacks:
            rngs = (stream(seed, use, *place, attack.label) for use in ("attack", "control"))
            self._trials.append(_try(attack, knowledge, challenge, controls, *rngs))

    def ask(self, challenge: Sample) -> None:
        """Ask every attack about more groups; what it said of earlier ones stands."""
        release = self._publish(challenge, self._noise)
        self._labels = np.concatenate([self._labels, challenge.labels])
        if self._sums is not None:
            self._sums = np.concatenate([self._sums, _sums(release)])
        for trial in self._trials:
            started = perf_counter()
            scores = trial.distinguisher.score(release)
            trial.seconds += perf_counter() - started
            trial.scores = np.concatenate([trial.scores, scores])

    def widest(self, confidence: float) -> float:
        """Return the width of the widest interval of an AUC."""
        ends = (_interval(self._labels, trial.scores, confidence) for trial in self._trials)
        return max(high - low for low, high in ends)

    def outcomes(
        self,
        *,
        false_positive_rate: float = FALSE_POSITIVE_RATE,
        confidence: float = CONFIDENCE,
    ) -> Iterator[Outcome]:
        """Yield the outcome of each attack; its interval and bound at ``confidence``."""
        labels, first = self._labels, slice(self._n_first)
        unknown = (np.nan, np.nan)
        naive = np.nan if self._sums is None else _known(auc, np.nan, labels, self._sums)
        for trial in self._trials:
            scores = trial.scores
            low, high = _known(_interval, unknown, labels, scores, confidence)
            epsilon = np.nan
            if not self._asks_again:
                epsilon = _known(epsilon_lower_bound, np.nan, labels, scores, confidence=confidence)
            nothing = (np.zeros(LEVELS, np.int64),) * 2
            inside, outside = _known(calibrated_counts, nothing, labels[first], scores[first])
            yield Outcome(
                mechanism=self._label,
                attack=trial.attack,
                auc=auc(labels, scores),
                auc_low=low,
                auc_high=high,
                accuracy=accuracy(labels, scores, trial.distinguisher.threshold),
                tpr=_known(tpr_at_fpr, np.nan, labels, scores, false_positive_rate),
                epsilon_lower=epsilon,
                control_auc=trial.control_auc,
                absent_auc=trial.absent_auc,
                naive_auc=naive,
                seconds=trial.seconds,
                n_challenges=len(labels),
                level_inside=tuple(inside.tolist()),
                level_outside=tuple(outside.tolist()),
            )

    def _publish(self, sample: Sample, rng: np.random.Generator) -> Release:
        return publish(sample.counts, self._bound, group_size=self._group_size, rng=rng)


def _try(
    attack: Attack,
    knowledge: Knowledge,
    challenge: Release,
    controls: Controls | None,
    rng: np.random.Generator,
    control_rng: np.random.Generator,
) -> _Trial:
    started = perf_counter()
    distinguisher = attack.fit(knowledge, rng=rng)
    scores = distinguisher.score(challenge)
    trial = _Trial(attack.label, distinguisher, scores, perf_counter() - started)
    if controls is not None:
        trial.control_auc = controls.shuffled(attack, scores, control_rng)
        trial.absent_auc = controls.without_target(distinguisher, scores)
    return trial


def _interval(labels: Labels, scores: Scores, confidence: float) -> tuple[float, float]:
    # on the scale of odds, for near 1 the plain interval misses more often than it says
    return auc_interval(labels, scores, confidence=confidence, scale="odds")


def _sums(release: Release) -> Floats:
    """Return the sum of all published values of each group."""
    return np.asarray(release.flat.sum(axis=1), np.float64)


def _known(measure: Callable[..., T], unknown: T, *args: object, **options: object) -> T:
    """Return what ``measure`` says, or ``unknown`` where the challenges do not tell."""
    try:
        return measure(*args, **options)
    except InputError:
        return unknown
