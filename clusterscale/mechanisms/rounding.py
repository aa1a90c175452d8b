"""Round counts: to multiples of a base, or to ranges."""

from dataclasses import replace
from math import hypot
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from clusterscale.contracts import Count, Counts, NoiseScope, Support, UsualSettings, Values
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.base import BaseMechanism, Margin, PostProcessing
from clusterscale.mechanisms.law import FiniteDistribution, Law, OutputDistribution
from clusterscale.validation_messages import plural


class RoundToBase(BaseMechanism):
    """Round counts to multiples of a base, at random without bias or to the nearest; or to middles.

    With ``random``, a count with remainder r goes up with probability r/``base`` and else down, so
    its expectation is the count (Fellegi 1975); multiples stay. With ``nearest``, half goes up.
    With ``midpoint``, counts of 1 to ``base`` are published as the middle of these, as are those up
    to each further multiple, and 0 as 0: with base 6, values are 0, 3, 9, 15 (OpenSAFELY). Cells
    are rounded separately: totals of rounded cells are not rounded totals. Controlled rounding,
    which keeps totals, is not included.

    Attributes
    ----------
    base
        The published values are multiples of this, in visits, e.g. ``3``; 1 after ``expand``
        publishes whole numbers of people.
    rule
        At ``random``, to the ``nearest`` multiple, or to the ``midpoint`` between two.
    """

    name: Literal["round_to_base"] = "round_to_base"
    usual = (UsualSettings({}, {"base": (3, 5, 10), "rule": ("random", "nearest")}, rank=2),)
    base: Annotated[int, Strict(), Field(ge=1, lt=2**31)]
    rule: Literal["random", "nearest", "midpoint"] = "random"

    noise_scope: ClassVar[NoiseScope] = "cell"
    whole_output: ClassVar[bool] = True
    no_guarantee = "the two nearest multiples of the base bound each count"

    @property
    def noise_is_count_independent(self) -> bool:  # type: ignore[override]
        """Whether nothing is drawn."""
        return self.rule != "random"

    @property
    def phrase(self) -> str:
        """Short description for display."""
        how = {"random": "at random", "nearest": "to the nearest"}.get(self.rule, "to the middle")
        return f"counts rounded {how}, base {self.base:,}"

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`ConfigError` if the base exceeds every count."""
        if self.base > group_size:
            raise ConfigError(f"{self.name}: base {self.base} is above all counts of {group_size}")

    def law(self, group_size: int) -> Law:
        """Return the output distribution of a count."""
        if self.rule != "random":
            return OutputDistribution().then(self._round)
        return FiniteDistribution(self._outcomes)

    def support(self, before: Support, group_size: int) -> Support:
        """Return the multiples of the base around ``before``, or the whole numbers of middles."""
        if self.rule == "midpoint":
            ends = np.array([before.low, before.high], np.float64)
            self._round(ends)
            return Support(float(ends[0]), float(ends[1]), 1.0)
        low, high = np.floor(before.low / self.base), np.ceil(before.high / self.base)
        return Support(float(low * self.base), float(high * self.base), float(self.base))

    def widen(self, margin: Margin) -> Margin:
        """Return the margin with that of rounding."""
        drawn = self.base / 2 if self.rule == "random" else 0.0
        size = float(self.base - margin.whole) if drawn else self.base / 2
        return Margin(margin.size + size, margin.share, hypot(margin.scale, drawn))

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return rounded counts, float64, the same shape (…, roi, epoch).

        Raises ConfigError or InputError if the base exceeds every count, or these do not
        have the shape (…, roi, epoch).
        """
        self._check_shape(counts, group_size)
        values: Values = np.array(counts, np.float64, order="C")
        if self.rule != "random":
            self._round(values)
            return values
        remainder = np.mod(values, self.base)
        values -= remainder
        values += self.base * (rng.random(values.shape) * self.base < remainder)
        return values

    def _outcomes(self, counts: NDArray[Any]) -> tuple[Values, Values]:
        remainder = np.mod(counts, self.base)
        low = np.asarray(counts - remainder, np.float64)
        up = remainder / self.base
        return np.stack([low, low + self.base], axis=-1), np.stack([1 - up, up], axis=-1)

    def _round(self, values: Values) -> None:
        """Round values to the nearest multiple or to middles, in place."""
        if self.rule == "midpoint":
            below = self.base // 2 * (values != 0)
            values[...] = np.ceil(values / self.base) * self.base - below
            return
        values /= self.base
        values += 0.5
        np.floor(values, out=values)
        values *= self.base


class FixedRanges(PostProcessing):
    """Publish the middle of the range of a count: ⌊A/x⌋·x + x/2 (DGFR, POMACS20 §4.2.1).

    ``integers`` leaves middles unrounded (``none``) or rounds them down (``floor``), which
    reproduces the paper's table 10.

    Attributes
    ----------
    size
        Width of a range, in visits, e.g. ``5``.
    integers
        Publish middles unrounded (``none``) or rounded down (``floor``).
    """

    name: Literal["fixed_ranges"] = "fixed_ranges"
    usual = (UsualSettings({}, {"size": (5, 10)}, rank=4),)
    size: Count
    integers: Literal["floor", "none"] = "none"

    whole_output: ClassVar[bool] = True

    @property
    def phrase(self) -> str:
        """Short description for display."""
        rounded = " rounded down" if self.integers == "floor" else ""
        return f"ranges of {self.size:,}, shown by their middle{rounded}"

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`ConfigError` if a range is larger than the largest count."""
        if self.size > group_size:
            raise ConfigError(
                f"{self.name}: size {self.size} is larger than any count of {group_size} members"
            )

    def support(self, before: Support, group_size: int) -> Support:
        """Return the middles of the ranges."""
        step = 0.5 if self.size % 2 and self.integers == "none" else 1.0
        return Support(*self._ends(before), step)

    def revise(self, values: Values) -> None:
        """Replace each value by the middle of its range, in place."""
        values /= self.size
        np.floor(values, out=values)
        values += 0.5
        values *= self.size
        if self.integers == "floor":
            np.floor(values, out=values)


class AdaptiveRanges(PostProcessing):
    """Publish a few ranges of each ROI's series (DGAR, POMACS20 §4.2.1).

    The interval from the smallest to the largest value of a series is cut into ``ranges`` of equal
    width, the last one closed; each value becomes the ``median`` of the values in its range. With
    ``middle``, ranges are in whole numbers, as in the paper's table 12: half-open, ⌊(max - min)/x′⌋
    wide, at least 1, as many as that takes, and their middles are rounded down. The largest value
    may then have its own range.

    Attributes
    ----------
    ranges
        Number of ranges of each ROI, e.g. ``10``.
    publish
        What is published of a range: its ``median`` or its ``middle``.
    """

    name: Literal["adaptive_ranges"] = "adaptive_ranges"
    ranges: Count
    publish: Literal["median", "middle"] = "median"

    noise_scope: ClassVar[NoiseScope] = "series"

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return f"{plural(self.ranges, 'range')} per place, shown by their {self.publish}"

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`ConfigError` if there are more ranges than members."""
        if self.ranges > group_size:
            raise ConfigError(
                f"{self.name}: {self.ranges} ranges are more than the {group_size} members"
            )

    def support(self, before: Support, group_size: int) -> Support:
        """Return ``before`` and the midpoints between two values, a few for each ROI."""
        step = before.step / 2 if before.step >= 1 else 0.0
        return replace(before, step=step, per_series=self.ranges)

    def revise(self, values: Values) -> None:
        """Replace each value by the median or the middle of its range, in place."""
        if not values.size:
            return
        replace_values = _to_medians if self.publish == "median" else _to_middles
        replace_values(values, self.ranges)


def _to_middles(values: Values, n_ranges: int) -> None:
    low = values.min(axis=-1, keepdims=True)
    width = np.floor((values.max(axis=-1, keepdims=True) - low) / n_ranges)
    np.maximum(width, 1.0, out=width)
    values -= low
    np.floor_divide(values, width, out=values)
    values *= width
    values += low + np.floor(width / 2)


def _to_medians(values: Values, n_ranges: int) -> None:
    order = np.argsort(values, axis=-1)
    ordered = np.take_along_axis(values, order, axis=-1)
    above = ordered - ordered[..., :1]
    width = np.where(above[..., -1:] > 0, above[..., -1:], 1.0)
    index = np.minimum(np.floor(above * n_ranges / width), n_ranges - 1)  # whole numbers: exact
    start = np.flatnonzero(np.diff(index, axis=-1, prepend=-1))  # sorted, so a range is a run
    size, flat = np.diff(start, append=values.size), ordered.ravel()
    medians = (flat[start + (size - 1) // 2] + flat[start + size // 2]) / 2
    np.put_along_axis(values, order, np.repeat(medians, size).reshape(values.shape), axis=-1)
