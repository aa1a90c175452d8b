"""Two tables over the same cells, and what their differences say about their noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.consistency.nesting import coincidence
from clusterscale.consistency.table import MOST_DECIMALS, PublishedTable, count_bounds, decimals
from clusterscale.contracts import CellLaw, Mechanism, Values

__all__ = ["TablePair"]

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]

_WHOLE = 1e-6  # tolerance for whole numbers: floats lose some digits
_DRAWS = 1 << 12  # of noise, to estimate its moments
_MOST_PEOPLE = 20  # between two groups whose noise in whole numbers is compared
_CASES = (0, 1, 2, 3, 5, 10, 20, 50, 200)  # counts for which noise is compared
_WIDE = 200  # largest noise that is considered


@dataclass(frozen=True, slots=True, eq=False)
class TablePair:
    """Two tables, and the columns of each that cover the same epochs.

    Attributes
    ----------
    table, other
        The tables.
    here, there
        Columns of ``table`` and of ``other``.
    """

    table: PublishedTable
    other: PublishedTable
    here: slice
    there: slice

    @property
    def tables(self) -> tuple[PublishedTable, PublishedTable]:
        """Both tables."""
        return self.table, self.other

    @property
    def names(self) -> str:
        """Their names, for messages."""
        return f"{self.table.name} and {self.other.name}"

    @property
    def larger(self) -> PublishedTable:
        """The table of more people; the first if both have as many."""
        return max(self.tables, key=lambda table: table.group_size)

    @property
    def smaller(self) -> PublishedTable:
        """The other table."""
        return self.other if self.larger is self.table else self.table

    def columns(self, table: PublishedTable) -> slice:
        """Return the shared columns of one of the tables."""
        return self.here if table is self.table else self.there

    def values(self, table: PublishedTable) -> Values:
        """Return the shared values of one of the tables."""
        return table.values[:, self.columns(table)]

    @property
    def difference(self) -> Values:
        """Larger minus smaller, shape (roi, shared epoch); NaN where one is redacted."""
        return np.asarray(self.values(self.larger) - self.values(self.smaller))

    @property
    def same(self) -> bool:
        """Whether one table repeats the other, so that their difference discloses nothing."""
        return self.n_shared > 0 and not np.nan_to_num(self.difference).any()

    @property
    def n_shared(self) -> int:
        """Number of cells published in both tables."""
        return int(np.count_nonzero(~np.isnan(self.difference)))

    @property
    def noiseless(self) -> bool:
        """Whether neither table has noise."""
        return all(count_bounds(table) is not None for table in self.tables)

    def counts(self, table: PublishedTable) -> tuple[Whole, Whole]:
        """Return lower and upper bounds of the shared counts of one of the tables."""
        bounds = count_bounds(table)
        assert bounds is not None, "only of tables without noise"
        low, high = bounds
        return low[:, self.columns(table)], high[:, self.columns(table)]

    @property
    def exact(self) -> Flags:
        """Which shared cells are exact in both tables, without noise."""
        (low, high), (other_low, other_high) = map(self.counts, self.tables)
        return np.asarray((low == high) & (other_low == other_high))

    @property
    def counted(self) -> Whole:
        """Larger minus smaller where both counts are exact, shape (exact cell,)."""
        difference = self.counts(self.larger)[0] - self.counts(self.smaller)[0]
        return difference[self.exact]

    def nested(self, chance: float) -> bool:
        """Return whether the smaller group looks like a subset of the larger."""
        (low, high), (low_part, high_part) = map(self.counts, (self.larger, self.smaller))
        people = self.larger.group_size - self.smaller.group_size
        if ((low_part > high) | (low - high_part > people)).any():
            return False
        share = self.smaller.group_size / (self.larger.group_size + self.smaller.group_size)
        return coincidence(low, low_part, self.exact, people, share) < float(np.log(chance))

    def reused_cells(self, chance: float) -> int:
        """Return in how many cells fractions agree, 0 if no more often than by chance."""
        first, second = (self.values(table) for table in self.tables)
        both = (first != np.rint(first)) & (second != np.rint(second))
        both &= ~np.isnan(first + second)
        if self.noiseless or not both.any():
            return 0
        difference = (first - second)[both]
        n = int(np.count_nonzero(np.abs(difference - np.rint(difference)) < _WHOLE))
        by_chance = scipy.stats.binom.sf(
            n - 1, len(difference), self._agreement(first[both], second[both])
        )
        return n if by_chance < chance else 0

    def _agreement(self, first: Values, second: Values) -> float:
        """Return how often fractions agree by chance, given their number of decimals."""
        n_decimals = [MOST_DECIMALS if (n := decimals(v)) is None else n for v in (first, second)]
        spacing = max(10.0 ** -min(n_decimals), 2 * _WHOLE)
        grid_shares = [_atoms(values) for values in (first, second)]
        return max(spacing, *grid_shares)

    def mean_square(self, rng: np.random.Generator) -> tuple[float, float, float]:
        """Return the mean square of differences, and moments of the sum of both noises.

        The moments are the least second and the largest fourth moment over counts, NaN if noise on
        one cell depends on other cells.
        """
        difference = self.difference[~np.isnan(self.difference)]
        observed = float(np.mean(difference**2)) if difference.size else 0.0
        if any(table.mechanism.noise_scope != "cell" for table in self.tables):
            return observed, np.nan, np.nan
        (first, first_4), (second, second_4) = (_noise(table, rng) for table in self.tables)
        fourth = first_4 + second_4 + 6 * (first * second)
        return observed, float((first + second).min()), float(fourth.max())

    def chance_of_few(self, least: int) -> tuple[int, int, float]:
        """Return how many differences are those of the people in one table only, and the chance.

        Differences from 1 to the number of people by which the groups differ, the number of cells
        that differ at all, and the chance of as many if noise were drawn anew in each of these
        cells: at most, and 1 if noise cannot be told from people, or if there are fewer than
        ``least``.
        """
        difference = self.difference
        differing = difference[np.nan_to_num(difference) != 0]
        people = self.larger.group_size - self.smaller.group_size
        n_few = int(((differing >= 1) & (differing <= people)).sum())
        fractions = any((values % 1 > 0).any() for values in map(self.values, self.tables))
        if fractions or n_few < least or people > _MOST_PEOPLE:
            return n_few, len(differing), 1.0
        made = [(table.mechanism, table.group_size) for table in (self.larger, self.smaller)]
        each = _chance_of_step(tuple(made))
        return n_few, len(differing), float(scipy.stats.binom.sf(n_few - 1, len(differing), each))


def _noise(table: PublishedTable, rng: np.random.Generator) -> tuple[Values, Values]:
    """Return the second and fourth moments of the noise on a few counts, both shape (count,)."""
    size = table.group_size
    counts = np.array([0, min(1, size), size // 2, size], np.int32)
    releases = table.mechanism.release(
        np.repeat(counts[:, None], _DRAWS, axis=1), group_size=size, rng=rng
    )
    noise = releases - releases.mean(axis=1, keepdims=True)
    return np.mean(noise**2, axis=1), np.mean(noise**4, axis=1)


def _atoms(values: Values) -> float:
    """Return the share of the most frequent fraction, which is large for values on a grid."""
    fractions = np.round(values - np.floor(values), 6)
    return float(np.unique(fractions, return_counts=True)[1].max() / len(values))


@lru_cache(maxsize=64)
def _chance_of_step(made: tuple[tuple[Mechanism, int], ...]) -> float:
    """Return the chance of a difference that people explain, given that there is one.

    The largest over cells that some number of others share, and over the number of people in the
    larger group only; 1 if an output distribution is not known. ``made``: the mechanism and the
    size of the larger and of the smaller group.
    """
    laws = [mechanism.law(size) for mechanism, size in made]
    (_, largest), (_, size) = made
    people = largest - size
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
