"""Weights of users in a chain: which steps may be around those that use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from clusterscale.contracts import Counts, Values
from clusterscale.mechanisms.base import BaseMechanism
from clusterscale.mechanisms.suppression import Dominance


def weigh(values: Values, counts: Counts, sums: Values) -> Values:
    """Return values times the mean weight of those counted; the sums where they are the counts."""
    means = np.divide(sums, counts, out=np.zeros(counts.shape), where=counts > 0)
    return np.where(values == counts, sums, values * means)


def find_misuse(steps: Sequence[BaseMechanism]) -> str:
    """Return what is wrong with the steps around one that uses weights; empty if nothing is."""
    first = next((i for i, step in enumerate(steps) if step.uses_weights), len(steps))
    name = name_of(steps[first]) if first < len(steps) else ""
    for i, step in enumerate(steps if name else ()):
        if step.stage == "sample":
            return (
                f"{name_of(step)} does not say whose events it drops, so {name} cannot add up the "
                "weights of the others: use sample_traces, or expand by a number"
            )
        if i > first and step.uses_weights:
            return f"weights are used twice ({name}, {name_of(step)}): keep one"
        if i > first and isinstance(step, Dominance):
            return (
                f"{name_of(step)} counts every contribution as one, so it must come before {name}, "
                "which publishes sums of weights"
            )
    return ""


def name_of(step: Any) -> str:
    """Return the name of a mechanism in a config."""
    return str(step.name)
