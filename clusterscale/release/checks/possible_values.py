"""Checks for values that the declared mechanism, or a group of the known users, can never have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import NO_NOISE, Mechanism, Support, Values
from clusterscale.mechanisms.chain import Chain, last_suppression, steps_of
from clusterscale.mechanisms.law import FiniteDistribution, Law, OutputDistribution
from clusterscale.mechanisms.rounding import RoundToBase
from clusterscale.mechanisms.scaling import Expand
from clusterscale.mechanisms.suppression import Suppression
from clusterscale.release.checks.count_intervals import count_bounds
from clusterscale.release.checks.table import (
    MOST_DECIMALS,
    Check,
    CheckResult,
    Flags,
    PublishedTable,
    decimals,
)
from clusterscale.validation_messages import exact_number, plural

_BLOCK = 1 << 14  # distinct values checked at a time
_GRID = 257  # counts tried for a value that no nearby count explains
_NEAR = np.arange(-1, 3)
_BESIDE = 1e-6  # offset to detect whether post-processing maps nearby values to one
_LARGEST = float(1 << 20)  # above, floats are so coarse that whole values are unremarkable
_CHANCE = 1e-6  # least accepted probability of the number of whole values, given the decimals


class PossibleValues(Check):
    """Check whether the declared mechanism can publish every value for some count.

    Where the output distribution of a cell is known, a value is impossible if its likelihood is 0
    for every count from 0 to the group size. Examples are fractions where whole numbers are
    published, values outside the clipping range, values between 0 and a suppression threshold, and
    values other than midpoints of ranges. Continuous noise produces whole numbers with probability
    0 as well; they are accepted as often as rounding to the table's number of decimals produces
    them. For other mechanisms the check compares the smallest value, the largest value, the spacing
    of values and the number of ranges per series.

    True counts are not needed. Noise of the wrong scale is not detected, as any number is possible.
    """

    name: Literal["possible_values"] = "possible_values"
    compares: ClassVar[bool] = False

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return how many values are impossible; ``others`` and ``rng`` are not used."""
        published = table.published
        values = table.values.ravel() if published.all() else table.values[published]
        if not values.size:
            text = f"{table.name} has no published value"
            return CheckResult.unknown(self.name, 0, text)
        law = _law(table.mechanism, table.group_size)
        if law is not None:
            wrong = np.isin(values, _impossible(law, values, table.group_size))
            reason = "can never be published"
        else:
            before = Support(0.0, float(table.group_size), 1.0)
            allowed = table.mechanism.support(before, table.group_size)
            if not allowed.limited and allowed.per_series is None:
                text = f"{table.mechanism.label} can publish any number, so no value is impossible"
                return CheckResult.unknown(self.name, values.size, text)
            wrong = ~_within(values, allowed.low, allowed.high, allowed.step)
            *earlier, last = steps_of(table.mechanism)
            if isinstance(last, Suppression):  # what it publishes, it would publish again
                again = values.copy()
                last.revise(again)
                wrong |= again != values
            if table.mechanism.uses_weights and not wrong.any():
                hides = [step.label for step in earlier if isinstance(step, Suppression)]
                if hides:
                    text = f"without the weights of users, no value shows whether {hides[0]} hid it"
                    return CheckResult.unknown(self.name, values.size, text)
            reason = f"are not {allowed}, the only values possible"
            if allowed.per_series is not None:
                many = _many_values(table.values, allowed.per_series)[published]
                more = f"are in a series of more than {plural(allowed.per_series, 'value')}"
                if not wrong.any():
                    reason = more
                elif (many & ~wrong).any():
                    reason += f", or {more}"
                wrong |= many
        stands_for = None if wrong.any() else _stands_for_blank(table)
        if stands_for is not None:
            wrong, reason = values == stands_for, "would be hidden, as other values are,"
        n = int(wrong.sum())
        text = f"all {values.size:,} published values are possible under {table.mechanism.label}"
        if n:
            example = values[np.argmax(wrong)]
            text = (
                f"{n:,} of {values.size:,} published values, such as "
                f"{exact_number(float(example))}, {reason} under {table.mechanism.label}"
            )
            if example > table.group_size:
                text += f" for {table.group_size:,} people"
            if stands_for == 0:
                text += "; if 0 is published, `shown` is another, such as label"
            steps = {type(step) for step in steps_of(table.mechanism)}
            if Expand in steps and RoundToBase not in steps and decimals(values) == 0:
                text += "; if they were rounded, add round_to_base(base=1, rule='nearest') after it"
            elif fits := _other_rule(table, values):
                text += f"; all are possible under {fits}"
        return CheckResult.of_faults(self.name, n, values.size, text)


def _other_rule(table: PublishedTable, values: Values) -> str:
    """Return the rounding by another rule that can publish all values, empty if there is none."""
    if isinstance(table.mechanism, RoundToBase):
        for rule in ("nearest", "midpoint"):
            other = table.mechanism.model_copy(update={"rule": rule})
            if not len(_impossible(other.law(table.group_size), values, table.group_size)):
                return str(other.label)
    return ""


def _stands_for_blank(table: PublishedTable) -> float | None:
    """Return the number that stands for hidden values, if they are blank: then no value has it."""
    last = steps_of(table.mechanism)[-1]
    blank = ~table.published
    for others in (table.not_covered, table.secondary):
        blank &= True if others is None else ~others
    if not isinstance(last, Suppression) or last.hidden == "zero" or last.uses_weights:
        return None
    return last.hidden_as if table.blank_beside or blank.any() else None


def _law(mechanism: Mechanism, group_size: int) -> Law | None:
    """Return the output distribution of a cell, without steps that sample events."""
    law = mechanism.law(group_size)
    if law is None:
        rest = tuple(step for step in steps_of(mechanism) if step.name != "sample_events")
        if len(rest) == len(steps_of(mechanism)):
            return None
        law = Chain.model_construct(steps=rest).law(group_size)  # type: ignore[arg-type]
    return law if isinstance(law, Law) else None


def _impossible(law: Law, values: Values, group_size: int) -> Values:
    """Return the values that have a likelihood of 0 for every count, ascending."""
    distinct, n_cells = np.unique(values, return_counts=True)
    if isinstance(law, FiniteDistribution) or law.noise == NO_NOISE:
        return distinct[~_among(distinct, _possible(law, group_size))]
    starts = range(0, len(distinct), _BLOCK)
    blocks = [_unlikely(law, distinct[start : start + _BLOCK], group_size) for start in starts]
    wrong = np.concatenate(blocks)
    if n_decimals := decimals(distinct):  # rounding may move a value across a bound
        half = 0.5 * 10.0**-n_decimals
        for shift in (-half, half):
            if wrong.any():
                wrong[wrong] = _unlikely(law, distinct[wrong] + shift, group_size)
    return distinct[wrong | _too_whole(law, distinct, n_cells)]


def _possible(law: Law, group_size: int) -> Values:
    """Return the values that are published for some count, if these are finitely many."""
    counts = np.arange(group_size + 1.0)
    if isinstance(law, FiniteDistribution):
        values, probabilities = law.published(counts)
        return np.asarray(values[probabilities > 0])
    law.revise(counts[None])  # a view
    return counts


def _among(values: Values, possible: Values) -> Flags:
    """Return which values are possible, or the possible ones rounded to the table's decimals."""
    found = np.isin(values, possible)
    n_decimals = decimals(values)
    if n_decimals and not found.all():
        found |= np.isin(values, np.round(possible, n_decimals))
    return np.asarray(found)


def _unlikely(law: OutputDistribution, values: Values, group_size: int) -> Flags:
    """Return which values have a likelihood of 0 for every count, shape (value,).

    The likelihood decreases with the distance between value and count, so nearby counts are tried
    first, and a grid of counts only for the values that are left.
    """
    nearest = np.floor(np.clip(values, 0, group_size))[:, None]
    wrong = np.ones(len(values), np.bool_)
    grid = np.unique(np.rint(np.linspace(0, group_size, _GRID)))[None]
    ends = np.array([[0.0, group_size]])
    for counts in (nearest, np.clip(nearest + _NEAR, 0, group_size), ends, grid):
        if wrong.any():
            tried = counts[wrong] if len(counts) == len(wrong) else counts
            tried = np.broadcast_to(tried, (int(wrong.sum()), tried.shape[1]))
            wrong[wrong] = law.likelihood(values[wrong][None], tried)[0].max(axis=1) == 0
    return wrong


def _too_whole(law: OutputDistribution, values: Values, n_cells: NDArray[Any]) -> Flags:
    """Return which values are whole although their distribution is continuous, shape (value,)."""
    none = np.zeros(len(values), np.bool_)
    if law.noise.whole or law.noise.scale >= _LARGEST:
        return none
    neighbours = values + np.array([[-_BESIDE], [0.0], [_BESIDE]])
    law.revise(neighbours)
    smooth = (
        (neighbours[0] < neighbours[1])
        & (neighbours[1] < neighbours[2])
        & (np.abs(values) < _LARGEST)
    )
    whole = smooth & (values == np.rint(values))
    n_decimals = decimals(values[smooth])
    share = 10.0 ** -(MOST_DECIMALS if n_decimals is None else n_decimals)
    by_chance = scipy.stats.binom.sf(n_cells[whole].sum() - 1, n_cells[smooth].sum(), share)
    return whole if n_decimals == 0 or by_chance < _CHANCE else none


def _within(values: Values, low: float, high: float, step: float) -> Flags:
    inside = (values >= low - _BESIDE) & (values <= high + _BESIDE)
    if step > 0:
        inside &= values / step == np.rint(values / step)
    return np.asarray(inside)


def _many_values(values: Values, most: int) -> Flags:
    """Return the cells of series with more than ``most`` distinct values."""
    ordered = np.sort(values, axis=1)  # redacted cells are last
    n_values = np.count_nonzero(np.diff(ordered, axis=1) > 0, axis=1) + 1
    return np.broadcast_to((n_values > most)[:, None], values.shape)


class PossibleCounts(Check):
    """Check whether some group of the known users has counts that give the published values.

    A group of ``n`` of ``N`` users whose traces are known has in each cell at most as many visits
    as all users have, and at most ``n``; at least as many as its known members have; and at least
    ``n − N`` plus the visits of all users. A value is wrong if no count between gives it; where the
    count is known, each value that is not one of those of this count is. This needs a mechanism
    that processes each count separately and has bounds: exact, ranges, thresholds, rounding at
    random or not, top and bottom codes, cell keys, sampled events. A label such as "<5" says that
    a count is small, and not 0; other hidden values may be hidden for other reasons.

    The table must be of some of these users: a table of others is called inconsistent.
    """

    name: Literal["possible_counts"] = "possible_counts"
    compares: ClassVar[bool] = False

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return how many values no group has; ``others`` and ``rng`` are not used."""
        stated = count_bounds(table, drawn=True)
        if stated is None:
            text = f"{table.mechanism.label} adds noise, combines counts or uses weights"
            return CheckResult.unknown(self.name, 0, text)
        if table.limits is None and (table.counts < 0).all():
            return CheckResult.unknown(self.name, 0, "neither traces nor counts are known")
        known = table.counts >= 0
        least, most = table.limits or (0, table.group_size)
        least = np.maximum(least, np.where(known, table.counts, 0))
        most = np.minimum(most, np.where(known, table.counts, table.group_size))
        shown = table.published | _labels(table)
        wrong = shown & (np.maximum(stated[0], least) > np.minimum(stated[1], most))
        wrong |= _never_drawn(table, known & table.published)
        n, n_cells = int(wrong.sum()), int(shown.sum())
        whose = f"a group of {plural(table.group_size, 'user')}, as far as these are known"
        text = f"all {n_cells:,} published values are possible for {whose}"
        if n:
            cell = np.unravel_index(np.argmax(wrong), wrong.shape)
            value = exact_number(float(table.values[cell])) if table.published[cell] else "a label"
            of = f"a count of {least[cell]:,}"
            if least[cell] != most[cell]:
                of = f"{least[cell]:,} to {most[cell]:,} visits of such a group"
            first, last = stated[0][cell], stated[1][cell]
            its = f"that of {first:,} to {last:,}" if first < last else f"that of {first:,}"
            text = (
                f"{n:,} of {n_cells:,} published values are impossible for {whose}: {value} is "
                f"published at ROI {cell[0]} and epoch {table.first_epoch + cell[1]} for {of}, "
                f"but under {table.mechanism.label} it is {its}"
            )
        return CheckResult.of_faults(self.name, n, n_cells, text)


def _labels(table: PublishedTable) -> Flags:
    """Return which cells have a label that says that their count is small, and not 0."""
    last = last_suppression(table.mechanism)
    labels = ~table.published & (last is not None and last.hidden == "label")
    for others in (table.not_covered, table.secondary):
        labels &= True if others is None else ~others
    return np.asarray(labels)


def _never_drawn(table: PublishedTable, known: Flags) -> Flags:
    """Return in which cells a known count is never published as their value, though others are."""
    law, wrong = table.mechanism.law(table.group_size), np.zeros(known.shape, np.bool_)
    if isinstance(law, FiniteDistribution) and known.any():
        pairs = np.array([table.counts[known], table.values[known]])
        (counts, values), which = np.unique(pairs, axis=1, return_inverse=True)
        likely = law.likelihood(values[None], counts[:, None])[0, :, 0]
        wrong[known] = (likely == 0)[which.ravel()] & np.isin(
            table.values[known], _possible(law, table.group_size)
        )
    return wrong
