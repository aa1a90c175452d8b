"""Users by the block: what is read together, and what is done to their traces before counting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from clusterscale.contracts import Bounds, Frame, Mechanism, Traces
from clusterscale.cube import TraceCube, measure_bounds, with_null_roi
from clusterscale.errors import FormatError
from clusterscale.screening.plan import Setting
from clusterscale.seeds import stream

__all__ = ["Source", "block_size", "merge_bounds", "part_size", "ranges", "read_block"]

_MOST_EVENTS = 1 << 23  # eight chunks of the store, so that few are shared by two blocks
_MOST_USERS = 1 << 16
_SERIES_USERS = 32


@dataclass(frozen=True, slots=True)
class Source:
    """Which cube: all that a task carries of it. ``seed`` is for trace steps that draw."""

    uri: str
    fingerprint: str
    null_roi: bool
    seed: int


def block_size(cube: TraceCube) -> int:
    """Return how many users are read together: a power of two that hangs on the cube alone.

    Trace steps draw block by block, so blocks must not hang on memory or workers.
    """
    mean = max(1, cube.n_events // cube.n_users)
    size = 1
    while 2 * size * mean <= _MOST_EVENTS and size < _MOST_USERS:
        size *= 2
    return size


def part_size(cube: TraceCube, mechanisms: Iterable[Mechanism]) -> int:
    """Return how many users a task scores, and a chunk of the results holds.

    A block, unless series must be published for each user: that takes a tenth of a second each.
    """
    by_series = any(mechanism.reach == "series" for mechanism in mechanisms)
    return min(_SERIES_USERS if by_series else _MOST_USERS, block_size(cube))


def ranges(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the first user of each block of ``size`` and the one after its last."""
    for first in range(start, stop, size):
        yield first, min(first + size, stop)


def read_block(
    source: Source, setting: Setting, start: int, stop: int
) -> tuple[Traces, Frame, Bounds]:
    """Read the users ``start`` up to ``stop`` over a setting's epochs and do its trace steps.

    Returns
    -------
    tuple
        Traces as they are counted, where and when their cells are, and the most that one unit of
        data of these users changes the counts.

    Raises
    ------
    FormatError
        If the cube is not the one with that fingerprint.
    DamagedError
        If a chunk cannot be read.
    """
    cube = _open(source.uri, source.fingerprint)
    traces, frame = cube.block(start, stop, setting.span), cube.frame(setting.span)
    for i, step in enumerate(setting.steps):
        path = ("trace step", i, step.label, *setting.span, "users", start)
        traces, frame = step.apply(traces, frame, rng=stream(source.seed, *path))
    if source.null_roi:
        traces = with_null_roi(traces)
    bounds = measure_bounds(traces, frame.days, frame.until)
    for step in setting.steps:
        bounds = step.limit(bounds)
    return traces, frame, bounds


def merge_bounds(one: Bounds, other: Bounds) -> Bounds:
    """Return what holds of the users of both."""
    return Bounds(
        event=max(one.event, other.event),
        user_day=max(one.user_day, other.user_day),
        user=max(one.user, other.user),
        series=max(one.series, other.series),
        rois=max(one.rois, other.rois),
        null_roi=one.null_roi,
    )


@lru_cache(maxsize=2)
def _open(uri: str, fingerprint: str) -> TraceCube:
    cube = TraceCube(uri)
    if cube.fingerprint != fingerprint:
        raise FormatError(
            f"{uri} has fingerprint {cube.fingerprint}, not {fingerprint}: it was replaced since "
            "the screen was planned"
        )
    return cube
