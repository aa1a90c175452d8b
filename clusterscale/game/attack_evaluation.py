"""Evaluation of attacks on the releases of one mechanism."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from clusterscale import metrics
from clusterscale.attacks.base import score_groups
from clusterscale.contracts import (
    Adversary,
    Attack,
    Bounds,
    Distinguisher,
    Examples,
    Floats,
    Game,
    GroupSample,
    Knowledge,
    Labels,
    Mechanism,
    Release,
    Scores,
    Values,
    publish,
)
from clusterscale.errors import InputError
from clusterscale.foreign import call_foreign, returns
from clusterscale.game.outcome import (
    Outcome,
    ReleasePlacement,
    place_score,
    shuffled_label_auc,
    substitute_auc,
)
from clusterscale.game.retraining import named, refit_aucs
from clusterscale.seeds import stream

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
            with named(attack):
                if training is not None:
                    self._trained.append(attack.fit(training.knowledge, rng=training.rngs[i]))
                scores = score_groups(attack, self._trained[i], release)
            seconds = perf_counter() - started
            results.append((scores, np.full(len(scores), self._trained[i].threshold), seconds))
            if label_shuffled and training is not None and training.shuffled is not None:
                # now, while both share cached features of the release
                rng = training.shuffled_rngs[i]
                with named(attack):
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


CONFIDENCE = 0.95
"""Confidence of intervals and bounds."""

FALSE_POSITIVE_RATE = 0.1
"""Default false positive rate at which true positives are reported."""

T = TypeVar("T")


class AttackEvaluation:
    """Evaluation of attacks on the releases of one mechanism, to which challenges can be added.

    Parameters
    ----------
    game
        Drawn and counted groups.
    mechanism
        Publishes them. Results have its id as given, not as bound.
    attacks
        Attacks to evaluate.
    seed, path
        Root seed, and a path that is unique to this play. Noise is drawn from the streams
        ``(…, "noise", path, mechanism, "training" | "challenge" | "absent")``, an attack's own
        randomness from ``(…, "attack", path, mechanism, attack)``. Those of training also have a
        number per release if the adversary retrains for each.
    bounds
        The most that one unit of data changes the counts; the source of sensitivities that the
        mechanism was not given.
    control
        Also train each attack on shuffled labels, and score groups with a substitute for the
        target, where the game has them: both AUCs should be about ½. An attack that ignores
        training labels has unchanged scores when they are shuffled, so the labels of its
        challenges are shuffled instead. Controls are over the first challenges.
    retrain
        Also train each attack without a part of the groups, so that intervals are for an adversary
        who draws other groups to train on. The AUCs are over the first challenges. An adversary who
        retrains for each release draws other groups anyway.
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
        retrain: bool = True,
    ) -> None:
        # The game is not kept, so that training counts are freed once all attacks are trained.
        self._group_size = game.group_size
        self._reuses_training_groups = game.reuses_training_groups
        self._attacks, self._seed, self._n_first = attacks, seed, len(game.challenge)
        self._shape = game.challenge.counts.shape[1:]
        self._mechanism, self._path = mechanism, (*path, mechanism.id)
        self._bound = mechanism if bounds is None else mechanism.bind(bounds)
        self._noise, self._labels = self._stream("noise", "challenge"), game.challenge.labels
        challenge = self._publish(game.challenge, self._noise)
        self._ensemble, training = self._train(game.adversary, challenge, control)
        self._table = self._ensemble.score(challenge, label_shuffled=control)
        self._refits = [np.zeros(0)] * len(attacks)
        if retrain and training is not None:
            self._refits = refit_aucs(
                attacks, training.knowledge, challenge, self._labels, make_rng=self._stream
            )
        self._sums = _sums(challenge) if control else None
        no_control = [np.nan] * len(attacks)
        self._shuffled_aucs, self._substitute_aucs = (
            self._control(game.absent) if control else (no_control, no_control)
        )

    @property
    def cases(self) -> list[tuple[str, str]]:
        """The ids of the mechanism and each attack."""
        return [(self._mechanism.id, attack.id) for attack in self._attacks]

    def add_challenges(self, challenge: GroupSample) -> None:
        """Score more groups with every attack; scores of earlier ones do not change."""
        release = self._publish(challenge, self._noise)
        self._table = join([self._table, self._ensemble.score(release)])  # first: it may fail
        self._labels = np.concatenate([self._labels, challenge.labels])
        if self._sums is not None:
            self._sums = np.concatenate([self._sums, _sums(release)])

    def score_release(self, values: Values) -> list[ReleasePlacement]:
        """Score one published release, float64, shape (roi, epoch), with every attack.

        Raises InputError if the shape differs from that of the challenges.
        """
        if values.shape != self._shape:
            raise InputError(
                f"the release has shape {values.shape}, but {self._mechanism.label} publishes "
                f"{self._shape} of this cube: (roi, epoch)"
            )
        bound, size = self._bound, self._group_size
        laws = bound.law_for_attacks(size), bound.table_laws(size, values.shape[-2:])
        release = Release(values[None], size, bound.label, bound.noise, *laws)
        table = self._ensemble.score(release, path=("published",))
        rows = zip(table.scores[:, 0], table.thresholds[:, 0], self._table.scores, strict=True)
        return [
            place_score(attack.label, score, threshold, self._labels, challenges)
            for attack, (score, threshold, challenges) in zip(self._attacks, rows, strict=True)
        ]

    def _train(
        self, adversary: Adversary, challenge: Release, control: bool
    ) -> tuple[AttackEnsemble, TrainingInput | None]:
        """Return the attacks, and what they are trained on unless the adversary retrains."""
        self._rngs: list[np.random.Generator] = []

        def make_input(release: Release, path: Path) -> TrainingInput:
            rng = self._stream("noise", "training", *path)
            knowledge = study_release(adversary, release, self._bound, rng=rng)
            rngs, label_shuffled = (
                [self._stream(use, attack.id, *path) for attack in self._attacks]
                for use in ("attack", "control")
            )
            if not control:
                return TrainingInput(knowledge, rngs)
            self._rngs = label_shuffled
            shuffled = knowledge.shuffled(self._stream("control", *path))
            return TrainingInput(knowledge, rngs, shuffled, label_shuffled)

        if adversary.retrains_per_release:
            return RetrainPerRelease(self._attacks, make_input), None
        row, path = _first_studied(adversary, self._seed, self._path)
        training = make_input(challenge.take(np.array([row])), path)
        return TrainOnce(self._attacks, training), training

    def _control(self, absent: GroupSample | None) -> tuple[list[float], list[float]]:
        """Return the control AUCs of every attack, by shuffled labels and by substitutes."""
        labels, label_shuffled = self._labels, self._table.label_shuffled
        assert label_shuffled is not None
        by_label = [
            shuffled_label_auc(labels, *scores, rng=rng)
            for *scores, rng in zip(self._table.scores, label_shuffled, self._rngs, strict=True)
        ]
        if absent is None:
            return by_label, [np.nan] * len(by_label)
        release = self._publish(absent, self._stream("noise", "absent"))
        table = self._ensemble.score(release, path=("absent",))
        pairs = zip(table.scores, self._table.scores, strict=True)
        return by_label, [substitute_auc(absent, one, labels, other) for one, other in pairs]

    def _stream(self, use: str, *path: str | int) -> np.random.Generator:
        return stream(self._seed, use, *self._path, *path)

    def max_interval_width(self, confidence: float) -> float:
        """Return the width of the widest AUC interval, without the variance of training.

        More challenges do not reduce that variance.
        """
        ends = (_interval(self._labels, scores, confidence) for scores in self._table.scores)
        return max(high - low for low, high in ends)

    def outcomes(
        self,
        *,
        false_positive_rate: float = FALSE_POSITIVE_RATE,
        confidence: float = CONFIDENCE,
    ) -> Iterator[Outcome]:
        """Yield the outcome of each attack; its interval and bound at ``confidence``."""
        labels, table = self._labels, self._table
        first = slice(self._n_first)
        unknown = (np.nan, np.nan)
        naive = np.nan if self._sums is None else _known(metrics.auc, np.nan, labels, self._sums)
        for i, attack in enumerate(self._attacks):
            scores = table.scores[i]
            refits = self._refits[i]
            low, high = _known(_interval, unknown, labels, scores, confidence, refits)
            epsilon = np.nan
            if not self._reuses_training_groups:
                epsilon = _known(
                    metrics.epsilon_lower_bound, np.nan, labels, scores, confidence=confidence
                )
            no_counts = (np.zeros(metrics.N_PVALUE_BINS, np.int64),) * 2
            inside, outside = _known(
                metrics.calibrated_counts, no_counts, labels[first], scores[first]
            )
            yield Outcome(
                mechanism=self._mechanism.id,
                attack=attack.id,
                auc=metrics.auc(labels, scores),
                auc_low=low,
                auc_high=high,
                auc_degrees=_known(metrics.auc_degrees, np.nan, labels, scores, refits),
                accuracy=metrics.accuracy(labels, scores, table.thresholds[i]),
                tpr=_known(metrics.tpr_at_fpr, np.nan, labels, scores, false_positive_rate),
                epsilon_lower=epsilon,
                control_auc=self._shuffled_aucs[i],
                absent_auc=self._substitute_aucs[i],
                naive_auc=naive,
                seconds=float(table.seconds[i]),
                n_challenges=len(labels),
                level_inside=tuple(inside.tolist()),
                level_outside=tuple(outside.tolist()),
            )

    def _publish(self, sample: GroupSample, rng: np.random.Generator) -> Release:
        size = self._group_size
        return publish(sample.counts, self._bound, group_size=size, rng=rng, sums=sample.sums)


def _first_studied(adversary: Adversary, seed: int, path: Sequence[str | int]) -> tuple[int, Path]:
    """Return the first challenge that an adversary studies, and the number of its streams.

    An adversary who retrains per release starts with the first, number 0. Others study one of a
    pair, with the target or without, and have no number. ``path`` is that of an evaluation and
    the id of its mechanism.
    """
    if adversary.retrains_per_release:
        return 0, (0,)
    return int(stream(seed, "shown", *path).integers(2)), ()


def study(
    game: Game,
    mechanism: Mechanism,
    *,
    seed: int,
    path: Sequence[str | int],
    bounds: Bounds | None = None,
) -> Knowledge:
    """Return the knowledge of the adversary of an :class:`AttackEvaluation`, bit by bit the same.

    If the adversary retrains per release, it is the knowledge from the first one.
    """
    bound, path = mechanism if bounds is None else mechanism.bind(bounds), (*path, mechanism.id)
    noise = stream(seed, "noise", *path, "challenge")
    counts, sums = game.challenge.counts, game.challenge.sums
    release = publish(counts, bound, group_size=game.group_size, rng=noise, sums=sums)
    row, number = _first_studied(game.adversary, seed, path)
    rng = stream(seed, "noise", *path, "training", *number)
    return study_release(game.adversary, release.take(np.array([row])), bound, rng=rng)


def _interval(
    labels: Labels, scores: Scores, confidence: float, refits: ArrayLike = ()
) -> tuple[float, float]:
    # on the scale of odds, because near 1 the plain interval has too low a coverage
    return metrics.auc_interval(labels, scores, confidence=confidence, scale="odds", refits=refits)


def _sums(release: Release) -> Floats:
    """Return the sum of all published values of each group."""
    return np.asarray(release.flat.sum(axis=1), np.float64)


def _known(measure: Callable[..., T], unknown: T, *args: object, **options: object) -> T:
    """Return ``measure`` of the challenges, or ``unknown`` if it raises InputError for them."""
    try:
        return measure(*args, **options)
    except InputError:
        return unknown


def study_release(
    adversary: Adversary, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
) -> Knowledge:
    """Return what an adversary derives from a release of its own, see :meth:`Adversary.study`.

    Raises PluginError if it writes to the release, or returns something else than labelled
    groups.
    """

    def fault(returned: Any, *_: Any, **__: Any) -> str:
        if wrong := returns(Knowledge)(returned) or returns(Examples)(returned.training):
            return wrong
        n_groups, n_labels = len(returned.training.release.values), len(returned.training.labels)
        return "" if n_groups == n_labels else f"has {n_labels} labels for {n_groups} groups"

    release.values.flags.writeable = False  # it is a copy, and a view of it would have a base
    known: Knowledge = call_foreign(
        adversary, "study", adversary.study, release, mechanism, rng=rng, fault=fault
    )
    return known
