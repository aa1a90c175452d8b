"""Values that the declared mechanism could never have published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.consistency.decimals import MOST_DECIMALS, decimals
from clusterscale.consistency.finding import CheckResult
from clusterscale.consistency.support import support
from clusterscale.consistency.table import PublishedTable, steps_of
from clusterscale.contracts import ConfigModel, Mechanism, Values
from clusterscale.mechanisms.chain import Chain
from clusterscale.mechanisms.law import OutputDistribution

__all__ = ["PossibleValues"]

Flags = NDArray[np.bool_]

_BLOCK = 1 << 14  # distinct values that are looked at together
_GRID = 257  # counts that a value is tried on where none near it will do
_NEAR = np.arange(-1, 3)
_BESIDE = 1e-6  # values that close to each other are told apart, unless one stands for many
_LARGEST = float(1 << 20)  # floats beyond are so coarse that whole ones need no explanation
_CHANCE = 1e-6  # of as many whole values as rounding to that many decimals would leave


class PossibleValues(ConfigModel):
    """Whether every published value could be what the declared mechanism made of some count.

    Where the law of a cell is known, a value is impossible if its likelihood is 0 of every count
    from 0 to the group size: fractions where whole numbers are published, values outside the range
    that is clipped to or between 0 and a suppression's threshold, other than the middles of ranges.
    A whole number that continuous noise should have made has probability 0 too; as many are let
    pass as rounding to the table's number of decimals leaves. Elsewhere the least and the largest
    value and the spacing of values are checked, and how many ranges a series has.

    Nothing about counts is needed. Noise of a wrong size is not seen: any number is possible.
    """

    name: Literal["possible_values"] = "possible_values"
    compares: ClassVar[bool] = False

    def check(
        self, table: PublishedTable, others: Sequence[PublishedTable], *, rng: np.random.Generator
    ) -> CheckResult:
        """Return how many values are impossible; ``others`` and ``rng`` are not used."""
        published = table.published
        values = table.values[published]
        if not values.size:
            return self._found("unknown", np.nan, 0, f"{table.name} has no value to look at")
        law = _law(table.mechanism, table.group_size)
        if law is not None:
            wrong, reason = _impossible(law, values, table.group_size), "can never be published"
        else:
            found = support(table.mechanism, table.group_size)
            ranges = _ranges(table.mechanism)
            if not found.limited and ranges is None:
                text = f"{table.mechanism.label} can publish any number, so no value is impossible"
                return self._found("unknown", np.nan, values.size, text)
            wrong = ~_within(values, found.low, found.high, found.step)
            if ranges is not None:
                wrong |= _many_ranges(table.values, ranges)[published]
            reason = f"are none of its {found.said()}"
        return self._judge(table, values, wrong, reason)

    def _judge(
        self, table: PublishedTable, values: Values, wrong: Flags, reason: str
    ) -> CheckResult:
        n = int(wrong.sum())
        if not n:
            text = (
                f"all {values.size:,} published values are such as {table.mechanism.label} "
                "publishes"
            )
            return self._found("consistent", 0.0, values.size, text)
        example = float(values[np.argmax(wrong)])
        text = (
            f"{n:,} of {values.size:,} published values, such as {example:g}, {reason} under "
            f"{table.mechanism.label} for {table.group_size:,} members"
        )
        return self._found("inconsistent", float(n), values.size, text)

    def _found(
        self,
        level: Literal["consistent", "inconsistent", "unknown"],
        measured: float,
        n_cells: int,
        text: str,
    ) -> CheckResult:
        expected = np.nan if level == "unknown" else 0.0
        return CheckResult(self.name, level, measured, expected, n_cells, text)


def _law(mechanism: Mechanism, group_size: int) -> OutputDistribution | None:
    """Return the law of a cell, of counts as they are where some events were dropped."""
    law = mechanism.law(group_size)
    if law is None:
        rest = tuple(step for step in steps_of(mechanism) if step.name != "sample_events")
        if len(rest) == len(steps_of(mechanism)):
            return None
        law = Chain.model_construct(steps=rest).law(group_size)  # type: ignore[arg-type]
    return law if isinstance(law, OutputDistribution) else None


def _impossible(law: OutputDistribution, values: Values, group_size: int) -> Flags:
    """Return which values have a likelihood of 0 of every count, shape of ``values``."""
    distinct, which, n_cells = np.unique(values, return_inverse=True, return_counts=True)
    if law.noise.law == "none":
        of_count = np.arange(group_size + 1.0)[None]
        law.revise(of_count)
        wrong = ~np.isin(distinct, of_count)
    else:
        wrong = np.concatenate(
            [
                _unlikely(law, distinct[start : start + _BLOCK], group_size)
                for start in range(0, len(distinct), _BLOCK)
            ]
        )
        if places := decimals(distinct):  # what lay just within a bound may be written as beyond
            half = 0.5 * 10.0**-places
            for beside in (-half, half):
                if wrong.any():
                    wrong[wrong] = _unlikely(law, distinct[wrong] + beside, group_size)
        wrong |= _too_whole(law, distinct, n_cells)
    return np.asarray(wrong[which.reshape(values.shape)])


def _unlikely(law: OutputDistribution, values: Values, group_size: int) -> Flags:
    """Return which values have a likelihood of 0, shape (value,).

    It falls off to both sides of what a value was before revisions, so counts near it are tried
    first, and others only for the few values that are left.
    """
    near = np.floor(np.clip(values, 0, group_size))[:, None] + _NEAR
    ends = np.broadcast_to([0.0, group_size], (len(values), 2))
    tried = np.concatenate([np.clip(near, 0, group_size), ends], axis=1)
    wrong = np.asarray(law.likelihood(values[None], tried)[0].max(axis=1) == 0)
    if wrong.any():
        grid = np.unique(np.rint(np.linspace(0, group_size, _GRID)))
        again = np.broadcast_to(grid, (int(wrong.sum()), len(grid)))
        wrong[wrong] = law.likelihood(values[wrong][None], again)[0].max(axis=1) == 0
    return wrong


def _too_whole(law: OutputDistribution, values: Values, n_cells: NDArray[Any]) -> Flags:
    """Return which values are whole although a density made them, shape (value,)."""
    none = np.zeros(len(values), np.bool_)
    if law.noise.law == "geometric" or law.noise.scale >= _LARGEST:
        return none
    beside = values + np.array([[-_BESIDE], [0.0], [_BESIDE]])
    law.revise(beside)
    smooth = (beside[0] < beside[1]) & (beside[1] < beside[2]) & (np.abs(values) < _LARGEST)
    whole = smooth & (values == np.rint(values))
    places = decimals(values[smooth])
    share = 10.0 ** -(MOST_DECIMALS if places is None else places)
    by_chance = scipy.stats.binom.sf(n_cells[whole].sum() - 1, n_cells[smooth].sum(), share)
    return whole if places == 0 or by_chance < _CHANCE else none


def _within(values: Values, low: float, high: float, step: float) -> Flags:
    inside = (values >= low - _BESIDE) & (values <= high + _BESIDE)
    if step > 0:
        inside &= values / step == np.rint(values / step)
    return np.asarray(inside)


def _ranges(mechanism: Mechanism) -> int | None:
    """Return how many values a series has at most, None where there is no such number."""
    last: Any = steps_of(mechanism)[-1]
    return int(last.ranges) if last.name == "adaptive_ranges" else None


def _many_ranges(values: Values, most: int) -> Flags:
    """Return the cells of series that have more distinct values than there are ranges."""
    ordered = np.sort(values, axis=1)  # what is redacted comes last
    n_values = np.count_nonzero(np.diff(ordered, axis=1) > 0, axis=1) + 1
    return np.broadcast_to((n_values > most)[:, None], values.shape)
