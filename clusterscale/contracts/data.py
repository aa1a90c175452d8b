"""Events, counts and published values in memory, with what describes them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError

Ints = NDArray[np.integer[Any]]
Counts = NDArray[np.int32]  # (group, roi, epoch), or (roi, epoch)
Values = NDArray[np.float64]  # the same shape, as published
Labels = NDArray[np.bool_]  # (group,)  True = target inside
Scores = NDArray[np.float64]  # (group,)  higher = more likely inside
Members = NDArray[np.int64]  # (group, member) user indices
Weights = NDArray[np.float64]  # (user,)  people for whom each user counts
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Flags = NDArray[np.bool_]


def form_of(array: NDArray[Any]) -> str:
    """Return the type and the shape of an array, for messages."""
    return f"{array.dtype} of shape {array.shape}"


def check_weights(weights: NDArray[Any], n_users: int) -> None:
    """Check that weights are positive numbers, one for each user.

    Parameters
    ----------
    weights
        Number of people for whom each user counts, shape (user,).
    n_users
        Number of users.

    Raises
    ------
    InputError
        If they are not.
    """
    if weights.dtype != np.float64 or weights.shape != (n_users,):
        raise InputError(f"weights are {form_of(weights)}, not float64 of shape {(n_users,)}")
    n_wrong = int((~(np.isfinite(weights) & (weights > 0))).sum())
    if n_wrong:
        raise InputError(f"{n_wrong:,} of {n_users:,} weights are not positive numbers")


@dataclass(frozen=True, slots=True)
class Traces:
    """Events of some users over one period, compressed by user.

    Users are identified by their index in a population, of which an object may hold only a
    contiguous part. Users who are not held have no events here, so the counts of all users are the
    sum of the counts of all parts.

    Attributes
    ----------
    offsets
        int64, shape (held user + 1,): events of user ``first + i`` are
        ``cells[offsets[i]:offsets[i + 1]]``.
    cells
        int32 or int64, shape (event,): flat cell ``roi * n_epochs + epoch``, strictly increasing
        within a user.
    n_rois, n_epochs
        Size of the grid of cells, including the null ROI.
    idle
        bool, shape (held user, epoch): True if the user has no event. The last ROI is then the null
        ROI (NDSS18 §V-A), whose cells are not in ``cells``; None: there is no null ROI.
    first
        Index of the first user held.
    population
        Number of users in the population; None: only those held.
    weights
        float64, shape (held user,): the number of people for whom each user counts, positive;
        None: every user counts as one. Counts are of users in any case.

    Raises
    ------
    InputError
        If a shape or dtype is wrong, offsets, cells or users are out of range, or a weight is not a
        positive number. The order of cells is not checked.
    """

    offsets: NDArray[np.int64]
    cells: Ints
    n_rois: int
    n_epochs: int
    idle: NDArray[np.bool_] | None = None
    first: int = 0
    population: int | None = None
    weights: Weights | None = None

    def __post_init__(self) -> None:
        offsets, cells, idle = self.offsets, self.cells, self.idle
        if offsets.dtype != np.int64 or offsets.ndim != 1 or not len(offsets):
            raise InputError(f"offsets are {form_of(offsets)}, not int64 of shape (user + 1,)")
        if cells.dtype not in (np.int32, np.int64) or cells.ndim != 1:
            raise InputError(f"cells are {form_of(cells)}, not int32 or int64 of shape (event,)")
        if offsets[0] < 0 or offsets[-1] > len(cells) or (offsets[1:] < offsets[:-1]).any():
            raise InputError(f"offsets do not increase from 0 to at most {len(cells)} events")
        n_visible = self.n_cells - self.n_epochs * self.null_roi
        unsigned = cells.view(f"u{cells.itemsize}")  # negative numbers become the largest
        if len(cells) and unsigned.max() >= max(n_visible, 0):
            raise InputError(
                f"cells from {cells.min()} to {cells.max()} are not within 0 to {n_visible - 1}: "
                f"{self.n_rois} ROIs{', one of them the null ROI,' if self.null_roi else ''} and "
                f"{self.n_epochs} epochs"
            )
        held = self.n_held, self.n_epochs
        if idle is not None and (idle.shape != held or idle.dtype != np.bool_):
            raise InputError(f"idle is {form_of(idle)}, not bool of shape {held}")
        if self.first < 0 or self.first + self.n_held > self.n_users:
            raise InputError(
                f"users {self.first} to {self.first + self.n_held} are not within a population of "
                f"{self.n_users}"
            )
        if self.weights is not None:
            check_weights(self.weights, self.n_held)

    @property
    def null_roi(self) -> bool:
        """Whether the last ROI is the null ROI (user not observed anywhere)."""
        return self.idle is not None

    @property
    def idle_epochs(self) -> NDArray[np.bool_]:
        """``idle`` for compiled loops: with no columns if there is no null ROI."""
        return np.zeros((self.n_held, 0), np.bool_) if self.idle is None else self.idle

    @property
    def n_users(self) -> int:
        """Number of users, held or not."""
        return self.n_held if self.population is None else self.population

    @property
    def n_held(self) -> int:
        """Number of users held."""
        return len(self.offsets) - 1

    @property
    def n_cells(self) -> int:
        """Number of cells: ROIs × epochs."""
        return self.n_rois * self.n_epochs

    def weight(self, user: int) -> float:
        """Return the weight of one user: 1 if users have none, 0 if the user is not held."""
        row = user - self.first
        if not 0 <= row < self.n_held:
            return 0.0
        return 1.0 if self.weights is None else float(self.weights[row])

    def check_user(self, user: int) -> None:
        """Raise :class:`InputError` if ``user`` is not in the population."""
        whole = isinstance(user, int | np.integer) and not isinstance(user, bool)
        if not whole or not 0 <= user < self.n_users:
            raise InputError(f"user {user} is not among {self.n_users} users")

    def trace(self, user: int) -> Ints:
        """Return the sorted flat cells of one user, including the null ROI, shape (event,).

        Empty for a user who is not held.

        Raises
        ------
        InputError
            If there is no such user.
        """
        self.check_user(user)
        row = user - self.first
        held = 0 <= row < self.n_held
        cells = self.cells[self.offsets[row] : self.offsets[row + 1]] if held else self.cells[:0]
        if self.idle is None:
            return cells
        idle = np.flatnonzero(self.idle[row]) if held else np.zeros(0, np.int64)
        return np.concatenate([cells, self.n_cells - self.n_epochs + idle])


@dataclass(frozen=True, slots=True, eq=False)
class CellCoordinates:
    """Position and time of the cells of some traces.

    Attributes
    ----------
    days
        int64, shape (epoch,): number of the local day in which each epoch begins, not decreasing.
    lat, lon
        float64, shape (roi,): centres in degrees; NaN if unknown. The null ROI, which has
        no position, is not among them.
    until
        int64, shape (epoch,): the local day in which each epoch ends; equal to ``days`` if None.
    names
        Names of the ROIs, shape (roi,); None if unknown, as after steps that merge ROIs by number.
    """

    days: NDArray[np.int64]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    until: NDArray[np.int64] | None = None
    names: tuple[str, ...] | None = None

    @property
    def last_days(self) -> NDArray[np.int64]:
        """The local day in which each epoch ends, int64, shape (epoch,)."""
        return self.days if self.until is None else self.until


def check_days(days: NDArray[Any], until: NDArray[Any], n_epochs: int) -> None:
    """Check that each epoch has a first and a last local day.

    Parameters
    ----------
    days, until
        Int, shape (epoch,): the days in which each epoch begins and ends. ``days`` must not
        decrease, and no epoch may end before it begins.
    n_epochs
        Number of epochs.

    Raises
    ------
    InputError
        If an array has another form, or the days decrease.
    """
    for name, array in (("days", days), ("until", until)):
        if array.shape != (n_epochs,) or array.dtype.kind not in "iu":
            raise InputError(
                f"{name} are {form_of(array)}, but {n_epochs} epochs need integers of shape "
                f"{(n_epochs,)}"
            )
    if (days[1:] < days[:-1]).any() or (until < days).any():
        raise InputError("days of epochs decrease, or an epoch ends before it begins")


@dataclass(frozen=True, slots=True)
class Noise(ABC):
    """Distribution of the noise added to every count, independently, before clipping and rounding.

    It is symmetric about 0.

    Attributes
    ----------
    scale
        In visits; NaN if the sensitivity is not known yet.
    whole
        Whether noise is whole numbers.
    exponential
        Whether the probability of x is proportional to exp(−abs(x) / scale).
    """

    scale: float = 0.0

    whole: ClassVar[bool] = False
    exponential: ClassVar[bool] = False

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance, in visits squared."""

    @abstractmethod
    def sample(self, n: int, *, rng: np.random.Generator) -> NDArray[Any]:
        """Draw ``n`` independent values, shape (n,)."""

    @abstractmethod
    def cdf(self, x: Values) -> Values:
        """Return the probability of noise of at most ``x``, without loss of precision below 0."""

    @abstractmethod
    def density(self, x: Values) -> Values:
        """Return the density at ``x``; if noise is whole numbers, the probability of ``x``."""

    @abstractmethod
    def quantile(self, probability: Values) -> Values:
        """Return the smallest noise whose :meth:`cdf` is at least each probability."""


@runtime_checkable
class NoiseSource(Protocol):
    """A generator of random numbers that draws noise by other means than :meth:`Noise.sample`.

    A mechanism that adds noise takes it from such a generator, as that of a real release is.
    """

    def draw(self, noise: Noise, n: int) -> NDArray[Any]:
        """Draw ``n`` independent values of a distribution, shape (n,)."""


class _NoNoise(Noise):
    whole = True

    @property
    def variance(self) -> float:
        return 0.0

    def sample(self, n: int, *, rng: np.random.Generator) -> Values:
        return np.zeros(n)

    def cdf(self, x: Values) -> Values:
        return np.asarray(x >= 0, np.float64)

    def density(self, x: Values) -> Values:
        return np.asarray(x == 0, np.float64)

    def quantile(self, probability: Values) -> Values:
        return np.zeros_like(probability)


NO_NOISE: Noise = _NoNoise()
"""Counts are published as they are."""


@dataclass(frozen=True, slots=True)
class Support:
    """Values that can be published.

    Attributes
    ----------
    low, high, step
        Multiples of ``step`` from ``low`` to ``high``; if ``step`` is 0, all real numbers between.
    per_series
        Most different values that are published for one ROI; None: any number.
    """

    low: float
    high: float
    step: float
    per_series: int | None = None

    @property
    def limited(self) -> bool:
        """Whether some numbers cannot be published."""
        return self.step > 0 or np.isfinite(self.low) or np.isfinite(self.high)

    def __str__(self) -> str:
        kind = {1.0: "whole numbers", 0.5: "multiples of ½"}.get(self.step, "numbers")
        low = f" from {self.low:g}" if np.isfinite(self.low) else ""
        high = f" up to {self.high:g}" if np.isfinite(self.high) else ""
        return kind + low + high


@dataclass(frozen=True, slots=True)
class CellChange:
    """How one more visit changes the distribution of a published value, for the worst count.

    Without noise and probabilities, nothing bounds the change.

    Attributes
    ----------
    noise
        Noise that is added to the count; None if there is another distribution.
    kept
        Probability that the visit is counted, before noise is added.
    without, inside
        Otherwise, probabilities of the same values without and with the visit.
    tight
        Whether some count is changed like this, so that there is no better bound.
    """

    noise: Noise | None = None
    kept: float = 1.0
    without: tuple[float, ...] = ()
    inside: tuple[float, ...] = ()
    tight: bool = True


class CellLaw(Protocol):
    """Output distribution of each count, independent of the other counts."""

    @property
    def revised(self) -> bool:
        """Whether a count is changed by more than noise: rounded, or suppressed if small."""

    def likelihood(self, values: NDArray[Any], counts: NDArray[Any]) -> Values:
        """Return the likelihood of each count, (group, cell, count), up to a factor per value.

        ``values``, shape (group, cell), are the published values; ``counts``, shape (cell, count),
        the candidate counts.
        """

    def moments(self, counts: NDArray[Any]) -> tuple[Values, Values]:
        """Return the mean and the variance of the published value of each count, (count,)."""


class TableLaw(NamedTuple):
    """Output distribution of one of several tables, which have independent noise.

    Attributes
    ----------
    cells
        Bool, shape (cell,): which flat cells of a release are of this table. A cell may be of none,
        if it fills up a table with fewer epochs than others.
    noise, law
        As those of a :class:`Release`.
    """

    cells: Labels
    noise: Noise | None
    law: CellLaw | None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Release:
    """Published values of one or many groups, with their public description.

    Compared by identity, so that several attacks can share values derived from it.

    Attributes
    ----------
    values
        float64, or int32 for unchanged counts, shape (group, roi, epoch).
    group_size
        Members in each group.
    mechanism
        Public description of the mechanism, e.g. ``laplace(epsilon=1.0)``.
    noise
        Its noise distribution, or None if it does not simply add independent noise.
    law
        Output distribution of each count, or None if unknown or dependent on other counts.
    tables
        Output distributions of several tables; empty if it is one.
    """

    values: Values | Counts
    group_size: int
    mechanism: str
    noise: Noise | None = None
    law: CellLaw | None = None
    tables: tuple[TableLaw, ...] = ()

    @property
    def flat(self) -> Values | Counts:
        """``values`` as shape (group, roi * epoch), without a copy."""
        return self.values.reshape(len(self.values), -1)

    @property
    def is_unchanged(self) -> Labels:
        """Whether the counts of each flat cell are published as they are, shape (cell,)."""
        unchanged, every = np.zeros(self.flat.shape[1], np.bool_), (..., self.noise, None)
        for cells, noise, _ in self.tables or (every,):
            unchanged[cells] = noise == NO_NOISE
        return unchanged

    def take(self, rows: Ints) -> "Release":
        """Return the release of some of the groups; their values are copied."""
        return replace(self, values=self.values[rows])


Level = Literal["pass", "warn", "fail"]
VERDICT_LEVELS: tuple[Level, ...] = ("pass", "warn", "fail")
"""From best to worst."""


@dataclass(frozen=True, slots=True)
class Reason:
    """Result of one check.

    Attributes
    ----------
    check
        Name of the check.
    level
        ``unknown`` if it could not be made, ``error`` if a rule of the policy could not be applied
        because its number is missing.
    measured, limit
        The number, and the limit that it exceeded; NaN if there is none.
    text
        A sentence.
    """

    check: str
    level: Level | Literal["unknown", "error"]
    measured: float
    limit: float
    text: str
