"""Hidden cells that follow from the tables of a whole group and of its two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.consistency.finding import Check, CheckResult, agree
from clusterscale.consistency.table import PublishedTable, count_bounds, smallest_shown
from clusterscale.contracts import Count
from clusterscale.validation_messages import plural

__all__ = ["Complement"]

Whole = NDArray[np.int64]


class Complement(Check):
    """Check whether a cell hidden in one table follows from two others.

    Among three tables over the same cells, without noise, one is taken as the sum of the other two
    if its group size is the sum of theirs, no cell contradicts it, and at least ``least`` non-zero
    cells that are exact in all three agree. A cell that one table hides, by redaction or by
    suppression, is then the sum or the difference of the others. The result is inconsistent if a
    hidden cell is shown to count 1 to ``small`` − 1 people.

    Parts of parts, and sums of more than two groups, are not searched for.
    """

    name: Literal["complement"] = "complement"
    compares: ClassVar[bool] = True
    small: Count | None = None
    least: Count = 10

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return how many hidden cells follow from any two of ``others``; ``rng`` is not used."""
        sums = [
            whole
            for pair in combinations(others, 2)
            if (whole := _sum_of((table, *pair), self.least)) is not None
        ]
        if not sums:
            text = f"{table.name} is in no sum of a group and its two parts"
            return CheckResult.of_faults(self.name, 0, 0, text)
        learned = [
            (whole, *whole.learned(smallest_shown(self.small, *whole.tables))) for whole in sums
        ]
        worst, n_small, n_known = max(learned, key=lambda row: row[1:])
        small = smallest_shown(self.small, *worst.tables)
        text = (
            f"{worst.tables[0].name} is the sum of {worst.tables[1].name} and "
            f"{worst.tables[2].name}: {plural(n_known, 'hidden cell')} can be computed; "
            f"{n_small:,} of them {agree(n_small, 'count')} 1 to {small - 1} people"
        )
        return CheckResult.of_faults(self.name, n_small, worst.total[0].size, text)


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """Tables of a group and its two parts, with count bounds for each on their shared cells."""

    tables: tuple[PublishedTable, PublishedTable, PublishedTable]
    total: tuple[Whole, Whole]
    first: tuple[Whole, Whole]
    second: tuple[Whole, Whole]

    @property
    def agrees(self) -> bool:
        """Whether no cell contradicts the sum."""
        (low, high), (low_1, high_1), (low_2, high_2) = self.total, self.first, self.second
        return bool(((low <= high_1 + high_2) & (high >= low_1 + low_2)).all())

    @property
    def n_seen(self) -> int:
        """Number of non-zero cells that are exact in all three tables."""
        known = [low == high for low, high in (self.total, self.first, self.second)]
        return int(np.count_nonzero(known[0] & known[1] & known[2] & (self.total[0] > 0)))

    def learned(self, small: int) -> tuple[int, int]:
        """Return the number of hidden cells learned that count 1 to ``small`` − 1, and of all."""
        (low, high), (low_1, high_1), (low_2, high_2) = self.total, self.first, self.second
        follows = (
            (self.total, low_1 + low_2, high_1 + high_2),
            (self.first, low - high_2, high - low_2),
            (self.second, low - high_1, high - low_1),
        )
        n_small = n_known = 0
        for (least, most), low_then, high_then in follows:
            count = np.maximum(least, low_then)
            known = (least < most) & (count == np.minimum(most, high_then))
            n_known += int(known.sum())
            n_small += int(np.count_nonzero(known & (count >= 1) & (count < small)))
        return n_small, n_known


def _sum_of(
    tables: tuple[PublishedTable, PublishedTable, PublishedTable], least: int
) -> _Sum | None:
    """Return the largest table as the sum of the other two, or None if it is not their sum."""
    total, first, second = sorted(tables, key=lambda table: -table.group_size)
    if total.group_size != first.group_size + second.group_size:
        return None
    begin = max(table.first_epoch for table in tables)
    stop = min(table.first_epoch + table.values.shape[1] for table in tables)
    if begin >= stop or len({len(table.values) for table in tables}) > 1:
        return None
    counts = []
    for table in (total, first, second):
        if (bounds := count_bounds(table)) is None:
            return None
        shared = slice(begin - table.first_epoch, stop - table.first_epoch)
        counts.append((bounds[0][:, shared], bounds[1][:, shared]))
    whole = _Sum((total, first, second), *counts)
    return whole if whole.agrees and whole.n_seen >= least else None
