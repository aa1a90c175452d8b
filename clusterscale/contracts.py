"""The grammar: value types and the Protocols that every part of an audit speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, Strict

Ints = NDArray[np.integer[Any]]
Counts = NDArray[np.int32]  # (group, roi, epoch), or (roi, epoch)
Values = NDArray[np.float64]  # the same shape, as published
Labels = NDArray[np.bool_]  # (group,)  True = target inside
Scores = NDArray[np.float64]  # (group,)  higher = more likely inside
Members = NDArray[np.int64]  # (group, member) user indices

Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Count = Annotated[int, Strict(), Field(ge=1)]

T = TypeVar("T")
R = TypeVar("R")


class Component(BaseModel):
    """Something a config can name: immutable, hashable, picklable, strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @property
    def label(self) -> str:
        """The name with the fields that were set, e.g. ``laplace(epsilon=1.0)``."""
        given = self.model_dump(exclude={"name"}, exclude_defaults=True)
        fields = ", ".join(f"{key}={value!r}" for key, value in given.items())
        name = str(getattr(self, "name", type(self).__name__))
        return f"{name}({fields})" if fields else name


@dataclass(frozen=True, slots=True)
class Traces:
    """Events of some users over one period, compressed by user.

    Attributes
    ----------
    offsets
        int64, shape (user + 1,): events of user ``u`` are ``cells[offsets[u]:offsets[u + 1]]``.
    cells
        int32 or int64, shape (event,): flat cell ``roi * n_epochs + epoch``, strictly increasing
        within a user.
    n_rois, n_epochs
        Size of the grid of cells.
    """

    offsets: NDArray[np.int64]
    cells: Ints
    n_rois: int
    n_epochs: int

    @property
    def n_users(self) -> int:
        """Number of users."""
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return self.offsets.nbytes + self.cells.nbytes

    def trace(self, user: int) -> Ints:
        """Return the sorted flat cells of one user, shape (event,)."""
        return self.cells[self.offsets[user] : self.offsets[user + 1]]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Release:
    """What is published of one or many groups, with what the publisher says about it.

    Compared by identity, so that what several attacks derive from it is derived once.

    Attributes
    ----------
    values
        float64, shape (group, roi, epoch).
    group_size
        Members in each group.
    mechanism
        Public description of the mechanism, e.g. ``laplace(epsilon=1.0)``.
    """

    values: Values
    group_size: int
    mechanism: str

    @property
    def flat(self) -> Values:
        """``values`` as shape (group, roi * epoch), without a copy."""
        return self.values.reshape(len(self.values), -1)


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that the adversary holds when it trains.

    Attributes
    ----------
    training
        Labelled releases of groups that the adversary could form.
    labels
        Shape (group,): is the target in the training group?
    trace
        Flat cells of the target that the adversary knows, sorted, shape (event,).
    mean_trace
        float64, shape (roi, epoch): how often a user of the adversary's reference is in a cell,
        between 0 and 1.
    """

    training: Release
    labels: Labels
    trace: Ints
    mean_trace: Values

    def shuffled(self, rng: np.random.Generator) -> Knowledge:
        """Return the same releases with labels that say nothing of the target.

        Half of each class is labelled inside, at random: a plain permutation would by chance agree
        or disagree with the truth, and a trained attack would show it.
        """
        labels = self.labels.copy()
        for side in (True, False):
            rows = rng.permutation(np.flatnonzero(self.labels == side))
            labels[rows] = np.arange(len(rows)) % 2 == 0
        return replace(self, labels=labels)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a mechanism promises, or why it promises nothing.

    ``epsilon`` and ``delta`` hold for neighbouring inputs that differ in one ``unit`` (``event``,
    ``user_day``, ``user``, ``roi_series``) under ``neighbours`` (``add_remove`` or ``replace``).
    """

    unit: str
    epsilon: float
    delta: float
    neighbours: str
    reason: str


@dataclass(frozen=True, slots=True)
class Game:
    """One play of the distinguishability game, set up: all drawn and counted, nothing published.

    Attributes
    ----------
    group_size
        Members in each group.
    training_counts, training_labels
        Groups that the adversary can form, and whether the target is inside.
    challenge_counts, challenge_labels
        Groups that it must tell apart, and the answers, which it never sees.
    trace, mean_trace
        What the adversary knows of the target and of the others; see :class:`Knowledge`.
    """

    group_size: int
    training_counts: Counts
    training_labels: Labels
    challenge_counts: Counts
    challenge_labels: Labels
    trace: Ints
    mean_trace: Values

    def publish(self, counts: Counts, mechanism: Mechanism, *, rng: np.random.Generator) -> Release:
        """Return what ``mechanism`` makes of ``counts``."""
        values = mechanism.release(counts, group_size=self.group_size, rng=rng)
        return Release(values, self.group_size, mechanism.label)

    def knowledge(self, mechanism: Mechanism, *, rng: np.random.Generator) -> Knowledge:
        """Return what the adversary trains on: its own groups, published by the same mechanism."""
        training = self.publish(self.training_counts, mechanism, rng=rng)
        return Knowledge(training, self.training_labels, self.trace, self.mean_trace)


@runtime_checkable
class Prior(Protocol):
    """What the adversary knows before the release."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def label(self) -> str:
        """Name with its settings."""

    @property
    def n_groups(self) -> int:
        """Groups held at once in one game."""

    def check(self, n_users: int, group_size: int) -> None:
        """Raise :class:`~clusterscale.errors.PoolError` if groups of that size cannot be drawn."""

    def set_up(
        self, traces: Traces, target: int, *, group_size: int, rng: np.random.Generator
    ) -> Game:
        """Draw the groups of one target and count them."""


@runtime_checkable
class Mechanism(Protocol):
    """Turns counts into what is published."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def label(self) -> str:
        """Public description."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return published values of the shape of ``counts``, float64."""


class Distinguisher(Protocol):
    """A trained attack on one target.

    ``threshold`` is the score from which on the adversary says *inside*, chosen in training.
    """

    @property
    def threshold(self) -> float:
        """Score from which on the answer is *inside*."""

    def score(self, release: Release) -> Scores:
        """Return one score a group, shape (group,); higher = more likely inside."""


@runtime_checkable
class Attack(Protocol):
    """Learns to tell releases with the target from those without."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def label(self) -> str:
        """Name with its settings."""

    def fit(self, knowledge: Knowledge, *, rng: np.random.Generator) -> Distinguisher:
        """Train on ``knowledge``."""


@dataclass(frozen=True, slots=True)
class Finished(Generic[T, R]):
    """An item that an executor is done with: its value, or the error that ended it."""

    item: T
    value: R | None = None
    error: BaseException | None = None


class Executor(Protocol):
    """Runs a pure function over many items, anywhere."""

    @property
    def n_workers(self) -> int:
        """How many items run at once."""

    def map_unordered(
        self, function: Callable[[T], R], items: Iterable[T]
    ) -> Iterator[Finished[T, R]]:
        """Yield each item as it finishes, in any order; an error is yielded, never raised."""

    def reduce(
        self, function: Callable[[T], R], items: Iterable[T], combine: Callable[[R, R], R]
    ) -> R:
        """Combine the values of all items pairwise, always in the same tree."""
