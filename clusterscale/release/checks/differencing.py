"""Check of whether the difference of two tables is a count of few people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
import scipy

from clusterscale.contracts import Count, Probability
from clusterscale.release.checks.pairs import Subtraction, TablePair, chance_of_step
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
    detected where fractions agree more often than by ``chance``, where differences vary less than
    independent noise requires, or where more of them than by ``chance`` are those of the few people
    in one table only. A table that repeats the values of another discloses nothing.

    Fewer than ``least`` noisy cells are unknown. Not detected: pairs that differ by many leavers
    and joiners; sums and differences of more than two tables; reused noise in whole numbers where
    groups differ by more than twenty people.

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
            self._compare(TablePair(table, other, *where), rng)
            for other in others
            if (where := table.overlap(other)) is not None
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
        if (reused := pair.reused_cells(self.chance)) >= self.least:
            return self._reused(pair, reused)
        if not pair.noiseless:
            return self._noisy(pair, rng)
        return self._subtracted(pair)

    def _reused(self, pair: TablePair, n: int) -> CheckResult:
        few = pair.n_few(smallest_shown(self.small, *pair.tables))
        text = (
            f"{pair.names} reuse the same noise: {plural(n, 'difference')} of fractional values "
            f"{'is' if n == 1 else 'are'} whole, so subtracting removes the noise and shows "
            f"{plural(few, 'cell')} with few people"
        )
        return CheckResult.of_faults(self.name, n, pair.n_shared, text)

    def _noisy(self, pair: TablePair, rng: np.random.Generator) -> CheckResult:
        """Return whether two noisy tables use independent noise.

        The mean of n non-negative squares X is lower than its expectation by t with probability at
        most exp(−n·t²/(2·E X²)) (Maurer 2003).
        """
        observed, expected, fourth = pair.mean_square(rng)
        n = pair.n_shared
        known = expected > 0 and n >= self.least
        if known and observed < expected - np.sqrt(-2 * np.log(self.chance) * fourth / n):
            text = (
                f"{pair.names} reuse the same noise: the mean square of their differences is "
                f"{observed:.3g}, but independent noise gives at least {expected:.3g}"
            )
            return CheckResult(self.name, "inconsistent", observed, expected, n, text)
        people = pair.people
        n_few, n_differing = pair.count_steps(people)
        if n_few >= self.least and self._by_chance(pair, n_few, n_differing) < self.chance:
            who = "one person" if people == 1 else f"{people:,} people"
            text = (
                f"{pair.names} reuse the same noise: in {n_few:,} of {n_differing:,} cells that "
                f"differ, the difference is that of {who}, so subtracting shows where they were"
            )
            return CheckResult(self.name, "inconsistent", n_few, 0.0, n, text)
        if not known:
            why = f"share only {plural(n, 'cell')} of the {self.least} needed"
            if not expected > 0:
                why = "do not have noise on each count separately"
            text = (
                f"{pair.names} {why}, so the check cannot decide whether their difference is "
                "protected"
            )
            return CheckResult.unknown(self.name, n, text)
        text = (
            f"{pair.names} have independent noise: over {plural(n, 'shared cell')}, the mean "
            f"square of their differences is {observed:.3g}, of which at least {expected:.3g} is "
            "noise"
        )
        return CheckResult.of_faults(self.name, 0, n, text)

    def _by_chance(self, pair: TablePair, n_few: int, n_differing: int) -> float:
        """Return the chance of as many differences that people explain, if noise is drawn anew."""
        made = tuple((each.mechanism, each.group_size) for each in (pair.larger, pair.smaller))
        return float(scipy.stats.binom.sf(n_few - 1, n_differing, chance_of_step(made)))

    def _subtracted(self, pair: TablePair) -> CheckResult:
        small, people = smallest_shown(self.small, *pair.tables), pair.people
        found = pair.subtract(small)
        apart = found.n_larger_only + found.n_smaller_only
        if found.n_smaller_only and pair.declared:
            text = (
                f"{pair.smaller.name} is declared a subset of {pair.larger.name}, but a cell "
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
        return self._of_subset(pair, found, small, leak=leak, decided=explained)

    def _of_subset(
        self, pair: TablePair, found: Subtraction, small: int, *, leak: bool, decided: bool
    ) -> CheckResult:
        """Return the result for a group and a subset of it."""
        if not leak and not (decided and found.n_differing):
            text = (
                f"{pair.names} are a group and a subset of it, but no difference of exact cells "
                "shows how many people are in the larger only"
            )
            return CheckResult.unknown(self.name, found.n_exact, text)
        people = pair.people or found.n_larger_only
        n_few = max(found.n_differing, found.n_few) if people < small else found.n_few
        who = "one person was" if people == 1 else f"{people:,} people were"
        text = (
            f"{pair.names} are a group and a subset of it: subtracting shows where {who}, and "
            f"{n_few:,} of {plural(found.n_exact, 'cell')} {agree(n_few, 'count')} fewer than "
            f"{small} of them"
        )
        level: Level = "inconsistent" if leak else "consistent"
        return CheckResult(self.name, level, float(n_few), 0.0, found.n_exact, text)
