"""Which counts each published value of a table may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from clusterscale.contracts import NO_NOISE, Mechanism, TraceStep, Values
from clusterscale.mechanisms.chain import last_suppression, steps_of
from clusterscale.mechanisms.law import FiniteDistribution, OutputDistribution
from clusterscale.mechanisms.sampling import SampleEvents
from clusterscale.mechanisms.suppression import Suppression
from clusterscale.release.checks.table import (
    MOST_DECIMALS,
    Flags,
    PublishedTable,
    Whole,
    decimals,
)

_BLOCK = 1 << 16  # counts whose values are computed at a time: they fit into a processor's cache


def fill_suppressed(table: PublishedTable) -> Values:
    """Return the values, float64, shape (roi, epoch), with a number in suppressed blank cells.

    It is the number that the declared mechanism has for them. If that is 0, a table without any 0
    is assumed to leave suppressed cells blank instead.
    """
    filler = _filler(table)
    filled = table.values if filler is None else np.where(table.published, table.values, filler)
    for others in (table.not_covered, table.secondary):
        filled = filled if others is None else np.where(others, np.nan, filled)
    return filled


def _filler(table: PublishedTable) -> float | None:
    """Return the number for suppressed blank cells, None if blank cells stay blank."""
    steps, last = steps_of(table.mechanism), last_suppression(table.mechanism)
    if last is None or (last.hidden == "zero" and (table.values == 0).any()):
        return None
    stands_for = np.array([[last.hidden_as]])
    after = _ends_of(
        steps[_after(steps, last) :], (stands_for, stands_for.copy()), table.group_size
    )
    if after is None or (after[0] != after[1]).any():
        return None  # what is published depends on more than this count
    return float(after[0][0, 0])


def _after(steps: Sequence[Mechanism], last: Suppression | None) -> int:
    """Return the position after the last suppression, 0 without one."""
    return next((i + 1 for i, step in enumerate(steps) if step is last), 0)


def _ends_of(
    steps: Iterable[Mechanism], ends: tuple[Values, Values], group_size: int
) -> tuple[Values, Values] | None:
    """Return the least and the largest value that steps publish of values between ends, (1, value).

    The ends are overwritten. None if noise is added that has no bounds, or a value depends on more
    than one count.
    """
    low, high = ends
    for step in steps:
        law = step.law(group_size)
        if isinstance(law, FiniteDistribution):
            (least, p), (most, p_most) = law.published(low), law.published(high)
            low = np.where(p > 0, least, np.inf).min(axis=-1)
            high = np.where(p_most > 0, most, -np.inf).max(axis=-1)
        elif isinstance(law, OutputDistribution) and law.noise == NO_NOISE:
            law.revise(low)
            law.revise(high)
        elif isinstance(step, SampleEvents):
            low = np.zeros_like(low)
        elif not isinstance(step, TraceStep):
            return None
    return low, high


@dataclass(frozen=True, slots=True, eq=False)
class CountIntervals:
    """Which counts each published value of a table may have.

    ``lowest`` and ``highest`` are the ends of the values published for each count, shape (group
    size + 1,), equal if nothing is drawn, and ∞ and −∞ of a count that is only left blank;
    ``filler`` is the value of suppressed blank cells, None if blank cells say nothing; ``blank``
    their smallest and largest count, None if they have those of ``filler``; ``rounding`` the most
    by which the table's decimals may have changed a value; ``least_shown`` the smallest count that
    is not hidden, other than a 0 beside labels.
    """

    lowest: Values
    highest: Values
    filler: float | None
    blank: tuple[int, int] | None = None
    rounding: float = 0.0
    least_shown: int = 0

    def bounds(self, values: Values, secondary: Flags | None = None) -> tuple[Whole, Whole]:
        """Return the smallest and the largest count of values of the table, shape of ``values``.

        All counts are possible for a value that no count has. Those that are ``secondary`` would
        have been shown. 0 beside labels is not among them: other small counts are not possible, and
        bounds from 0 would make more seem possible.
        """
        blank = np.isnan(values)
        if self.filler is not None:
            values = np.where(blank, self.filler, values)
        low, high = self._ends(values)
        impossible = (low > high) | np.isnan(values)
        low[impossible], high[impossible] = 0, len(self.lowest) - 1
        if self.blank is not None:
            low[blank], high[blank] = self.blank
        if secondary is not None:
            low[secondary], high[secondary] = self.least_shown, len(self.lowest) - 1
        return low, high

    def never(self, values: Values) -> Flags:
        """Return which values of the table no count has, bool, shape of ``values``."""
        low, high = self._ends(values)
        return np.asarray((low > high) & ~np.isnan(values))

    def _ends(self, values: Values) -> tuple[Whole, Whole]:
        """Return the first count with so large a value and the last with so small a one."""
        # Ascending ends, as a larger count may have smaller values where these are drawn.
        most = np.maximum.accumulate(self.highest)
        least = np.minimum.accumulate(self.lowest[::-1])[::-1]
        low = np.searchsorted(most, values - self.rounding, side="left")
        return low, np.searchsorted(least, values + self.rounding, side="right") - 1


def count_intervals(table: PublishedTable, *, drawn: bool = False) -> CountIntervals | None:
    """Return which counts values may have; None with noise or if cells are not separate.

    With ``drawn``, also where a value is drawn of a few ones: by random rounding, by cell keys and
    by sampling. Its count is then between bounds that one value alone gives, whatever was drawn.
    """
    law = table.mechanism.law(table.group_size)
    if not drawn and not (isinstance(law, OutputDistribution) and law.noise == NO_NOISE):
        return None
    steps, last = steps_of(table.mechanism), last_suppression(table.mechanism)
    if (after := _ends_of_counts(steps, table.group_size)) is None:
        return None
    lowest, highest = after
    rounding = 0.0
    if (lowest % 1).any() or (highest % 1).any():
        totals = (table.roi_totals, table.epoch_totals, table.grand_total)
        numbers = np.concatenate(
            [table.values.ravel(), *(one for one in totals if one is not None)]
        )
        n = decimals(numbers[~np.isnan(numbers)])
        rounding = 0.500001 * 10.0 ** -(
            MOST_DECIMALS if n is None else n
        )  # floats lose some digits
    if last is None:
        return CountIntervals(lowest, highest, _filler(table), rounding=rounding)
    cut = _after(steps, last)
    before = _ends_of_counts(steps[: cut - 1], table.group_size)
    assert before is not None  # all steps have ends
    least = min(int(np.searchsorted(before[1], last.least_shown)), table.group_size)
    filler, blank = _filler(table), None
    if _leaves_blank(table, last):
        hidden = [last.hides(end) for end in before]
        # Later steps may publish a shown value like one that stands for hidden ones, so these are
        # told apart by what the suppression compares, not by what is published in the end.
        drawn_around = (before[0] <= 0) & (before[1] >= last.least_shown)
        among = np.flatnonzero(hidden[0] | hidden[1] | drawn_around)
        shown = [end.copy() for end in before]
        shown[0][hidden[0]] = last.least_shown
        shown[1][hidden[1]] = 0
        ends = _ends_of(steps[cut:], (shown[0][None], shown[1][None]), table.group_size)
        if ends is not None and len(among):
            lowest, highest = ends[0][0], ends[1][0]
            always = hidden[0] & hidden[1]
            none, apart = (np.inf, -np.inf), (filler, filler)
            is_taken = filler is None or ((lowest <= filler) & (filler <= highest))[~always].any()
            is_taken |= last.hidden == "label"  # its number is for tables without any
            # A 0 beside blank cells, though the steps say that it is hidden, is a small count too.
            lowest[always], highest[always] = none if is_taken else apart
            blank = int(among[0]), int(among[-1])
    return CountIntervals(lowest, highest, filler, blank, rounding, least)


def _leaves_blank(table: PublishedTable, last: Suppression) -> bool:
    """Return whether blank cells of a table are exactly those that its steps hide."""
    hiding = (step for step in steps_of(table.mechanism) if isinstance(step, Suppression))
    hides = last.hidden != "zero" and all(step.hidden == last.hidden for step in hiding)
    return hides and (table.blank_beside or not table.published.all())


def _ends_of_counts(steps: Sequence[Mechanism], group_size: int) -> tuple[Values, Values] | None:
    """Return the least and the largest value of each count, both (group size + 1,), or None."""
    counts = np.arange(group_size + 1.0)
    blocks = [
        _ends_of(steps, (block.copy(), block.copy()), group_size)
        for start in range(0, len(counts), _BLOCK)
        for block in [counts[None, start : start + _BLOCK]]
    ]
    known = [block for block in blocks if block is not None]
    if len(known) < len(blocks):
        return None
    lowest, highest = (np.concatenate(ends, axis=1)[0] for ends in zip(*known, strict=True))
    return lowest, highest


def count_bounds(table: PublishedTable, *, drawn: bool = False) -> tuple[Whole, Whole] | None:
    """Return the smallest and the largest possible count of each cell, int64, (roi, epoch), visits.

    None unless the mechanism adds no noise, processes each count separately and preserves their
    order: each value then corresponds to an interval of counts. With ``drawn``, it may also draw
    one of a few values of a count. All counts are possible where a cell is redacted or has a value
    that is never published; only 0 where none was collected. A band that is shown gives the bounds.
    """
    if (intervals := count_intervals(table, drawn=drawn)) is None:
        return None
    bounds = intervals.bounds(table.values, table.secondary)
    if table.band_ends is not None:
        least, end = table.band_ends
        bounds[0][least >= 0] = least[least >= 0]
        bounds[1][end >= 0] = end[end >= 0] - 1
        np.minimum(*bounds, out=bounds[0])  # a band below what is hidden may start at 0
    for bound in bounds if table.not_covered is not None else ():
        bound[table.not_covered] = 0
    return bounds
