"""Publish a range instead of a count."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import Count, NoiseScope, Support, UsualSettings, Values
from clusterscale.errors import ConfigError
from clusterscale.jit import kernel
from clusterscale.mechanisms.base import PostProcessing
from clusterscale.validation_messages import plural


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
        if self.publish == "median":
            _to_medians(values.reshape(-1, values.shape[-1]), self.ranges)
        else:
            _to_middles(values, self.ranges)


def _to_middles(values: Values, n_ranges: int) -> None:
    low = values.min(axis=-1, keepdims=True)
    width = np.floor((values.max(axis=-1, keepdims=True) - low) / n_ranges)
    np.maximum(width, 1.0, out=width)
    values -= low
    np.floor_divide(values, width, out=values)
    values *= width
    values += low + np.floor(width / 2)


@kernel
def _range_of(above: float, width: float, n_ranges: int) -> int:
    return min(int(above * n_ranges / width), n_ranges - 1)  # whole numbers divide exactly


@kernel
def _to_medians(series: Values, n_ranges: int) -> None:
    n_epochs = series.shape[1]
    for row in range(series.shape[0]):
        order = np.argsort(series[row])
        ordered = series[row][order]
        low, width = ordered[0], ordered[-1] - ordered[0]
        if width == 0.0:
            continue
        start = 0
        while start < n_epochs:  # sorted, so a range is a run
            index = _range_of(ordered[start] - low, width, n_ranges)
            stop = start + 1
            while stop < n_epochs and _range_of(ordered[stop] - low, width, n_ranges) == index:
                stop += 1
            middle = (start + stop) // 2
            median = ordered[middle]
            if (stop - start) % 2 == 0:
                median = (ordered[middle - 1] + ordered[middle]) / 2
            for i in range(start, stop):
                series[row, order[i]] = median
            start = stop
