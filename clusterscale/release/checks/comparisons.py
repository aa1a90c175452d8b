"""Checks of whether other tables disclose few people: by a difference, or as parts of a sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import Count, Probability
from clusterscale.release.checks.pairs import SharedCells, TablePair
from clusterscale.release.checks.table import (
    Check,
    CheckResult,
    Level,
    PublishedTable,
    agree,
    smallest_shown,
)
from clusterscale.validation_messages import plural


class Differencing(Check):
    """Check whether the table minus another one over the same cells describes few people.

    Counts without noise are subtracted where both are exact. The smaller group is taken as a
    subset of the larger if that is declared; or if their sizes differ, the people in the larger
    only explain every difference, and disjoint groups of these sizes from one population would
    look so with probability below ``chance``. The result is then inconsistent, however few cells
    differ, if a difference is 1 to ``small`` − 1 visits, or if the groups differ by fewer than
    ``small`` people. A declared subset that exceeds the whole is inconsistent, too.

    The result is consistent only if cells show that each group has people whom the other has not,
    at least ``small`` together; or if one is a subset, and no difference is of few people. It is
    unknown if neither that nor a subset is shown.

    Independent noise on both tables protects their difference. Reused noise is inconsistent. It is
    detected where differences vary less than independent noise requires, where fractions agree, and
    where whole differences are those of few people or of the people in one table only, each more
    often than by ``chance``. A table that repeats the values of another discloses nothing.

    Noisy tables are consistent only if reused noise would have been detected between tables of
    nearly the same people, and fractions do not agree, or else each group has people whom the other
    has not, at least ``small`` together, even if noise was reused; a declared subset needs a cell
    that counts more than the whole. Otherwise, as with fewer than ``least`` cells, the result is
    unknown. Not detected: pairs that differ by many leavers and joiners; sums and differences of
    more than two tables.

    Attributes
    ----------
    small
        Number of people below which a count discloses, e.g. ``5``; None: by the mechanism.
    least
        Least number of cells with noise that decide, e.g. ``10``.
    chance
        Probability of a coincidence that is accepted, e.g. ``0.001``.
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
            self._compare(pair, rng)
            for other in others
            if (pair := TablePair.of(table, other)) is not None
        ]
        if not results:
            text = f"no other table shares cells with {table.name}"
            return CheckResult.of_faults(self.name, 0, 0, text)
        order: list[Level] = ["inconsistent", "unknown", "consistent"]
        return min(results, key=lambda result: (order.index(result.level), -result.measured))

    def _compare(self, pair: TablePair, rng: np.random.Generator) -> CheckResult:
        if pair.same:
            text = f"{pair.names} have equal values in {plural(pair.n_shared, 'shared cell')}"
            return CheckResult.of_faults(self.name, 0, pair.n_shared, text)
        if any(table.mechanism.uses_weights for table in pair.tables):
            text = (
                f"{pair.names} publish sums of weights, so the check cannot decide how many people "
                "their difference counts"
            )
            return CheckResult.unknown(self.name, pair.n_shared, text)
        return self._subtracted(pair) if pair.intervals else self._noisy(pair, rng)

    def _noisy(self, pair: TablePair, rng: np.random.Generator) -> CheckResult:
        """Return whether two noisy tables use independent noise, or disclose nothing if not.

        The mean of n non-negative squares X is lower than its expectation by t with probability at
        most exp(−n·t²/(2·E X²)) (Maurer 2003). The number of values that agree, each with another
        probability, is as large with at most the probability by their mean (Hoeffding 1956).
        """
        observed, expected, fourth = pair.mean_square(rng)
        n, small = pair.n_shared, smallest_shown(self.small, *pair.tables)
        least = expected - np.sqrt(-2 * np.log(self.chance) * fourth / max(n, 1))
        known = expected > 0 and n >= self.least
        reused = f"{pair.names} reuse the same noise"
        if known and observed < least:
            text = (
                f"{reused}: the mean square of their differences is {observed:.3g}, but "
                f"independent noise gives at least {expected:.3g}"
            )
            return CheckResult(self.name, "inconsistent", observed, expected, n, text)
        tests = pair.agreements(small, self.least)
        chance = self.chance / max(len(tests), 1)
        for one in tests:
            if one.chance(one.n) < chance:
                text = f"{reused}: {one.what}"
                return CheckResult(self.name, "inconsistent", one.n, 0.0, n, text)
        if not known:
            why = f"share only {plural(n, 'cell')} of the {self.least} needed"
            if not expected > 0:
                why = "do not have noise on each count separately"
            text = (
                f"{pair.names} {why}, so the check cannot decide whether their difference is "
                "protected"
            )
            return CheckResult.unknown(self.name, n, text)
        could = [one for one in tests if one.chance(one.n_cells) < chance]
        return self._undetected(pair, small, any(one.differ for one in could), could or least > 0)

    def _undetected(self, pair: TablePair, small: int, differ: bool, could: object) -> CheckResult:
        """Return what follows if no test detects reused noise, and whether one could have."""
        n = pair.n_shared
        if differ:
            text = f"{pair.names} have independent noise: fractions of their values do not agree"
            return CheckResult.of_faults(self.name, 0, n, text)
        if not could:
            text = f"{pair.names}: over {plural(n, 'cell')}, no test would detect reused noise"
            return CheckResult.unknown(self.name, n, text)
        more, fewer = pair.apart()
        if fewer > 0 and (pair.declared or (more > 0 and max(more, fewer) >= small)):
            text = (
                f"{pair.names} have independent noise, or at least {more + fewer:,} people are in "
                "only one of them: otherwise differences were more often those of few people"
            )
            return CheckResult.of_faults(self.name, 0, n, text)
        text = (
            f"{pair.names}: it is not decided whether noise is reused, and if it is, whether "
            "their difference is that of few people"
        )
        return CheckResult.unknown(self.name, n, text)

    def _subtracted(self, pair: TablePair) -> CheckResult:
        small, people = smallest_shown(self.small, *pair.tables), pair.people
        found = pair.subtract(small)
        apart = found.n_larger_only + found.n_smaller_only
        if found.n_smaller_only and pair.declared:
            larger, smaller = pair.tables
            text = (
                f"{smaller.name} is declared a subset of {larger.name}, but a cell "
                f"counts {found.n_smaller_only:,} more in it"
            )
            return CheckResult(self.name, "inconsistent", apart, 0.0, found.n_exact, text)
        if found.n_smaller_only and found.n_larger_only and apart >= small:
            text = (
                f"{pair.names} are not a group and a subset of it: at least {apart:,} people are "
                "in only one of them"
            )
            return CheckResult.of_faults(self.name, 0, pair.n_shared, text)
        explained = not found.n_smaller_only and found.n_larger_only <= people
        if not pair.declared and not (people and explained and pair.nested(self.chance)):
            text = (
                f"{found.n_differing:,} of {plural(found.n_exact, 'exact cell')} of {pair.names} "
                "differ, which does not show whether one group is a subset of the other: if it is, "
                "declare it with `subset_of`"
            )
            return CheckResult.unknown(self.name, found.n_exact, text)
        leak = found.n_few > 0 or (found.n_exact > 0 and explained and 0 < people < small)
        if not leak and not (explained and found.n_differing):
            text = (
                f"{pair.names} are a group and a subset of it, but no difference of exact cells "
                "shows how many people are in the larger only"
            )
            return CheckResult.unknown(self.name, found.n_exact, text)
        people = people or found.n_larger_only
        n_few = max(found.n_differing, found.n_few) if people < small else found.n_few
        who = "one person was" if people == 1 else f"{people:,} people were"
        text = (
            f"{pair.names} are a group and a subset of it: subtracting shows where {who}, and "
            f"{n_few:,} of {plural(found.n_exact, 'cell')} {agree(n_few, 'count')} fewer than "
            f"{small} of them"
        )
        level: Level = "inconsistent" if leak else "consistent"
        return CheckResult(self.name, level, float(n_few), 0.0, found.n_exact, text)


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
        triples = (_find_sum((table, *pair), self.small) for pair in combinations(others, 2))
        sums = [one for one in triples if one is not None]
        found = [one for one in sums if one.is_declared or one.n_seen >= self.least]
        best = max(found, key=lambda one: (one.n_small, one.n_known), default=None)
        if any(one.n_small for one in sums) and not (best and best.n_small):
            text = (
                f"{table.name} may be in a sum of a group and its two parts: too few cells show it"
            )
            return CheckResult.unknown(self.name, sums[0].n_cells, text)
        if best is None:
            text = f"{table.name} is in no sum of a group and its two parts"
            return CheckResult.of_faults(self.name, 0, 0, text)
        total, first, second = best.tables
        text = (
            f"{total.name} is the sum of {first.name} and {second.name}: "
            f"{plural(best.n_known, 'hidden cell')} can be computed; "
            f"{best.n_small:,} of them {agree(best.n_small, 'count')} 1 to {best.small - 1} people"
        )
        return CheckResult.of_faults(self.name, best.n_small, best.n_cells, text)


@dataclass(slots=True)
class _Sum:
    """What tables of a group and of its two parts show together.

    ``n_cells`` are shared, ``n_seen`` of these are not 0 and exact in all tables; ``n_known``
    hidden cells follow, of which ``n_small`` count 1 to ``small`` − 1 people.
    """

    tables: tuple[PublishedTable, ...]
    small: int
    n_cells: int = 0
    n_seen: int = 0
    n_small: int = 0
    n_known: int = 0

    @property
    def is_declared(self) -> bool:
        """Whether both parts are declared subsets of the first table."""
        total, *parts = self.tables
        return all(total.name in part.subset_of for part in parts)


def _find_sum(tables: Sequence[PublishedTable], small: int | None) -> _Sum | None:
    """Return what follows if the largest table is the sum of the others; None if it is not."""
    total, first, second = sorted(tables, key=lambda table: -table.group_size)
    shared = SharedCells.of(total, first, second)
    is_sum = total.group_size == first.group_size + second.group_size
    if not is_sum or shared is None or not shared.intervals:
        return None
    found = _Sum(shared.tables, smallest_shown(small, *tables))
    for low, high in shared.counts():
        least = np.maximum(low, [low[1] + low[2], low[0] - high[2], low[0] - high[1]])
        most = np.minimum(high, [high[1] + high[2], high[0] - low[2], high[0] - low[1]])
        if (least > most).any():
            return None
        exact = low == high
        follows = least[(least == most) & ~exact]
        found.n_cells += low[0].size
        found.n_seen += int((exact.all(axis=0) & (low[0] > 0)).sum())
        found.n_known += len(follows)
        found.n_small += int(((follows >= 1) & (follows < found.small)).sum())
    return found
