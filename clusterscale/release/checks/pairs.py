"""Two tables over the same cells, compared; and what is likely by coincidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple, Self

import numpy as np
import scipy

from clusterscale.contracts import CellLaw, Mechanism, Values
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.release.checks.count_intervals import CountIntervals, count_intervals
from clusterscale.release.checks.table import (
    MOST_DECIMALS,
    Flags,
    PublishedTable,
    Whole,
    decimals,
)
from clusterscale.validation_messages import plural

_BLOCK = 1 << 16  # cells compared at a time: they fit into a processor's cache
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


_CLOSE_ANYWAY = 0.9  # share of close values above which a cell says nothing of its noise
_WHOLE = 1e-6  # tolerance for whole numbers: floats lose some digits
_DRAWS = 1 << 12  # of noise, to estimate its moments


@dataclass(frozen=True, eq=False)
class SharedCells:
    """Several tables, and the values of each in the cells that all have, shape (roi, epoch)."""

    tables: tuple[PublishedTable, ...]
    values: tuple[Values, ...]

    @classmethod
    def of(cls, *tables: PublishedTable) -> Self | None:
        """Return the cells at the epochs of all tables, None if there are none."""
        first = max(table.first_epoch for table in tables)
        stop = min(table.first_epoch + table.values.shape[1] for table in tables)
        if first >= stop or len({len(table.values) for table in tables}) > 1:
            return None
        spans = (slice(first - one.first_epoch, stop - one.first_epoch) for one in tables)
        shared = zip(tables, spans, strict=True)
        return cls(tables, tuple(table.values[:, span] for table, span in shared))

    @cached_property
    def intervals(self) -> list[CountIntervals]:
        """Which counts values may have, of each table; empty if one has noise."""
        found = [count_intervals(table) for table in self.tables]
        known = [one for one in found if one is not None]
        return known if len(known) == len(found) else []

    def blocks(self) -> Iterator[tuple[Values, ...]]:
        """Yield the values of all tables, in blocks of ROIs."""
        step = max(_BLOCK // self.values[0].shape[1], 1)
        for start in range(0, len(self.values[0]), step):
            yield tuple(values[start : start + step] for values in self.values)

    def counts(self) -> Iterator[tuple[Whole, Whole]]:
        """Yield the smallest and the largest count of each cell, both (table, roi, epoch)."""
        for block in self.blocks():
            each = zip(self.intervals, block, strict=True)
            low, high = zip(*(interval.bounds(values) for interval, values in each), strict=True)
            yield np.array(low), np.array(high)


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


class Agreement(NamedTuple):
    """How many of ``n_cells`` values of two tables agree as they do if noise is reused.

    ``share`` is the largest probability of one of them if it is independent; ``what`` says how they
    agree. ``differ`` is whether values that do not agree exclude reused noise.
    """

    what: str
    n: int
    n_cells: int
    share: float
    differ: bool = False

    def chance(self, n: int) -> float:
        """Return the largest probability that so many or more agree if noise is independent."""
        return float(scipy.stats.binom.sf(n - 1, self.n_cells, self.share))


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

    def agreements(self, small: int, least: int) -> list[Agreement]:
        """Return how values agree: in fractions, or by whole differences that few people explain.

        Few are fewer than ``small``; ``least`` cells are needed where the law is approximate.
        """
        first, second = self._both()
        whole = (first % 1 == 0) & (second % 1 == 0)
        if not whole.all():
            return self._fractions(first, second, small)
        return [*self._close(first, second, small), *self._steps(first - second, least)]

    def _fractions(self, first: Values, second: Values, small: int) -> list[Agreement]:
        """Return how fractions agree; nothing if there are none in both tables."""
        fractional = (first % 1 > 0) & (second % 1 > 0)
        first, second = first[fractional], second[fractional]
        if not len(first):
            return []
        difference = first - second
        n = int((np.abs(difference - np.rint(difference)) < _WHOLE).sum())
        what = (
            f"{plural(n, 'difference')} of fractional values {'is' if n == 1 else 'are'} whole, so "
            f"subtracting removes the noise and shows {plural(self.n_few(small), 'cell')} with few "
            "people"
        )
        return [Agreement(what, n, len(difference), _agreement(first, second), differ=True)]

    def _close(self, first: Values, second: Values, small: int) -> Iterator[Agreement]:
        """Yield in how many cells few people explain the difference, for several numbers of them.

        Given a value of the smaller table, one of the larger table is at most so likely to be so
        close as of the count for which it is most likely. Cells are left out where it is close
        anyway, as where values are cut to 0.
        """
        law = self.tables[0].mechanism.law(self.tables[0].group_size)
        if not isinstance(law, OutputDistribution):
            return
        values, which = np.unique(second, return_inverse=True)
        for low, high in sorted({(0, self.people), *((-n, n) for n in range(small))}):
            share = law.most_likely(values + low, values + high)[which]
            tells = share < _CLOSE_ANYWAY
            n_cells, difference = int(tells.sum()), (first - second)[tells]
            if n_cells:
                n, likely = int(((low <= difference) & (difference <= high)).sum()), share[tells]
                span = f"at most {high:,}" if low else f"0 to {high:,} people" if high else "0"
                what = f"{n:,} of {n_cells:,} differences are {span}"
                what += f", as at most {likely.mean():.2%} of independent noise"
                yield Agreement(what, n, n_cells, float(likely.mean()))

    def _steps(self, difference: Values, least: int) -> Iterator[Agreement]:
        """Yield how many differences that are not 0 are of the people in the larger table only."""
        n_few = int(((difference >= 1) & (difference <= self.people)).sum())
        n_cells, who = int(np.count_nonzero(difference)), f"{self.people:,} people"
        what = (
            f"in {n_few:,} of {n_cells:,} cells that differ, the difference is that of "
            f"{'one person' if self.people == 1 else who}, so subtracting shows where they were"
        )
        if n_few >= least:
            made = tuple((table.mechanism, table.group_size) for table in self.tables)
            yield Agreement(what, n_few, n_cells, _chance_of_step(made))

    def apart(self) -> tuple[int, int]:
        """Return how many people are in the larger, and in the smaller only, if noise is the same.

        At least so many by any one cell; both are 0 where no output distribution is known.
        """
        ends = [*map(_before_noise, self.tables, self._both())]
        if not (self.n_shared and all(ends)):
            return 0, 0
        (low, high), (low_2, high_2) = ends
        larger, smaller = (float(one.max()) for one in (low - high_2, low_2 - high))
        return int(np.ceil(larger - _WHOLE)), int(np.ceil(smaller - _WHOLE))

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

    def _both(self) -> tuple[Values, Values]:
        """Return the values of the larger and of the smaller table where both are published."""
        first, second = self.values
        shown = ~np.isnan(first) & ~np.isnan(second)
        return first[shown], second[shown]

    def _differences(self) -> Iterator[Values]:
        """Yield larger minus smaller; NaN where one is redacted."""
        return (larger - smaller for larger, smaller in self.blocks())


def _before_noise(table: PublishedTable, values: Values) -> tuple[Values, ...]:
    """Return the least and the largest sum of count and noise of each value; none if not known."""
    law = table.mechanism.law(table.group_size)
    if isinstance(law, OutputDistribution):
        distinct, which = np.unique(values, return_inverse=True)
        low, high = law.interval(distinct, distinct)
        if not law.noise.whole:  # the second end is not reached, so one more is excluded
            high = high - 2 * _WHOLE
        return low[which], high[which]
    intervals = count_intervals(table, drawn=True)
    return (
        ()
        if intervals is None
        else tuple(np.asarray(end, np.float64) for end in intervals.bounds(values))
    )


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
