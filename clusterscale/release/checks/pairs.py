"""Two tables over the same cells, compared; and what is likely by coincidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Self

import numpy as np
import scipy

from clusterscale.contracts import CellLaw, Mechanism, Values
from clusterscale.release.checks.table import (
    MOST_DECIMALS,
    Flags,
    PublishedTable,
    SharedCells,
    Whole,
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
def _chance_of_step(made: tuple[tuple[Mechanism, int], ...]) -> float:
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


class TablePair(SharedCells):
    """A table, and one that is declared a subset of it, or else has no larger group."""

    @classmethod
    def of(cls, *tables: PublishedTable) -> Self | None:
        """Return the cells that both have, the larger table first; None if there are none."""
        wholes = [name for table in tables for name in table.subset_of]
        order = sorted(tables, key=lambda one: (one.name not in wholes, -one.group_size))
        return super().of(*order)

    @property
    def names(self) -> str:
        """Both names, for messages."""
        return " and ".join(table.name for table in self.tables)

    @property
    def declared(self) -> bool:
        """Whether the smaller table is declared a subset of the larger one."""
        larger, smaller = self.tables
        return larger.name in smaller.subset_of

    @property
    def people(self) -> int:
        """How many more people the larger table counts, by the stated group sizes."""
        larger, smaller = self.tables
        return max(larger.group_size - smaller.group_size, 0)

    @cached_property
    def n_shared(self) -> int:
        """Number of cells published in both."""
        return sum(int((~np.isnan(some)).sum()) for some in self._differences())

    @property
    def same(self) -> bool:
        """Whether one table repeats the other, so that their difference discloses nothing.

        Equal values of groups of different sizes disclose where the people in only one are not.
        """
        differ = self.people or any(np.nan_to_num(some).any() for some in self._differences())
        return not differ and self.n_shared > 0

    def n_few(self, small: int) -> int:
        """Return how many differences of published values count 1 to ``small`` − 1 people."""
        sizes = (np.abs(np.rint(difference)) for difference in self._differences())
        return sum(int(((size >= 1) & (size < small)).sum()) for size in sizes)

    def count_steps(self) -> tuple[int, int]:
        """Return how many differences are of the people in one table only, and are not 0.

        None are if a published value is a fraction.
        """
        n_few = n_differing = 0
        for larger, smaller in self.blocks():
            if (larger % 1 > 0).any() or (smaller % 1 > 0).any():
                return 0, 0
            difference = larger - smaller
            n_few += int(((difference >= 1) & (difference <= self.people)).sum())
            n_differing += int(np.count_nonzero(np.nan_to_num(difference)))
        return n_few, n_differing

    def chance_of_steps(self, n_few: int, n_differing: int) -> float:
        """Return the chance of as many differences that people explain, if noise is drawn anew."""
        made = tuple((table.mechanism, table.group_size) for table in self.tables)
        return float(scipy.stats.binom.sf(n_few - 1, n_differing, _chance_of_step(made)))

    def subtract(self, small: int) -> Subtraction:
        """Subtract counts without noise."""
        found = Subtraction()
        for low, high in self.counts():
            least, most = low[0] - high[1], high[0] - low[1]
            difference = least[(low == high).all(axis=0)]
            found.n_exact += len(difference)
            found.n_differing += int(np.count_nonzero(difference))
            found.n_few += int(((least >= 1) & (most < small)).sum())
            found.n_larger_only = max(found.n_larger_only, int(least.max()))
            found.n_smaller_only = max(found.n_smaller_only, int(-most.min()))
        return found

    def nested(self, chance: float) -> bool:
        """Return whether disjoint groups would agree so well with a probability below ``chance``.

        The log probabilities of ROIs are at most 0, so once their sum is low enough, the rest need
        not be computed.
        """
        larger, smaller = (table.group_size for table in self.tables)
        log_chance, share = 0.0, smaller / (larger + smaller)
        for low, high in self.counts():
            exact = (low == high).all(axis=0)
            log_chance += coincidence(low[0], low[1], exact, self.people, share)
            if log_chance < float(np.log(chance)):
                return True
        return False

    def reused_cells(self, chance: float) -> int:
        """Return in how many cells fractions agree, 0 if no more often than by chance."""
        if self.intervals:
            return 0
        blocks = map(np.stack, self.blocks())
        first, second = np.concatenate([both[:, (both % 1 > 0).all(axis=0)] for both in blocks], 1)
        if not len(first):
            return 0
        difference = first - second
        n = int((np.abs(difference - np.rint(difference)) < _WHOLE).sum())
        by_chance = scipy.stats.binom.sf(n - 1, len(difference), _agreement(first, second))
        return n if by_chance < chance else 0

    def mean_square(self, rng: np.random.Generator) -> tuple[float, float, float]:
        """Return the mean square of differences, and moments of the sum of both noises.

        The moments are the least second and the largest fourth moment over counts, NaN if noise on
        one cell depends on other cells.
        """
        total = sum(float(np.nansum(difference**2)) for difference in self._differences())
        observed = total / max(self.n_shared, 1)
        if any(table.mechanism.noise_scope != "cell" for table in self.tables):
            return observed, np.nan, np.nan
        (first, first_4), (second, second_4) = (_noise(table, rng) for table in self.tables)
        fourth = first_4 + second_4 + 6 * (first * second)
        return observed, float((first + second).min()), float(fourth.max())

    def _differences(self) -> Iterator[Values]:
        """Yield larger minus smaller; NaN where one is redacted."""
        return (larger - smaller for larger, smaller in self.blocks())


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


def _atoms(values: Values) -> float:
    """Return the share of the most frequent fraction, which is large for values on a grid."""
    fractions = np.round(values - np.floor(values), 6)
    return float(np.unique(fractions, return_counts=True)[1].max() / len(values))
