"""Possible values of mechanisms for which no output distribution of single counts is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from clusterscale.consistency.table import steps_of
from clusterscale.contracts import Mechanism
from clusterscale.mechanisms.base import PostProcessing

__all__ = ["Support", "support"]


@dataclass(frozen=True, slots=True)
class Support:
    """Multiples of ``step`` from ``low`` to ``high``; all real numbers between if it is 0."""

    low: float
    high: float
    step: float

    @property
    def limited(self) -> bool:
        """Whether some numbers cannot be published."""
        return self.step > 0 or np.isfinite(self.low) or np.isfinite(self.high)

    def said(self) -> str:
        """Return a description, such as ``whole numbers from 0 up to 20``."""
        kind = {1.0: "whole numbers", 0.5: "multiples of ½"}.get(self.step, "numbers")
        low = f" from {self.low:g}" if np.isfinite(self.low) else ""
        high = f" up to {self.high:g}" if np.isfinite(self.high) else ""
        return kind + low + high


def support(mechanism: Mechanism, group_size: int) -> Support:
    """Return the values that a mechanism can publish for counts from 0 to the group size.

    The result never excludes a possible value; unknown mechanisms may publish any number.
    """
    values = Support(0.0, float(group_size), 1.0)
    for step in steps_of(mechanism):
        values = _after(step, values, group_size)
    return values


def _after(step: Mechanism, before: Support, group_size: int) -> Support:
    if step.name in _RULES:
        after = _RULES[step.name](step, before, group_size)
    elif isinstance(step, PostProcessing) and step.reach == "cell":
        after = _revised(step, before)
    elif step.trace_steps or step.name in ("exact", "sample_events"):
        after = before
    else:  # noise, or an unknown mechanism
        whole = step.noise is not None and step.noise.law == "geometric"
        after = Support(-np.inf, np.inf, before.step if whole else 0.0)
    return _finished(step, after, group_size)


def _finished(step: Mechanism, before: Support, group_size: int) -> Support:
    """Return the support after the clipping and rounding settings of a step."""
    if getattr(step, "clip", False):
        low, high = (float(np.clip(end, 0, group_size)) for end in (before.low, before.high))
        before = replace(before, low=low, high=high)
    if getattr(step, "integers", "none") != "none":  # rounding may move values beyond the ends
        before = Support(np.floor(before.low), np.ceil(before.high), 1.0)
    return before


def _revised(step: PostProcessing, before: Support) -> Support:
    """Return the support after post-processing that preserves the order of values."""
    ends = np.array([[before.low, before.high]])
    step.revise(ends)
    size = getattr(step, "size", None)
    if size is not None:  # midpoints of ranges
        return Support(float(ends[0, 0]), float(ends[0, 1]), 0.5 if size % 2 else 1.0)
    low, high = min(ends[0, 0], 0.0), max(ends[0, 1], 0.0)
    return Support(low, high, before.step)


def _medians(step: Any, before: Support, group_size: int) -> Support:
    """Return the support of medians, which may be midpoints between two values."""
    return replace(before, step=before.step / 2 if before.step >= 1 else 0.0)


def _zeros(step: Any, before: Support, group_size: int) -> Support:
    return replace(before, low=min(before.low, 0.0), high=max(before.high, 0.0))


def _small_perturbed(step: Any, before: Support, group_size: int) -> Support:
    return Support(0.0, np.inf, 1.0)


def _any_whole(step: Any, before: Support, group_size: int) -> Support:
    return Support(-np.inf, np.inf, before.step)


def _estimates(step: Any, before: Support, group_size: int) -> Support:
    """Return the support of (yes − m·p)/(1 − p), where 0 to m members answer yes."""
    return Support(-group_size * step.p / (1 - step.p), float(group_size), 0.0)


_RULES: dict[str, Callable[[Any, Support, int], Support]] = {
    "adaptive_ranges": _medians,
    "perturb_small": _small_perturbed,
    "randomized_response": _estimates,
    "suppress_unpopular": _zeros,
    "truncated_laplace": _any_whole,
}
