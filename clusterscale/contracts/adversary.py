"""Adversaries: what they know, the game they play, and what a prior and an attack must have."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.data import (
    CellCoordinates,
    CellLaw,
    Counts,
    Ints,
    Labels,
    Noise,
    Release,
    Scores,
    TableLaw,
    Traces,
    Values,
)
from clusterscale.contracts.mechanism import Mechanism
from clusterscale.foreign import Fault, array_fault, returns
from clusterscale.models import Named, NamedModel


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Examples:
    """A labelled release to train on; compared by identity, as a release is.

    Attributes
    ----------
    release
        Published values of each group.
    labels
        Shape (group,): whether the target is inside.
    blocks
        int64, shape (group,): groups with the same number share members (the same people in
        several weeks, the two halves of a pair), so one cannot validate what was learnt from the
        other.
    """

    release: Release
    labels: Labels
    blocks: NDArray[np.int64]

    def take(self, rows: Ints) -> "Examples":
        """Return some of the groups."""
        return Examples(self.release.take(rows), self.labels[rows], self.blocks[rows])

    def shuffled(self, rng: np.random.Generator) -> "Examples":
        """Return the same release with labels that are independent of the target.

        Half of each class is labelled inside, at random: a plain permutation can by chance
        correlate with the truth, which would affect a trained attack.
        """
        labels = self.labels.copy()
        for side in (True, False):
            rows = rng.permutation(np.flatnonzero(self.labels == side))
            labels[rows] = np.arange(len(rows)) % 2 == 0
        return replace(self, labels=labels)


@dataclass(frozen=True, slots=True)
class TargetKnowledge:
    """What the adversary knows about the target's locations and about users in general.

    Attributes
    ----------
    trace
        Flat cells of the target that are known, sorted, shape (event,).
    complete
        Whether these are all cells of the target.
    occupancy
        Shape (roi, epoch): users of the adversary's reference who are in each cell; int32, or
        float64 if it is an expectation.
    n_users
        Number of users in the reference.
    weights
        Weight of the target, and of all users of the reference, the target among them, as the
        adversary assumes them; None if users count as one.
    """

    trace: Ints
    complete: bool
    occupancy: Counts | Values
    n_users: int
    weights: tuple[float, float] | None = None

    @property
    def mean_trace(self) -> Values:
        """How often a user of the reference is in a cell, between 0 and 1, shape (roi, epoch)."""
        return self.occupancy / self.n_users

    def plus(self, other: "TargetKnowledge") -> "TargetKnowledge":
        """Add the counts of the users that follow these."""
        trace = np.concatenate([self.trace, other.trace])
        weights = self.weights
        if weights is not None and other.weights is not None:
            weights = weights[0] + other.weights[0], weights[1] + other.weights[1]
        occupancy = self.occupancy + other.occupancy
        return replace(self, trace=trace, occupancy=occupancy, weights=weights)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Everything that the adversary has for training.

    Attributes
    ----------
    training
        Groups to learn from.
    whereabouts
        Target and reference locations; None if the prior covers only groups.
    validation
        Groups for choosing a threshold, separate from the training groups; None if there are none.
    """

    training: Examples
    whereabouts: TargetKnowledge | None = None
    validation: Examples | None = None

    def shuffled(self, rng: np.random.Generator) -> "Knowledge":
        """Return the same knowledge with shuffled labels; see :meth:`Examples.shuffled`."""
        validation = self.validation and self.validation.shuffled(rng)
        return replace(self, training=self.training.shuffled(rng), validation=validation)


@dataclass(frozen=True, slots=True)
class GroupSample:
    """Groups that have been drawn and counted.

    Attributes
    ----------
    counts
        Int32, shape (group, roi, epoch): numbers of users.
    labels, blocks
        As in :class:`Examples`.
    sums
        float64, the shape of ``counts``: sums of the weights of the users counted; None if users
        have none.
    """

    counts: Counts
    labels: Labels
    blocks: NDArray[np.int64]
    sums: Values | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Ints) -> "GroupSample":
        """Return some of the groups; their counts are copied."""
        sums = None if self.sums is None else self.sums[rows]
        return GroupSample(self.counts[rows], self.labels[rows], self.blocks[rows], sums)

    def plus(self, other: "GroupSample") -> "GroupSample":
        """Add the counts of other users in the same groups."""
        sums = None if self.sums is None or other.sums is None else self.sums + other.sums
        return replace(self, counts=self.counts + other.counts, sums=sums)


class Adversary(Protocol):
    """Decides whether the target is inside; never sees the challenge groups."""

    @property
    def retrains_per_release(self) -> bool:
        """Whether it studies each challenge release separately."""

    def study(
        self, release: Release, mechanism: Mechanism, *, rng: np.random.Generator
    ) -> Knowledge:
        """Return the training knowledge that it derives from a ``release`` of one group.

        ``mechanism``, bound, is all that the publisher says about how the release was made.
        """

    def plus(self, other: Self) -> Self:
        """Return the same adversary, with its knowledge about the users that follow these."""


@dataclass(frozen=True, slots=True)
class Game:
    """A distinguishability game after setup: groups are drawn and counted, nothing is published.

    Attributes
    ----------
    group_size
        Members in each group.
    adversary
        The adversary that must distinguish the groups.
    challenge
        Challenge groups; their labels are the answers, which the adversary never sees.
    reuses_training_groups
        Whether the challenge groups are the adversary's own training groups. It may then recognise
        a group whoever is inside, so its scores give no bound on ε.
    absent
        A control: groups formed like challenges with the target and labelled True, but with another
        user in its place. If ``reuses_training_groups``, these are new groups, together with new
        groups without the target.
    more
        Draws the given number of further challenges, like the first ones, without repeats.
    """

    group_size: int
    adversary: Adversary
    challenge: GroupSample
    reuses_training_groups: bool = False
    absent: GroupSample | None = None
    more: Callable[[int], GroupSample] | None = None

    def plus(self, other: "Game") -> "Game":
        """Add the counts of the users that follow these, in the same groups.

        Neither game draws ``more``: all challenges are counted beforehand.
        """
        adversary: Any = self.adversary.plus(other.adversary)
        shared = self.challenge is getattr(self.adversary, "training", None)
        challenge = adversary.training if shared else self.challenge.plus(other.challenge)
        absent = add(self.absent, other.absent)
        return replace(self, adversary=adversary, challenge=challenge, absent=absent)


def add(one: Any, other: Any) -> Any:
    """Return the sum over both sets of users; None if there is nothing to add."""
    return None if one is None else one.plus(other)


@dataclass(frozen=True, slots=True, eq=False)
class GroupRequest:
    """Groups that a prior has to draw and count for one target.

    Attributes
    ----------
    traces, target, group_size
        Users of the period of the release, the index of the target, and members of a group.
    frame, past
        Coordinates of the cells of ``traces``; traces of the same users in the observed periods
        before the release.
    lists
        Membership lists, as indices of users, that released groups are drawn from; None: from all
        users. An adversary's own training groups are drawn from whom it knows.
    validate
        Whether to draw groups for choosing a threshold.
    mean_weight
        Mean weight of all users, which is public; NaN if not known.
    rng, control, more
        Draw the groups; control groups with a substitute for the target, if given; and the
        challenges that are added later, if any. What is drawn from ``rng`` depends on no other.
    """

    traces: Traces
    target: int
    group_size: int
    rng: np.random.Generator
    frame: CellCoordinates | None = None
    past: Sequence[Traces] = ()
    lists: Sequence[Sequence[int]] | None = None
    validate: bool = False
    control: np.random.Generator | None = None
    more: np.random.Generator | None = None
    mean_weight: float = np.nan


def _game_fault(returned: Any, *_: Any, **__: Any) -> str:
    """Return what is wrong with a game: its groups must be counted, labelled and in blocks."""
    if wrong := returns(Game)(returned):
        return wrong
    for name in ("challenge", "absent"):
        sample = getattr(returned, name)
        if sample is None and name == "absent":
            continue
        shape = getattr(getattr(sample, "counts", None), "shape", ())
        if len(shape) != 3:
            return f"has {name} counts of shape {shape}, but should have (group, roi, epoch)"
        for what, dtype, wanted in (
            ("counts", np.int32, shape),
            ("labels", np.bool_, shape[:1]),
            ("blocks", np.int64, shape[:1]),
        ):
            if wrong := array_fault(getattr(sample, what), dtype, wanted, finite=True):
                return f"has {name} groups whose {what} are wrong: {wrong}"
    return "" if hasattr(returned.adversary, "study") else "has an adversary without study"


class Prior(NamedModel):
    """An adversary's knowledge before the release.

    A subclass defines ``n_challenges``, ``n_rows`` and ``set_up``, and sets ``needs_past`` if it
    learns from releases of past periods, ``gives_whereabouts`` if it includes where the target was,
    and ``adds_challenges`` if more challenges can be added later. ``trains_on_weights`` is False if
    its training groups have no sums of weights even where users have weights. ``guesses_cells`` is
    True if it fills in cells that it does not know, as of one table of places and epochs.
    """

    _registry: ClassVar[str] = "clusterscale.priors:PRIORS"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {
        **{name: returns(Integral) for name in ("n_challenges", "n_groups", "n_rows")},
        "set_up": _game_fault,
        "studies": returns(tuple, what="two numbers"),
    }

    needs_past: ClassVar[bool] = False
    gives_whereabouts: ClassVar[bool] = False
    adds_challenges: ClassVar[bool] = False
    trains_on_weights: ClassVar[bool] = True
    guesses_cells: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_challenges(self) -> int:
        """Number of initial challenges."""

    @property
    def n_groups(self) -> int:
        """Number of released groups that are drawn initially: by default the challenges."""
        return self.n_challenges

    @abstractmethod
    def n_rows(self, n_past: int, *, validate: bool, control: bool) -> int:
        """Return how many groups, each in one period, are counted initially."""

    @abstractmethod
    def set_up(self, request: GroupRequest) -> Game:
        """Draw and count the groups of one target."""

    def studies(self, *, validate: bool, control: bool) -> tuple[int, int]:
        """Return the number of releases it studies, and the number of synthetic groups for each.

        Both per mechanism; 0 if the adversary has its groups beforehand.
        """
        return 0, 0

    def n_candidates(self, n_users: int) -> int:
        """Return from how many other users the one in the place of a target is drawn, at least.

        All of them are equally likely. Unless overridden, nothing is known, so it is 1: the one who
        changes most.
        """
        return 1

    def check(self, n_users: int, group_size: int, *, most: int = 0) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if groups of that size cannot be drawn.

        ``most`` is the largest number of challenges that may be needed.
        """


class Distinguisher(Protocol):
    """A trained attack on one target.

    Scores at or above ``threshold``, which is chosen in training, mean *inside*.
    """

    @property
    def threshold(self) -> float:
        """Lowest score for which the answer is *inside*."""

    def score(self, release: Release) -> Scores:
        """Return one score per group, shape (group,); higher = more likely inside."""


def _distinguisher_fault(returned: Any, *_: Any, **__: Any) -> str:
    if not hasattr(returned, "score") or not hasattr(returned, "threshold"):
        return returns(has=("score", "threshold"), what="a Distinguisher")(returned)
    threshold = returned.threshold
    known = isinstance(threshold, Real) and np.isfinite(float(threshold))
    return "" if known else f"has threshold {threshold!r}: it must be a finite number"


@dataclass(frozen=True, slots=True)
class AttackSeconds:
    """Processor seconds of an attack on one idle core of a Xeon, from which ``--explain`` predicts.

    Attributes
    ----------
    train, score
        Per value of a training group, and per value of a release that it scores.
    score_changed
        In place of ``score``, if the mechanism changes counts without noise; None: the same.
    group, pair, pair_cell
        Per training group, per pair of training groups, and per such pair and cell.
    statistics
        Whether it classifies statistics of each ROI, which all such attacks share.
    """

    train: float = 1.3e-9
    score: float = 1.3e-9
    score_changed: float | None = None
    group: float = 0.0
    pair: float = 0.0
    pair_cell: float = 0.0
    statistics: bool = False


class Attack(NamedModel):
    """Learns to distinguish releases with the target from those without.

    A subclass defines ``fit``, sets ``needs_whereabouts`` if it must know where the target was, and
    ``validates`` if it chooses its threshold on validation groups, where there are any. Only one
    that fits no model to groups sets ``trains`` to False: the interval of its AUC then leaves out
    the variance of training.
    """

    _registry: ClassVar[str] = "clusterscale.attacks:ATTACKS"
    _boundary: ClassVar[Mapping[str, Fault | None]] = {"fit": _distinguisher_fault}

    needs_whereabouts: ClassVar[bool] = False
    validates: ClassVar[bool] = False
    trains: ClassVar[bool] = True

    seconds: ClassVar[AttackSeconds] = AttackSeconds()
    """The time it takes; ``--explain`` adds it up."""

    usual_against: ClassVar[tuple[str, ...]] = ()
    """Names of the priors with which ``clusterscale init`` writes it into a config."""

    shows_loadings: ClassVar[bool] = False
    """Whether loadings of traits are shown for the users whom it exposes, if it is in the audit."""

    @abstractmethod
    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        """Train on ``knowledge``."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What an adversary expects of every cell, independent of the target.

    Attributes
    ----------
    mean_trace
        float64, shape (cell,): how often a user of the reference is in a cell, 0 to 1.
    n_users
        Number of users in the reference.
    group_size
        Members in each group.
    noise
        Distribution of the noise added to counts; None if unknown.
    outside, spread
        float64, shape (cell,): mean and variance, over groups without the target, of the
        published values, estimated if the law is unknown; else None.
    law
        Output distribution of each count; None if unknown or not independent of other counts.
    weights
        Weight of the target and mean weight of the others, for published sums of weights.
    tables
        Output distributions of several tables; empty if there is one.
    """

    mean_trace: Values
    n_users: int
    group_size: int
    noise: Noise | None
    outside: Values | None = None
    spread: Values | None = None
    law: CellLaw | None = None
    weights: tuple[float, float] = (1.0, 1.0)
    tables: tuple[TableLaw, ...] = ()


class CellScore(Protocol):
    """Score of one published value; higher speaks for *inside*."""

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the evidence of ``values``, shape (group, cell), in the flat ``cells``, (cell,).

        ``here`` says whether the target was in these cells. A group's score is the sum of the
        evidence of all cells.
        """

    def total(self, values: Values | Counts, cells: Ints, here: Labels) -> Scores:
        """Return the total evidence of all ``cells``, shape (group,).

        ``here``, shape (cell,), says in which of them the target was.
        """


@runtime_checkable
class CellwiseAttack(Named, Protocol):
    """An attack whose score is a sum of independent terms, one per cell.

    The scores of two targets differ only in the terms of their own cells, so one pass over all
    events scores all users.
    """

    def cell_score(self, reference: Reference) -> CellScore:
        """Return the attack's score of each cell."""
