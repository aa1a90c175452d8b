"""Which mechanisms may publish real counts, and the limits of data that hold for anybody's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from clusterscale.contracts import Bounds, CellCoordinates, Mechanism, stability_of
from clusterscale.mechanisms.base import Exact, PostProcessing
from clusterscale.mechanisms.chain import Chain, steps_of
from clusterscale.mechanisms.coarsening import CoarsenSpace, CoarsenTime
from clusterscale.mechanisms.noise import AdditiveNoise
from clusterscale.mechanisms.noisy_counts import Gaussian, Laplace
from clusterscale.mechanisms.rounding import RoundToBase
from clusterscale.mechanisms.sampling import CapContributions, SampleTraces

_WITHOUT_NOISE = (Exact, CoarsenSpace, CoarsenTime, CapContributions, SampleTraces, RoundToBase)


def as_chain(mechanism: Mechanism) -> Chain | None:
    """Return a mechanism as a chain; None for unchanged counts."""
    if isinstance(mechanism, Chain):
        return mechanism
    return None if isinstance(mechanism, Exact) else Chain(steps=(cast(Any, mechanism),))


def find_faults(mechanism: Mechanism, *, null_roi: bool) -> Iterator[str]:
    """Yield why a mechanism cannot publish real counts, each with the key and a remedy.

    Its numbers must come from the operating system's source, its noise must be whole numbers, and
    its sensitivity must not depend on the data.
    """
    steps, refused = steps_of(mechanism), False
    for i, step in enumerate(steps):
        where = f"mechanism.steps.{i}" if isinstance(mechanism, Chain) else "mechanism"
        if reason := _refusal(step):
            refused = True
            yield f"{where}: {step.label} is not published: {reason}"
    weighed = any(step.uses_weights for step in steps)
    if weighed and any(isinstance(step, AdditiveNoise) for step in steps):
        yield "mechanism: weights after noise depend on who is counted: expand by a number"
    if null_roi and any(isinstance(step, SampleTraces) for step in steps):
        yield "null_roi: users who lose their last event would be counted nowhere: set it to false"
    if not refused and bind_without_data(mechanism, null_roi=null_roi) is None:
        yield (
            "mechanism: its sensitivity would be the largest contribution of any user, which is "
            "private: state it, put cap_contributions before it and set unit: user_day, or set "
            "unit: event"
        )


def _refusal(step: Mechanism) -> str:
    """Return why a step cannot publish real counts; empty if it can."""
    if type(step) is Laplace or type(step) is Gaussian:
        return "" if step.discrete else "its noise is continuous: set discrete: true"
    if step.publish_refusal:
        return step.publish_refusal
    if isinstance(step, PostProcessing) or type(step) in _WITHOUT_NOISE:
        return ""
    return (
        "it is not known to draw its numbers from the operating system's source; mechanisms of "
        "other packages can only be post-processing"
    )


def bind_without_data(
    mechanism: Mechanism, frames: Sequence[CellCoordinates] | None = None, *, null_roi: bool
) -> Mechanism | None:
    """Return the mechanism with its sensitivity; None if that would depend on the data.

    ``frames`` are the coordinates of the cells before each trace step; None: as if no epoch were on
    two days.
    """
    stability = stability_of(mechanism.trace_steps, frames)
    if stability is None:
        return None
    every = (Bounds(1 + null_roi, n, n, n, n, null_roi) for n in (1, 2))
    few, many = (mechanism.bind(stability.limit(bounds)) for bounds in every)
    return few if few == many else None


def exceeds_sensitivity(mechanism: Mechanism, bounds: Bounds) -> bool:
    """Return whether one unit of the data changes the counts by more than a bound mechanism says.

    Parameters
    ----------
    mechanism
        Bound without data.
    bounds
        Largest changes that were found in the data.
    """
    stated: Any = mechanism.guarantee.sensitivity
    needed = mechanism.required_sensitivity(bounds)
    return bool(np.isfinite(stated) and needed > stated)
