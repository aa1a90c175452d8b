"""Hidden cells that follow from the tables of a whole group and of its two parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Count
from clusterscale.release.checks.table import (
    Check,
    CheckResult,
    PublishedTable,
    agree,
    count_intervals,
    smallest_shown,
)
from clusterscale.validation_messages import plural

_Bounds = tuple[NDArray[np.int64], NDArray[np.int64]]
_Tables = tuple[PublishedTable, PublishedTable, PublishedTable]

_BLOCK = 1 << 20  # cells added at a time, so that memory does not grow with the tables


class Complement(Check):
    """Check whether a cell hidden in one table follows from two others.

    Among three tables over the same cells, without noise, one is taken as the sum of the other two
    if its group size is the sum of theirs, no cell contradicts it, and at least ``least`` non-zero
    cells that are exact in all three agree, or both are declared subsets of it. A cell that one
    table hides, by redaction or by suppression, is then the sum or the difference of the others.
    The result is inconsistent if a hidden cell is shown to count 1 to ``small`` − 1 people; it is
    unknown if it would be, but too few cells show whether the table is the sum.

    Parts of parts, and sums of more than two groups, are not searched for.

    Attributes
    ----------
    small
        Number of people below which a count discloses, e.g. ``5``; None: by the mechanism.
    least
        Least number of cells that decide, e.g. ``10``.
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
            row
            for pair in combinations(others, 2)
            if (row := _learned((table, *pair), self.small)) is not None
        ]

        def decides(row: tuple[_Tables, _Learned]) -> bool:
            (total, *parts), learned = row
            declared = all(total.name in part.subset_of for part in parts)
            return declared or learned.n_seen >= self.least

        found = [row for row in sums if decides(row)]
        if not any(row[1].n_small for row in found) and any(row[1].n_small for row in sums):
            text = (
                f"{table.name} may be in a sum of a group and its two parts: too few cells show it"
            )
            return CheckResult.unknown(self.name, sums[0][1].n_cells, text)
        if not found:
            text = f"{table.name} is in no sum of a group and its two parts"
            return CheckResult.of_faults(self.name, 0, 0, text)
        (total, first, second), learned = max(
            found, key=lambda row: (row[1].n_small, row[1].n_known)
        )
        small, n_small = smallest_shown(self.small, total, first, second), learned.n_small
        text = (
            f"{total.name} is the sum of {first.name} and {second.name}: "
            f"{plural(learned.n_known, 'hidden cell')} can be computed; "
            f"{n_small:,} of them {agree(n_small, 'count')} 1 to {small - 1} people"
        )
        return CheckResult.of_faults(self.name, n_small, learned.n_cells, text)


@dataclass(slots=True)
class _Learned:
    """What tables of a group and of its two parts show together, over blocks of their cells.

    ``n_cells`` are shared, ``n_seen`` of these are not 0 and exact in all tables; ``n_known``
    hidden cells follow, of which ``n_small`` count 1 to ``small`` − 1 people.
    """

    n_cells: int = 0
    n_seen: int = 0
    n_small: int = 0
    n_known: int = 0

    def add(self, total: _Bounds, first: _Bounds, second: _Bounds, small: int) -> bool:
        """Add a block of cells, and return whether no cell contradicts the sum."""
        (low, high), (low_1, high_1), (low_2, high_2) = total, first, second
        if not ((low <= high_1 + high_2) & (high >= low_1 + low_2)).all():
            return False
        exact = (low == high) & (low_1 == high_1) & (low_2 == high_2)
        self.n_cells += low.size
        self.n_seen += int(np.count_nonzero(exact & (low > 0)))
        follows = (
            (total, low_1 + low_2, high_1 + high_2),
            (first, low - high_2, high - low_2),
            (second, low - high_1, high - low_1),
        )
        for (least, most), low_then, high_then in follows:
            count = np.maximum(least, low_then)
            known = (least < most) & (count == np.minimum(most, high_then))
            self.n_known += int(known.sum())
            self.n_small += int(np.count_nonzero(known & (count >= 1) & (count < small)))
        return True


def _learned(tables: _Tables, small: int | None) -> tuple[_Tables, _Learned] | None:
    """Return the largest table, the other two, and what follows; None if it is not their sum."""
    total, first, second = sorted(tables, key=lambda table: -table.group_size)
    if total.group_size != first.group_size + second.group_size:
        return None
    begin = max(table.first_epoch for table in tables)
    stop = min(table.first_epoch + table.values.shape[1] for table in tables)
    if begin >= stop or len({len(table.values) for table in tables}) > 1:
        return None
    shared, intervals = [], []
    for table in (total, first, second):
        if (of_table := count_intervals(table)) is None:
            return None
        intervals.append(of_table)
        shared.append(table.values[:, begin - table.first_epoch : stop - table.first_epoch])
    learned, most = _Learned(), smallest_shown(small, total, first, second)
    step = max(_BLOCK // (stop - begin), 1)
    for start in range(0, len(shared[0]), step):
        of_total, of_first, of_second = (
            interval.bounds(values[start : start + step])
            for interval, values in zip(intervals, shared, strict=True)
        )
        if not learned.add(of_total, of_first, of_second, most):
            return None
    return (total, first, second), learned
