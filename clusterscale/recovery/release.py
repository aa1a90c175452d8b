"""Releases of all users in the epochs to be inferred."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from clusterscale.contracts import Bounds, CellCoordinates, Counts, Mechanism, Values
from clusterscale.cube.blocks import Source, Window, expand, open_source, read_users
from clusterscale.mechanisms.base import Exact
from clusterscale.seeds import stream
from clusterscale.utility import mean_relative_error

__all__ = ["ReleaseTask", "measure", "publish"]


@dataclass(frozen=True, slots=True)
class ReleaseTask:
    """Task to release all users of a cube in the epochs ``first`` up to ``stop``."""

    source: Source
    first: int
    stop: int
    mechanism: Mechanism


@lru_cache(maxsize=4)
def publish(task: ReleaseTask) -> Values:
    """Return a mechanism's release of all users of a cube, on the cells of the cube.

    The values are the same in every task: the noise has its own random stream.

    Returns
    -------
    float64, shape (roi, epoch)
        The last ROI is the null ROI.

    Raises
    ------
    ClusterscaleError
        If the cube cannot be read, or the mechanism cannot publish its counts.
    """
    source, span, mechanism = task.source, (task.first, task.stop), task.mechanism
    counts, bounds, frames = _count(source, (span, mechanism.trace_steps))
    rng = stream(source.seed, "recovery", *span, mechanism.id)
    n_users = open_source(source).n_users
    values = mechanism.bind(bounds).release(counts, group_size=n_users, rng=rng)
    return expand(values, mechanism.trace_steps, frames)


def measure(task: ReleaseTask) -> float:
    """Return the mean relative error of a release (PETS17 eq. 17).

    The floor is 0.1 % of the total count of an epoch, which reproduces PETS17's tables 3 to 5. ROIs
    without visits are excluded.

    Raises
    ------
    ClusterscaleError
        As :func:`publish` does.
    """
    raw, released = publish(replace(task, mechanism=Exact())), publish(task)
    visited = raw.any(axis=1)
    return mean_relative_error(raw[visited].T, released[visited].T)


@lru_cache(maxsize=4)
def _count(source: Source, window: Window) -> tuple[Counts, Bounds, tuple[CellCoordinates, ...]]:
    """Count all users of a cube, once for all mechanisms with the same trace steps."""
    (block,) = read_users(source, [window], (0, open_source(source).n_users))
    traces = block.traces
    counts = np.bincount(traces.cells, minlength=traces.n_cells).astype(np.int32)
    counts = counts.reshape(traces.n_rois, traces.n_epochs)
    if traces.idle is not None:
        counts[-1] = traces.idle.sum(axis=0)
    return counts, block.bounds, block.frames
