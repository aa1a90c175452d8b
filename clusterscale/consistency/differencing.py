"""Check of whether the difference of two tables is a count of few people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.consistency.finding import Check, CheckResult, Level, agree
from clusterscale.consistency.nesting import coincidence
from clusterscale.consistency.table import (
    MOST_DECIMALS,
    PublishedTable,
    count_bounds,
    decimals,
    smallest_shown,
)
from clusterscale.contracts import Count, Probability, Values
from clusterscale.validation_messages import plural

__all__ = ["Differencing"]

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]

_WHOLE = 1e-6  # tolerance for whole numbers: floats lose some digits
_DRAWS = 1 << 12  # of noise, to estimate its moments


class Differencing(Check):
    """Check whether the table minus another one over the same cells describes few people.

    Counts without noise are subtracted where both are exact. The smaller group is taken as a
    subset of the larger if no cell contradicts it (no difference is negative or exceeds that of
    the group sizes), at least ``least`` cells differ, and disjoint groups of these sizes from one
    population would look so with probability below ``chance``. The result is inconsistent if a
    difference is 1 to ``small`` − 1 visits, or if the groups differ by fewer than ``small`` people.

    Independent noise on both tables protects their difference. Reused noise is inconsistent. It is
    detected where fractions agree more often than by ``chance``, or where differences vary less
    than independent noise requires. A table that repeats the values of another discloses nothing.

    Not detected: pairs that differ by both leavers and joiners; a small subset of a large group,
    which looks like any other small group; sums and differences of more than two tables; reused
    noise in whole numbers where groups differ a lot.
    """

    name: Literal["differencing"] = "differencing"
    compares: ClassVar[bool] = True
    small: Count | None = None
    least: Count = 10
    chance: Probability = 0.001

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return the worst result over the pairs of the table with each of ``others``."""
        results = [
            self._compare(_Pair(table, other, *where), rng)
            for other in others
            if (where := table.overlap(other)) is not None
        ]
        if not results:
            text = f"no other table shares cells with {table.name}"
            return CheckResult.of_faults(self.name, 0, 0, text)
        order: list[Level] = ["inconsistent", "unknown", "consistent"]
        return min(results, key=lambda result: (order.index(result.level), -result.measured))

    def _compare(self, pair: _Pair, rng: np.random.Generator) -> CheckResult:
        if pair.same:
            text = f"{pair.names} have equal values in {plural(pair.n_shared, 'shared cell')}"
            return CheckResult.of_faults(self.name, 0, pair.n_shared, text)
        if (reused := pair.reused_cells(self.chance)) >= self.least:
            return self._reused(pair, reused)
        if not pair.noiseless:
            return self._noisy(pair, rng)
        return self._subtracted(pair)

    def _reused(self, pair: _Pair, n: int) -> CheckResult:
        few = _few(pair.difference, smallest_shown(self.small, *pair.tables))
        text = (
            f"{pair.names} reuse the same noise: {plural(n, 'difference')} of fractional values "
            f"{'is' if n == 1 else 'are'} whole, so subtracting removes the noise and shows "
            f"{plural(few, 'cell')} with few people"
        )
        return CheckResult.of_faults(self.name, n, pair.n_shared, text)

    def _noisy(self, pair: _Pair, rng: np.random.Generator) -> CheckResult:
        """Return whether two noisy tables use independent noise.

        The mean of n non-negative squares X is lower than its expectation by t with probability at
        most exp(−n·t²/(2·E X²)) (Maurer 2003).
        """
        observed, expected, fourth = pair.mean_square(rng)
        n = pair.n_shared
        if not expected > 0 or n < self.least:
            why = f"share only {plural(n, 'cell')} of the {self.least} needed"
            if not expected > 0:
                why = "do not have noise on each count separately"
            text = (
                f"{pair.names} {why}, so the check cannot decide whether their difference is "
                "protected"
            )
            return CheckResult.unknown(self.name, n, text)
        if observed < expected - np.sqrt(-2 * np.log(self.chance) * fourth / n):
            text = (
                f"{pair.names} reuse the same noise: the mean square of their differences is "
                f"{observed:.3g}, but independent noise gives at least {expected:.3g}"
            )
            return CheckResult(self.name, "inconsistent", observed, expected, n, text)
        text = (
            f"{pair.names} have independent noise: over {plural(n, 'shared cell')}, the mean "
            f"square of their differences is {observed:.3g}, of which at least {expected:.3g} is "
            "noise"
        )
        return CheckResult.of_faults(self.name, 0, n, text)

    def _subtracted(self, pair: _Pair) -> CheckResult:
        small = smallest_shown(self.small, *pair.tables)
        difference = pair.counted
        n_exact, n_differing = len(difference), int(np.count_nonzero(difference))
        if n_exact < self.least:
            are = "is" if n_exact == 1 else "are"
            text = (
                f"{pair.names} share {plural(n_exact, 'cell')} that {are} exact in both: "
                "too few to detect whether one group is a subset of the other"
            )
            level: Level = "unknown" if pair.n_shared < self.least else "consistent"
            return CheckResult(self.name, level, 0.0, 0.0, n_exact, text)
        if n_differing < self.least or not pair.nested(self.chance):
            text = (
                f"{pair.names} do not look like a group and a subset of it: {n_differing:,} of "
                f"{plural(n_exact, 'exact cell')} differ"
            )
            return CheckResult.of_faults(self.name, 0, n_exact, text)
        people = abs(pair.larger.group_size - pair.smaller.group_size)
        n_few = n_differing if people < small else _few(difference, small)
        leak = people < small or n_few > 0
        who = "one person was" if people == 1 else f"{people:,} people were"
        text = (
            f"{pair.names} are a group and a subset of it: subtracting shows where {who}, and "
            f"{n_few:,} of {plural(n_exact, 'cell')} {agree(n_few, 'count')} fewer than {small} "
            "of them"
        )
        level = "inconsistent" if leak else "consistent"
        return CheckResult(self.name, level, float(n_few), 0.0, n_exact, text)


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Two tables, and the columns of each that cover the same epochs."""

    table: PublishedTable
    other: PublishedTable
    here: slice
    there: slice

    @property
    def tables(self) -> tuple[PublishedTable, PublishedTable]:
        return self.table, self.other

    @property
    def names(self) -> str:
        return f"{self.table.name} and {self.other.name}"

    @property
    def larger(self) -> PublishedTable:
        return max(self.tables, key=lambda table: table.group_size)

    @property
    def smaller(self) -> PublishedTable:
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


def _noise(table: PublishedTable, rng: np.random.Generator) -> tuple[Values, Values]:
    """Return the second and fourth moments of the noise on a few counts, both shape (count,)."""
    size = table.group_size
    counts = np.array([0, min(1, size), size // 2, size], np.int32)
    releases = table.mechanism.release(
        np.repeat(counts[:, None], _DRAWS, axis=1), group_size=size, rng=rng
    )
    noise = releases - releases.mean(axis=1, keepdims=True)
    return np.mean(noise**2, axis=1), np.mean(noise**4, axis=1)


def _few(difference: Values | Whole, small: int) -> int:
    """Return how many differences count few people."""
    size = np.abs(np.rint(difference))
    return int(np.count_nonzero((size >= 1) & (size < small)))


def _atoms(values: Values) -> float:
    """Return the share of the most frequent fraction, which is large for values on a grid."""
    fractions = np.round(values - np.floor(values), 6)
    return float(np.unique(fractions, return_counts=True)[1].max() / len(values))
