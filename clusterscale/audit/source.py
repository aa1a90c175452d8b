"""The traces of a period in a worker's memory, as they are and as trace steps leave them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from clusterscale.contracts import Bounds, Frame, Traces, TraceStep, Values
from clusterscale.cube import TraceCube, cut, measure_bounds, with_null_roi
from clusterscale.errors import FormatError
from clusterscale.seeds import stream

__all__ = ["Setting", "TraceSource", "load_setting"]

Steps = tuple[TraceStep, ...]
Window = tuple[Traces, Frame]


@dataclass(frozen=True, slots=True)
class TraceSource:
    """Which traces: a few numbers and an address, all that a task carries.

    ``spans`` are the first epoch and the one after the last of each observed window and then of
    the period of the release; ``seed`` is the audit's, for trace steps that draw.
    """

    uri: str
    fingerprint: str
    spans: tuple[tuple[int, int], ...]
    null_roi: bool
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """Traces that counts are made of, once a mechanism's trace steps are done.

    Attributes
    ----------
    past, traces
        Those of observed windows, and of the period of the release.
    bounds
        The most that one unit of data changes the counts of the period.
    steps, frames
        The trace steps; where and when cells were before each, and are after the last.
    """

    past: tuple[Traces, ...]
    traces: Traces
    bounds: Bounds
    steps: Steps
    frames: tuple[Frame, ...]

    def expand(self, values: Values) -> Values:
        """Return values of these cells, shape (…, roi, epoch), on the cells of the cube."""
        for step, frame in zip(reversed(self.steps), reversed(self.frames[:-1]), strict=True):
            values = step.expand(values, frame)
        return values


def load_setting(source: TraceSource, steps: Steps) -> Setting:
    """Read the traces of a source once a process, and change them once for each list of steps.

    The last two sources are kept: tasks of a period come together.

    Raises
    ------
    FormatError
        If the cube is not the one with that fingerprint.
    """
    windows, settings = _open(source)
    if steps not in settings:
        settings[steps] = _change(source, windows, steps)
    return settings[steps]


@lru_cache(maxsize=2)
def _open(source: TraceSource) -> tuple[tuple[Window, ...], dict[Steps, Setting]]:
    cube = TraceCube(source.uri)
    if cube.fingerprint != source.fingerprint:
        raise FormatError(
            f"{source.uri} has fingerprint {cube.fingerprint}, not {source.fingerprint}: "
            "it was replaced since the audit was planned"
        )
    begin = min(first for first, _ in source.spans)
    whole = cube.traces(epochs=(begin, max(stop for _, stop in source.spans)))
    windows = (
        (cut(whole, first - begin, stop - begin), cube.frame((first, stop)))
        for first, stop in source.spans
    )
    return tuple(windows), {}


def _change(source: TraceSource, windows: tuple[Window, ...], steps: Steps) -> Setting:
    *past, (traces, frames) = (
        _follow(source, window, span, steps)
        for window, span in zip(windows, source.spans, strict=True)
    )
    bounds = measure_bounds(traces, frames[-1].days, frames[-1].until)
    for step in steps:
        bounds = step.limit(bounds)
    return Setting(tuple(each for each, _ in past), traces, bounds, steps, frames)


def _follow(
    source: TraceSource, window: Window, span: tuple[int, int], steps: Steps
) -> tuple[Traces, tuple[Frame, ...]]:
    """Return the traces of a window after the steps, and its frames from before each and after."""
    traces, frame = window
    frames = [frame]
    for i, step in enumerate(steps):
        rng = stream(source.seed, "trace step", i, step.label, *span)
        traces, frame = step.apply(traces, frame, rng=rng)
        frames.append(frame)
    return (with_null_roi(traces) if source.null_roi else traces), tuple(frames)
