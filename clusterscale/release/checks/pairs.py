"""Two tables over the same cells, compared in blocks of ROIs; and what is likely by coincidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import scipy

from clusterscale.contracts import CellLaw, Mechanism, Values
from clusterscale.release.checks.table import (
    MOST_DECIMALS,
    CountIntervals,
    Flags,
    PublishedTable,
    Whole,
    count_intervals,
    decimals,
)

_LONGEST = 24 * 7 * 2  # epochs: the longest lag at which changes are computed
_TINY = 1e-300


def coincidence(whole: Whole, part: Whole, exact: Flags, people: int, share: float) -> float:
    """Return the log probability that a disjoint group looks like a subset in every cell.

    ``whole`` and ``part`` are visits of the larger and of the smaller group, int64, shape (roi,
    epoch), used in the cells that are ``exact`` in both. ``people`` is the difference of their
    sizes, ``share`` the smaller group's share of all members.

    In a cell with s visits, x of them by the smaller group, this requires 0 ≤ s − 2x ≤ ``people``,
    where x is binomial. A condition on all cells of a ROI is at most as likely as on its least
    likely cell; this first bound is valid however long people stay. The second bound multiplies the
    probabilities of the ROI's cells, using the smaller group's share of visits there. It treats
    cells as independent only as far as counts vary like those of independent visitors, whose mean
    square change is twice the mean; the change is smaller if the same people stay or return after
    any lag. The smaller bound is used, and the bounds of ROIs are multiplied.
    """
    visits, part = np.where(exact, whole + part, 0), np.where(exact, part, 0)
    local_share = part.sum(axis=1, keepdims=True) / np.maximum(visits.sum(axis=1, keepdims=True), 1)
    least_likely = _log_chance(visits, people, np.full_like(local_share, share)).min(axis=1)
    product = _log_chance(visits, people, local_share).sum(axis=1) * _come_and_go(part, exact)
    return float(np.minimum(least_likely, product).sum())


def _log_chance(visits: Whole, people: int, share: Values) -> Values:
    law = scipy.stats.binom(visits, share)
    likely = law.cdf(visits // 2) - law.cdf((visits - people + 1) // 2 - 1)
    return np.asarray(np.log(np.clip(likely, _TINY, 1.0)))


def _come_and_go(counts: Whole, exact: Flags) -> Values:
    """Return the least mean square change over twice the mean, from 0 to 1, shape (roi,).

    Cells whose counts are not exact are assumed not to change.
    """
    n_epochs = counts.shape[1]
    mean = counts.sum(axis=1, keepdims=True) / np.maximum(exact.sum(axis=1, keepdims=True), 1)
    deviation = np.where(exact, counts - mean, 0.0)
    changes = [
        np.mean((deviation[:, lag:] - deviation[:, :-lag]) ** 2, axis=1)
        / np.maximum(2 * mean[:, 0], _TINY)
        for lag in range(1, min(n_epochs // 2, _LONGEST) + 1)
    ]
    return np.asarray(np.min(changes, axis=0, initial=1.0))


_MOST_PEOPLE = 20  # between two groups whose noise in whole numbers is compared
_CASES = (0, 1, 2, 3, 5, 10, 20, 50, 200)  # counts for which noise is compared
_WIDE = 200  # largest noise that is considered


@lru_cache(maxsize=64)
def chance_of_step(made: tuple[tuple[Mechanism, int], ...]) -> float:
    """Return the chance of a difference that people explain, given that there is one.

    The largest over cells that some number of others share, and over the number of people in the
    larger group only; 1 if an output distribution is not known. ``made``: the mechanism and the
    size of the larger and of the smaller group.
    """
    laws = [mechanism.law(size) for mechanism, size in made]
    (_, largest), (_, size) = made
    people = largest - size
    if people > _MOST_PEOPLE:
        return 1.0
    counts = np.array([count for count in _CASES if count <= size])
    values = np.arange(counts.max() + people + _WIDE, dtype=np.float64)
    if laws[0] is None or laws[1] is None:
        return 1.0
    smaller = _probabilities(laws[1], values, counts)
    chance = 0.0
    for more in range(1, people + 1):
        larger = _probabilities(laws[0], values, counts + more)
        steps = [(smaller[: len(values) - k] * larger[k:]).sum(axis=0) for k in range(people + 1)]
        chance = max(chance, float((sum(steps[1:]) / np.maximum(1 - steps[0], 1e-12)).max()))
    return min(chance, 1.0)


def _probabilities(law: CellLaw, values: Values, counts: Whole) -> Values:
    """Return the probability of each of ``values`` for each of ``counts``, (value, count)."""
    candidates = np.broadcast_to(counts, (len(values), len(counts)))
    return np.asarray(law.likelihood(values[None], candidates)[0])


_BLOCK = 1 << 20  # cells compared at a time, so that memory does not grow with the tables
_WHOLE = 1e-6  # tolerance for whole numbers: floats lose some digits
_DRAWS = 1 << 12  # of noise, to estimate its moments


@dataclass(slots=True)
class Subtraction:
    """What remains if the smaller of two tables without noise is subtracted from the larger.

    ``n_exact`` cells are exact in both, ``n_differing`` of these differ, and ``n_few`` of all have
    a difference that is certainly of few people if one group is a subset of the other. By any one
    cell, at most ``n_larger_only`` and ``n_smaller_only`` people are certainly in only one of the
    groups.
    """

    n_exact: int = 0
    n_differing: int = 0
    n_few: int = 0
    n_larger_only: int = 0
    n_smaller_only: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class TablePair:
    """Two tables, and the columns of each that cover the same epochs.

    ``n_shared`` is the number of cells published in both.
    """

    table: PublishedTable
    other: PublishedTable
    here: slice
    there: slice
    n_shared: int = field(init=False)
    _intervals: tuple[CountIntervals | None, CountIntervals | None] = field(init=False)

    def __post_init__(self) -> None:
        """Find out once what both tables have, and which counts the values of each have."""
        intervals = count_intervals(self.larger), count_intervals(self.smaller)
        object.__setattr__(self, "_intervals", intervals)
        n_shared = sum(int(np.count_nonzero(~np.isnan(some))) for some in self._differences())
        object.__setattr__(self, "n_shared", n_shared)

    @property
    def tables(self) -> tuple[PublishedTable, PublishedTable]:
        """Both tables."""
        return self.table, self.other

    @property
    def names(self) -> str:
        """Both names, for messages."""
        return f"{self.table.name} and {self.other.name}"

    @property
    def larger(self) -> PublishedTable:
        """The table of which the other is declared a subset, else that of more people."""
        if self.declared:
            return self.table if self.table.name in self.other.subset_of else self.other
        return max(self.tables, key=lambda table: table.group_size)

    @property
    def declared(self) -> bool:
        """Whether one table is declared a subset of the other."""
        return self.table.name in self.other.subset_of or self.other.name in self.table.subset_of

    @property
    def people(self) -> int:
        """How many more people the larger table counts, by the stated group sizes."""
        return max(self.larger.group_size - self.smaller.group_size, 0)

    @property
    def smaller(self) -> PublishedTable:
        """The table of fewer people."""
        return self.other if self.larger is self.table else self.table

    @property
    def same(self) -> bool:
        """Whether one table repeats the other, so that their difference discloses nothing.

        Equal values of groups of different sizes disclose where the people in only one are not.
        """
        if self.people or any(
            np.nan_to_num(difference).any() for difference in self._differences()
        ):
            return False
        return self.n_shared > 0

    @property
    def noiseless(self) -> bool:
        """Whether neither table has noise."""
        return all(intervals is not None for intervals in self._intervals)

    def n_few(self, small: int) -> int:
        """Return how many differences of published values count 1 to ``small`` − 1 people."""
        return sum(_few(difference, small) for difference in self._differences())

    def count_steps(self, people: int) -> tuple[int, int]:
        """Return how many differences are from 1 to ``people``, and how many are not 0.

        None are if a published value is a fraction.
        """
        n_few = n_differing = 0
        for larger, smaller in self._blocks():
            if (larger % 1 > 0).any() or (smaller % 1 > 0).any():
                return 0, 0
            difference = larger - smaller
            n_few += int(((difference >= 1) & (difference <= people)).sum())
            n_differing += int(np.count_nonzero(np.nan_to_num(difference)))
        return n_few, n_differing

    def subtract(self, small: int) -> Subtraction:
        """Subtract counts without noise."""
        found = Subtraction()
        for (low, high), (low_part, high_part) in self._counts():
            least, most = low - high_part, high - low_part
            difference = least[(low == high) & (low_part == high_part)]
            found.n_exact += len(difference)
            found.n_differing += int(np.count_nonzero(difference))
            found.n_few += int(np.count_nonzero((least >= 1) & (most < small)))
            found.n_larger_only = max(found.n_larger_only, int(least.max(initial=0)))
            found.n_smaller_only = max(found.n_smaller_only, int((-most).max(initial=0)))
        return found

    def nested(self, chance: float) -> bool:
        """Return whether disjoint groups would agree so well with a probability below ``chance``.

        The log probabilities of ROIs are at most 0, so once their sum is low enough, the rest need
        not be computed.
        """
        share = self.smaller.group_size / (self.larger.group_size + self.smaller.group_size)
        log_chance = 0.0
        for (low, high), (low_part, high_part) in self._counts():
            exact = (low == high) & (low_part == high_part)
            log_chance += coincidence(low, low_part, exact, self.people, share)
            if log_chance < float(np.log(chance)):
                return True
        return False

    def reused_cells(self, chance: float) -> int:
        """Return in how many cells fractions agree, 0 if no more often than by chance."""
        if self.noiseless:
            return 0
        first, second = self._fractional()
        if not len(first):
            return 0
        difference = first - second
        n = int(np.count_nonzero(np.abs(difference - np.rint(difference)) < _WHOLE))
        by_chance = scipy.stats.binom.sf(n - 1, len(difference), _agreement(first, second))
        return n if by_chance < chance else 0

    def mean_square(self, rng: np.random.Generator) -> tuple[float, float, float]:
        """Return the mean square of differences, and moments of the sum of both noises.

        The moments are the least second and the largest fourth moment over counts, NaN if noise on
        one cell depends on other cells.
        """
        n, total = 0, 0.0
        for difference in self._differences():
            known = difference[~np.isnan(difference)]
            n, total = n + len(known), total + float(np.sum(known**2))
        observed = total / n if n else 0.0
        if any(table.mechanism.noise_scope != "cell" for table in self.tables):
            return observed, np.nan, np.nan
        (first, first_4), (second, second_4) = (_noise(table, rng) for table in self.tables)
        fourth = first_4 + second_4 + 6 * (first * second)
        return observed, float((first + second).min()), float(fourth.max())

    def _blocks(self) -> Iterator[tuple[Values, Values]]:
        """Yield the shared values of the larger and of the smaller table, in blocks of ROIs."""
        here, there = self.table.values[:, self.here], self.other.values[:, self.there]
        larger, smaller = (here, there) if self.larger is self.table else (there, here)
        step = max(_BLOCK // max(larger.shape[1], 1), 1)
        for start in range(0, len(larger), step):
            yield larger[start : start + step], smaller[start : start + step]

    def _differences(self) -> Iterator[Values]:
        """Yield larger minus smaller; NaN where one is redacted."""
        for larger, smaller in self._blocks():
            yield np.asarray(larger - smaller)

    def _counts(self) -> Iterator[tuple[tuple[Whole, Whole], tuple[Whole, Whole]]]:
        """Yield lower and upper bounds of the counts of the larger and of the smaller table."""
        large, small = self._intervals
        assert large is not None, "only of tables without noise"
        assert small is not None, "only of tables without noise"
        for larger, smaller in self._blocks():
            yield large.bounds(larger), small.bounds(smaller)

    def _fractional(self) -> tuple[Values, Values]:
        """Return the values of cells that are fractions in both tables, both shape (cell,)."""
        cells = []
        for first, second in self._blocks():
            both = (first != np.rint(first)) & (second != np.rint(second))
            both &= ~np.isnan(first + second)
            cells.append((first[both], second[both]))
        first, second = (np.concatenate(column) for column in zip(*cells, strict=True))
        return first, second


def _noise(table: PublishedTable, rng: np.random.Generator) -> tuple[Values, Values]:
    """Return the second and fourth moments of the noise on a few counts, both shape (count,)."""
    size = table.group_size
    counts = np.array([0, min(1, size), size // 2, size], np.int32)
    releases = table.mechanism.release(
        np.repeat(counts[:, None], _DRAWS, axis=1), group_size=size, rng=rng
    )
    noise = releases - releases.mean(axis=1, keepdims=True)
    return np.mean(noise**2, axis=1), np.mean(noise**4, axis=1)


def _agreement(first: Values, second: Values) -> float:
    """Return how often fractions agree by chance, given their number of decimals."""
    n_decimals = [MOST_DECIMALS if (n := decimals(v)) is None else n for v in (first, second)]
    spacing = max(10.0 ** -min(n_decimals), 2 * _WHOLE)
    return max(spacing, _atoms(first), _atoms(second))


def _few(difference: Values | Whole, small: int) -> int:
    """Return how many differences count few people."""
    size = np.abs(np.rint(difference))
    return int(np.count_nonzero((size >= 1) & (size < small)))


def _atoms(values: Values) -> float:
    """Return the share of the most frequent fraction, which is large for values on a grid."""
    fractions = np.round(values - np.floor(values), 6)
    return float(np.unique(fractions, return_counts=True)[1].max() / len(values))
