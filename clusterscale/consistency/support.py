"""Which values a mechanism can publish at all, where no law of single counts is known."""

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
    """Values from ``low`` to ``high``, multiples of ``step``; any real number if that is 0."""

    low: float
    high: float
    step: float

    @property
    def limited(self) -> bool:
        """Whether there is any number that cannot be published."""
        return self.step > 0 or np.isfinite(self.low) or np.isfinite(self.high)

    def said(self) -> str:
        """Return it in words."""
        kind = {1.0: "whole numbers", 0.5: "multiples of ½"}.get(self.step, "numbers")
        low = f" from {self.low:g}" if np.isfinite(self.low) else ""
        high = f" up to {self.high:g}" if np.isfinite(self.high) else ""
        return kind + low + high


def support(mechanism: Mechanism, group_size: int) -> Support:
    """Return what can be published of counts from 0 to the group size, step by step.

    It is never too small; a mechanism that is not known here is taken to publish anything.
    """
    found = Support(0.0, float(group_size), 1.0)
    for step in steps_of(mechanism):
        found = _after(step, found, group_size)
    return found


def _after(step: Mechanism, before: Support, group_size: int) -> Support:
    if step.name in _RULES:
        after = _RULES[step.name](step, before, group_size)
    elif isinstance(step, PostProcessing) and step.reach == "cell":
        after = _revised(step, before)
    elif step.trace_steps or step.name in ("exact", "sample_events"):
        after = before
    else:  # noise, or something that nothing is known of
        whole = step.noise is not None and step.noise.law == "geometric"
        after = Support(-np.inf, np.inf, before.step if whole else 0.0)
    return _finished(step, after, group_size)


def _finished(step: Mechanism, before: Support, group_size: int) -> Support:
    """Return the support after the clipping and rounding of a noisy step."""
    if getattr(step, "clip", False):
        low, high = (float(np.clip(end, 0, group_size)) for end in (before.low, before.high))
        before = replace(before, low=low, high=high)
    if getattr(step, "integers", "none") != "none":  # the ends may be rounded away from
        before = Support(np.floor(before.low), np.ceil(before.high), 1.0)
    return before


def _revised(step: PostProcessing, before: Support) -> Support:
    """Return the support after a revision that keeps the order of values."""
    ends = np.array([[before.low, before.high]])
    step.revise(ends)
    size = getattr(step, "size", None)
    if size is not None:  # middles of ranges
        return Support(float(ends[0, 0]), float(ends[0, 1]), 0.5 if size % 2 else 1.0)
    low, high = min(ends[0, 0], 0.0), max(ends[0, 1], 0.0)
    return Support(low, high, before.step)


def _medians(step: Any, before: Support, group_size: int) -> Support:
    """Medians of values lie between them, and are halfway between two at most."""
    return replace(before, step=before.step / 2 if before.step >= 1 else 0.0)


def _zeros(step: Any, before: Support, group_size: int) -> Support:
    return replace(before, low=min(before.low, 0.0), high=max(before.high, 0.0))


def _small_perturbed(step: Any, before: Support, group_size: int) -> Support:
    return Support(0.0, np.inf, 1.0)


def _any_whole(step: Any, before: Support, group_size: int) -> Support:
    return Support(-np.inf, np.inf, before.step)


def _estimates(step: Any, before: Support, group_size: int) -> Support:
    """(yes − m·p)/(1 − p) for 0 to m members who say yes."""
    return Support(-group_size * step.p / (1 - step.p), float(group_size), 0.0)


_RULES: dict[str, Callable[[Any, Support, int], Support]] = {
    "adaptive_ranges": _medians,
    "perturb_small": _small_perturbed,
    "randomized_response": _estimates,
    "suppress_unpopular": _zeros,
    "truncated_laplace": _any_whole,
}
