"""The grammar: value types and the Protocols that every part of an audit speaks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, Strict

Counts = NDArray[np.int32]  # (group, roi, epoch), or (roi, epoch)
Values = NDArray[np.float64]  # the same shape, as published
Labels = NDArray[np.bool_]  # (group,)  True = target inside
Scores = NDArray[np.float64]  # (group,)  higher = more likely inside
Members = NDArray[np.int64]  # (group, member) user indices

Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Strict(), Field(gt=0, le=1)]
Count = Annotated[int, Strict(), Field(ge=1)]

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


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
    cells: NDArray[np.integer[Any]]
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

    def trace(self, user: int) -> NDArray[np.integer[Any]]:
        """Return the sorted flat cells of one user, shape (event,)."""
        return self.cells[self.offsets[user] : self.offsets[user + 1]]


@dataclass(frozen=True, slots=True)
class Release:
    """What is published of one or many groups, with what the publisher says about it.

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
    trace: NDArray[np.integer[Any]]
    mean_trace: Values

    def relabelled(self, rng: np.random.Generator) -> Knowledge:
        """Return the same knowledge with its labels in random order: the control."""
        return replace(self, labels=rng.permutation(self.labels))


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


@runtime_checkable
class Mechanism(Protocol):
    """Turns counts into what is published."""

    name: str

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

    threshold: float

    def score(self, release: Release) -> Scores:
        """Return one score a group, shape (group,); higher = more likely inside."""


@runtime_checkable
class Attack(Protocol):
    """Learns, from what the adversary knows, to tell releases with the target from those without."""

    name: str

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
