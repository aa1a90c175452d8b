"""Two tables whose difference is a count of few people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.consistency.decimals import MOST_DECIMALS, decimals
from clusterscale.consistency.finding import CheckResult, told
from clusterscale.consistency.nesting import coincidence
from clusterscale.consistency.table import PublishedTable, count_bounds, suppressed_up_to
from clusterscale.contracts import ConfigModel, Count, Probability, Values

__all__ = ["SMALL", "Differencing", "smallest_shown"]

Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]
Level = Literal["consistent", "inconsistent", "unknown"]

SMALL = 5
"""Fewer people are few, where no mechanism says otherwise."""

_WHOLE = 1e-6  # differences that close to a whole number are one: floats lose some digits
_DRAWS = 1 << 12  # of noise, to know its moments


def smallest_shown(small: int | None, *tables: PublishedTable) -> int:
    """Return the least number of people that may be told of.

    ``small`` where it is given, else what follows the largest number that a table suppresses, else
    5.
    """
    hidden = [suppressed_up_to(table.mechanism) for table in tables]
    return small or max((most + 1 for most in hidden if most is not None), default=SMALL)


class Differencing(ConfigModel):
    """Whether the table less another one over the same cells tells of few people.

    Counts without noise are subtracted where both are told exactly. The smaller group is taken to
    be part of the larger if no cell speaks against it (no difference is negative, none larger than
    that of the group sizes), at least ``least`` cells differ, and groups of these sizes from one
    population, drawn apart, would come out so with a probability below ``chance``. A difference
    between 1 and ``small`` − 1 visits, or of fewer than ``small`` people, is inconsistent.

    Noise that is drawn twice protects a difference. It is inconsistent if it was reused, which
    shows where fractions agree more often than by ``chance``, or where differences vary less than
    the noise of both must. A table that repeats the values of another adds nothing.

    A pair that differs by both leavers and joiners is not recognised, nor a small part of a large
    group, which looks like any other small group, nor sums and differences of more than two tables,
    nor reused noise in whole numbers where groups differ a lot.
    """

    name: Literal["differencing"] = "differencing"
    compares: ClassVar[bool] = True
    small: Count | None = None
    least: Count = 10
    chance: Probability = 0.001

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return what the table tells together with each of ``others``."""
        found = [
            self._compare(_Pair(table, other, *where), rng)
            for other in others
            if (where := table.overlap(other)) is not None
        ]
        if not found:
            text = f"no other table has cells of {table.name}"
            return CheckResult(self.name, "consistent", 0.0, 0.0, 0, text)
        order: list[Level] = ["inconsistent", "unknown", "consistent"]
        return min(found, key=lambda each: (order.index(each.level), -each.measured))

    def _compare(self, pair: _Pair, rng: np.random.Generator) -> CheckResult:
        if pair.same:
            text = f"{pair.said} are the same on {told(pair.n_shared, 'shared cell')}"
            return CheckResult(self.name, "consistent", 0.0, 0.0, pair.n_shared, text)
        if (reused := pair.reused_cells(self.chance)) >= self.least:
            return self._reused(pair, reused)
        if not pair.bare:
            return self._noisy(pair, rng)
        return self._subtracted(pair)

    def _reused(self, pair: _Pair, n: int) -> CheckResult:
        few = _few(pair.difference, smallest_shown(self.small, *pair.tables))
        text = (
            f"{pair.said} hold the same noise: {told(n, 'difference')} with fractions in both "
            f"tables {'is' if n == 1 else 'are'} whole, so subtracting takes the noise away and "
            f"shows {told(few, 'cell')} of few people"
        )
        return CheckResult(self.name, "inconsistent", float(n), 0.0, pair.n_shared, text)

    def _noisy(self, pair: _Pair, rng: np.random.Generator) -> CheckResult:
        """Tell noise that was drawn twice from one that was not.

        The mean of n squares X is below its own by t with a probability of at most
        exp(−n·t²/(2·E X²)), for they are not negative (Maurer 2003).
        """
        seen, due, fourth = pair.mean_square(rng)
        n = pair.n_shared
        if not due > 0 or n < self.least:
            why = f"share {told(n, 'cell')}, {self.least} are needed"
            if not due > 0:
                why = "are not published with noise on each count by itself"
            text = f"{pair.said} {why}, so whether it protects their difference is not known"
            return CheckResult(self.name, "unknown", np.nan, np.nan, n, text)
        if seen < due - np.sqrt(-2 * np.log(self.chance) * fourth / n):
            text = (
                f"{pair.said} hold the same noise: the mean square of their differences is "
                f"{seen:.3g}, but noise that is drawn twice gives {due:.3g} or more"
            )
            return CheckResult(self.name, "inconsistent", seen, due, n, text)
        text = (
            f"{pair.said} hold noise of their own: on {told(n, 'shared cell')} differences have a "
            f"mean square of {seen:.3g}, of which {due:.3g} or more is noise"
        )
        return CheckResult(self.name, "consistent", 0.0, 0.0, n, text)

    def _subtracted(self, pair: _Pair) -> CheckResult:
        small = smallest_shown(self.small, *pair.tables)
        difference = pair.counted
        n_exact, n_other = len(difference), int(np.count_nonzero(difference))
        if n_exact < self.least:
            text = (
                f"{pair.said} share {told(n_exact, 'cell')} that both tell exactly: too few to "
                "see whether one group is part of the other"
            )
            level: Level = "unknown" if pair.n_shared < self.least else "consistent"
            return CheckResult(self.name, level, 0.0, 0.0, n_exact, text)
        if n_other < self.least or not pair.nested(self.chance):
            text = (
                f"{pair.said} do not look like a group and a part of it: {n_other:,} of "
                f"{told(n_exact, 'exact cell')} differ"
            )
            return CheckResult(self.name, "consistent", 0.0, 0.0, n_exact, text)
        people = abs(pair.larger.group_size - pair.smaller.group_size)
        n_few = n_other if people < small else _few(difference, small)
        leak = people < small or n_few > 0
        who = "one person was" if people == 1 else f"{people:,} people were"
        text = (
            f"{pair.said} are a group and a part of it: subtracting tells where {who}, and "
            f"{n_few:,} of {told(n_exact, 'cell')} show fewer than {small} of them"
        )
        level = "inconsistent" if leak else "consistent"
        return CheckResult(self.name, level, float(n_few), 0.0, n_exact, text)


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Two tables, and the columns of both that are the same epochs."""

    table: PublishedTable
    other: PublishedTable
    here: slice
    there: slice

    @property
    def tables(self) -> tuple[PublishedTable, PublishedTable]:
        return self.table, self.other

    @property
    def said(self) -> str:
        return f"{self.table.name} and {self.other.name}"

    @property
    def larger(self) -> PublishedTable:
        return max(self.tables, key=lambda table: table.group_size)

    @property
    def smaller(self) -> PublishedTable:
        return self.other if self.larger is self.table else self.table

    def columns(self, table: PublishedTable) -> slice:
        """Return the shared columns of one of them."""
        return self.here if table is self.table else self.there

    def values(self, table: PublishedTable) -> Values:
        """Return the shared values of one of them."""
        return table.values[:, self.columns(table)]

    @property
    def difference(self) -> Values:
        """Larger less smaller, shape (roi, shared epoch); NaN where one is redacted."""
        return np.asarray(self.values(self.larger) - self.values(self.smaller))

    @property
    def same(self) -> bool:
        """Whether one repeats the other, so that nothing is to be had from both."""
        return self.n_shared > 0 and not np.nan_to_num(self.difference).any()

    @property
    def n_shared(self) -> int:
        """Cells that are published in both."""
        return int(np.count_nonzero(~np.isnan(self.difference)))

    @property
    def bare(self) -> bool:
        """Whether neither holds noise."""
        return all(count_bounds(table) is not None for table in self.tables)

    def counts(self, table: PublishedTable) -> tuple[Whole, Whole]:
        """Return the least and largest shared counts of one of them."""
        found = count_bounds(table)
        assert found is not None, "only of tables without noise"
        low, high = found
        return low[:, self.columns(table)], high[:, self.columns(table)]

    @property
    def exact(self) -> Flags:
        """Which shared cells both tell exactly, without noise."""
        found = [self.counts(table) for table in self.tables]
        return np.asarray((found[0][0] == found[0][1]) & (found[1][0] == found[1][1]))

    @property
    def counted(self) -> Whole:
        """Larger less smaller where both tell counts exactly, shape (exact cell,)."""
        found = self.counts(self.larger)[0] - self.counts(self.smaller)[0]
        return found[self.exact]

    def nested(self, chance: float) -> bool:
        """Return whether the smaller group looks like a part of the larger."""
        (low, high), (low_part, high_part) = map(self.counts, (self.larger, self.smaller))
        people = self.larger.group_size - self.smaller.group_size
        if ((low_part > high) | (low - high_part > people)).any():
            return False
        share = self.smaller.group_size / (self.larger.group_size + self.smaller.group_size)
        return coincidence(low, low_part, self.exact, people, share) < float(np.log(chance))

    def reused_cells(self, chance: float) -> int:
        """Return in how many cells fractions agree, 0 if no more than by chance."""
        first, second = (self.values(table) for table in self.tables)
        both = (first != np.rint(first)) & (second != np.rint(second))
        both &= ~np.isnan(first + second)
        if self.bare or not both.any():
            return 0
        away = (first - second)[both]
        n = int(np.count_nonzero(np.abs(away - np.rint(away)) < _WHOLE))
        by_chance = scipy.stats.binom.sf(
            n - 1, len(away), self._agreement(first[both], second[both])
        )
        return n if by_chance < chance else 0

    def _agreement(self, first: Values, second: Values) -> float:
        """Return how often fractions agree by chance, with so many decimals."""
        places = [MOST_DECIMALS if (n := decimals(v)) is None else n for v in (first, second)]
        spacing = max(10.0 ** -min(places), 2 * _WHOLE)
        discrete = [_atoms(values) for values in (first, second)]
        return max(spacing, *discrete)

    def mean_square(self, rng: np.random.Generator) -> tuple[float, float, float]:
        """Return that of differences, the least of noise drawn twice, and its fourth moment.

        Not a number where noise reaches beyond a cell.
        """
        difference = self.difference[~np.isnan(self.difference)]
        seen = float(np.mean(difference**2)) if difference.size else 0.0
        if any(table.mechanism.reach != "cell" for table in self.tables):
            return seen, np.nan, np.nan
        (first, first_4), (second, second_4) = (_noise(table, rng) for table in self.tables)
        fourth = first_4 + second_4 + 6 * (first * second)
        return seen, float((first + second).min()), float(fourth.max())


def _noise(table: PublishedTable, rng: np.random.Generator) -> tuple[Values, Values]:
    """Return the second and fourth moment of the noise on a few counts, shape (count,) both."""
    size = table.group_size
    counts = np.array([0, min(1, size), size // 2, size], np.int32)
    drawn = table.mechanism.release(
        np.repeat(counts[:, None], _DRAWS, axis=1), group_size=size, rng=rng
    )
    away = drawn - drawn.mean(axis=1, keepdims=True)
    return np.mean(away**2, axis=1), np.mean(away**4, axis=1)


def _few(difference: Values | Whole, small: int) -> int:
    """Return how many differences are of few people."""
    size = np.abs(np.rint(difference))
    return int(np.count_nonzero((size >= 1) & (size < small)))


def _atoms(values: Values) -> float:
    """Return the share of the most frequent fraction: of values on a grid many agree."""
    fractions = np.round(values - np.floor(values), 6)
    return float(np.unique(fractions, return_counts=True)[1].max() / len(values))
