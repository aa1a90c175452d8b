"""Two tables whose difference is a count of few people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from clusterscale.consistency.decimals import MOST_DECIMALS, decimals
from clusterscale.consistency.finding import Finding, told
from clusterscale.consistency.table import Table, counts_behind, suppressed_up_to
from clusterscale.contracts import Component, Count, Probability, Values

__all__ = ["SMALL", "Differencing", "smallest_shown"]

Flags = NDArray[np.bool_]
Level = Literal["consistent", "inconsistent", "unknown"]

SMALL = 5
"""Fewer people are few, where no mechanism says otherwise."""

_WHOLE = 1e-6  # differences that close to a whole number are one: floats lose some digits
_DEVIATIONS = 8.0  # below the least variance; squares are skewed, so more than of normal values


def smallest_shown(small: int | None, *tables: Table) -> int:
    """Return the least number of people that may be told of.

    ``small`` where it is given, else what follows the largest number that a table suppresses, else
    5.
    """
    hidden = [suppressed_up_to(table.mechanism) for table in tables]
    return small or max((most + 1 for most in hidden if most is not None), default=SMALL)


class Differencing(Component):
    """Whether the table less another one over the same cells tells of few people.

    Counts without noise are subtracted where both are told exactly. The smaller group is taken to
    be part of the larger if no cell speaks against it (no difference is negative, none larger than
    that of the group sizes), at least ``least`` cells differ, and groups of these sizes from one
    population, drawn apart, would come out so with a probability below ``chance``: each visit is
    then one of the smaller group with a probability in proportion to its size. A difference between
    1 and ``small`` − 1 visits, or of fewer than ``small`` people, is inconsistent.

    Noise that is added twice protects a difference too. It is inconsistent if it was reused, which
    shows where fractions agree more often than by ``chance``, or where differences vary less than
    the noise of both must.

    A pair that differs by both leavers and joiners is not recognised, nor a small part of a large
    group, which looks like any other small group, nor are differences of more than
    two tables, nor reused noise that was rounded where groups differ a lot.
    """

    name: Literal["differencing"] = "differencing"
    compares: ClassVar[bool] = True
    small: Count | None = None
    least: Count = 10
    chance: Probability = 0.001

    def check(self, table: Table, others: Sequence[Table], *, rng: np.random.Generator) -> Finding:
        """Return what the table tells together with each of ``others``; ``rng`` is not used."""
        found = [
            self._compare(table, other, *where)
            for other in others
            if (where := table.overlap(other)) is not None
        ]
        if not found:
            text = f"no other table has cells of {table.name}"
            return Finding(self.name, "consistent", 0.0, 0.0, 0, text)
        order: list[Level] = ["inconsistent", "unknown", "consistent"]
        return min(found, key=lambda each: (order.index(each.level), -each.measured))

    def _compare(self, table: Table, other: Table, here: slice, there: slice) -> Finding:
        pair = _Pair(table, other, here, there)
        if (reused := pair.reused_cells(self.chance)) >= self.least:
            return self._reused(pair, reused)
        if not pair.bare:
            return self._noisy(pair)
        return self._subtracted(pair)

    def _reused(self, pair: _Pair, n: int) -> Finding:
        few = pair.few(pair.difference, smallest_shown(self.small, *pair.tables))
        text = (
            f"{pair.said} hold the same noise: {told(n, 'difference')} with fractions in both "
            f"tables {'is' if n == 1 else 'are'} whole, so subtracting takes the noise away and "
            f"shows {told(few, 'cell')} of few people"
        )
        return Finding(self.name, "inconsistent", float(n), 0.0, pair.n_shared, text)

    def _noisy(self, pair: _Pair) -> Finding:
        seen, due, error = pair.variance()
        if np.isfinite(due) and pair.n_shared >= self.least and seen < due - _DEVIATIONS * error:
            text = (
                f"{pair.said} hold the same noise: the mean square of their differences is "
                f"{seen:.3g}, but noise that was drawn twice gives {due:.3g} or more"
            )
            return Finding(self.name, "inconsistent", seen, due, pair.n_shared, text)
        if np.isnan(due):
            text = f"{pair.said} hold noise, of which no law of single counts is known"
            return Finding(self.name, "unknown", np.nan, np.nan, pair.n_shared, text)
        text = (
            f"{pair.said} hold noise of their own: on {told(pair.n_shared, 'shared cell')} "
            f"differences have a mean square of {seen:.3g}, of which {due:.3g} is noise"
        )
        return Finding(self.name, "consistent", 0.0, 0.0, pair.n_shared, text)

    def _subtracted(self, pair: _Pair) -> Finding:
        small = smallest_shown(self.small, *pair.tables)
        exact, difference = pair.exact, pair.difference
        n_exact, n_other = int(exact.sum()), int(np.count_nonzero(difference[exact]))
        if n_exact < self.least:
            text = (
                f"{pair.said} share {told(n_exact, 'cell')} that both tell exactly: too few to "
                "see whether one group is part of the other"
            )
            level: Level = "unknown" if pair.n_shared < self.least else "consistent"
            return Finding(self.name, level, 0.0, 0.0, n_exact, text)
        if n_other < self.least or not pair.nested(self.chance):
            text = (
                f"{pair.said} do not look like a group and a part of it: {n_other:,} of "
                f"{told(n_exact, 'exact cell')} differ"
            )
            return Finding(self.name, "consistent", 0.0, 0.0, n_exact, text)
        people = abs(pair.larger.group_size - pair.smaller.group_size)
        n_few = n_other if people < small else pair.few(difference, small)
        leak = people < small or n_few > 0
        text = (
            f"{pair.said} are a group and a part of it: subtracting tells where {people:,} people "
            f"were, in {n_few:,} of {told(n_exact, 'cell')} fewer than {small} of them"
        )
        level = "inconsistent" if leak else "consistent"
        return Finding(self.name, level, float(n_few), 0.0, n_exact, text)


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Two tables, and the columns of both that are the same epochs."""

    table: Table
    other: Table
    here: slice
    there: slice

    @property
    def tables(self) -> tuple[Table, Table]:
        return self.table, self.other

    @property
    def said(self) -> str:
        return f"{self.table.name} and {self.other.name}"

    @property
    def larger(self) -> Table:
        return max(self.tables, key=lambda table: table.group_size)

    @property
    def smaller(self) -> Table:
        return self.other if self.larger is self.table else self.table

    def columns(self, table: Table) -> slice:
        """Return the shared columns of one of them."""
        return self.here if table is self.table else self.there

    def values(self, table: Table) -> Values:
        """Return the shared values of one of them."""
        return table.values[:, self.columns(table)]

    @property
    def difference(self) -> Values:
        """Larger less smaller, shape (roi, shared epoch); NaN where one is redacted."""
        return np.asarray(self.values(self.larger) - self.values(self.smaller))

    @property
    def n_shared(self) -> int:
        """Cells that are published in both."""
        return int(np.count_nonzero(~np.isnan(self.difference)))

    @property
    def bare(self) -> bool:
        """Whether neither holds noise."""
        return all(counts_behind(table) is not None for table in self.tables)

    def counts(self, table: Table) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the least and largest shared counts of one of them."""
        found = counts_behind(table)
        assert found is not None, "only of tables without noise"
        low, high = found
        return low[:, self.columns(table)], high[:, self.columns(table)]

    @property
    def exact(self) -> Flags:
        """Which shared cells both tell exactly, without noise."""
        found = [self.counts(table) for table in self.tables]
        return np.asarray((found[0][0] == found[0][1]) & (found[1][0] == found[1][1]))

    def few(self, difference: Values, small: int) -> int:
        """Return how many exact differences are of few people; all of noise that was reused."""
        size = np.abs(np.rint(difference[self.exact] if self.bare else difference))
        return int(np.count_nonzero((size >= 1) & (size < small)))

    def nested(self, chance: float) -> bool:
        """Return whether the smaller group looks like a part of the larger.

        What holds in all cells of a ROI holds in any one of them, so the probability of the most
        telling is a bound however long people stay; those of ROIs are multiplied.
        """
        (low, high), (low_part, high_part) = map(self.counts, (self.larger, self.smaller))
        people = self.larger.group_size - self.smaller.group_size
        if ((low_part > high) | (low - high_part > people)).any():
            return False
        visits = np.where(self.exact, low + low_part, 0)
        share = self.smaller.group_size / (self.larger.group_size + self.smaller.group_size)
        # Of s visits, x to the smaller group: 0 ≤ s − 2x ≤ people.
        law = stats.binom(visits, share)
        likely = law.cdf(visits // 2) - law.cdf((visits - people + 1) // 2 - 1)
        with np.errstate(divide="ignore"):
            return bool(np.log(likely.min(axis=1)).sum() < np.log(chance))

    def reused_cells(self, chance: float) -> int:
        """Return in how many cells fractions agree, 0 if no more than by chance."""
        first, second = (self.values(table) for table in self.tables)
        both = (first != np.rint(first)) & (second != np.rint(second))
        both &= ~np.isnan(first + second)
        if self.bare or not both.any():
            return 0
        away = (first - second)[both]
        n = int(np.count_nonzero(np.abs(away - np.rint(away)) < _WHOLE))
        by_chance = stats.binom.sf(n - 1, len(away), self._coincidence(first[both], second[both]))
        return n if by_chance < chance else 0

    def _coincidence(self, first: Values, second: Values) -> float:
        """Return how often fractions agree by chance, with so many decimals."""
        places = [MOST_DECIMALS if (n := decimals(v)) is None else n for v in (first, second)]
        spacing = max(10.0 ** -min(places), 2 * _WHOLE)
        discrete = [_atoms(values) for values in (first, second)]
        return max(spacing, *discrete)

    def variance(self) -> tuple[float, float, float]:
        """Return the mean square of differences, the least that it can be, and its error.

        NaN the least where no law is known.
        """
        difference = self.difference[~np.isnan(self.difference)]
        laws: list[Any] = [table.mechanism.law(table.group_size) for table in self.tables]
        if not difference.size:
            return 0.0, 0.0, 0.0
        seen = float(np.mean(difference**2))
        if None in laws:
            return seen, np.nan, np.nan
        due = 0.0
        for law, table in zip(laws, self.tables, strict=True):
            counts = np.unique([0, 1, table.group_size // 2, table.group_size])
            due += float(law.moments(counts)[1].min())
        return seen, due, 2 * due / len(difference) ** 0.5  # √3.5 of Laplace noise


def _atoms(values: Values) -> float:
    """Return the share of the most frequent fraction: of values on a grid many agree."""
    fractions = np.round(values - np.floor(values), 6)
    return float(np.unique(fractions, return_counts=True)[1].max() / len(values))
