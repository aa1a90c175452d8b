"""Traces of a period in parts: blocks of users, before and after trace steps.

A trace step may draw random numbers, so its result must not depend on how many users are read at
once. Users are always read, and steps applied, in the same blocks, which depend only on the cube;
to process more users at once, blocks are joined.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from clusterscale.contracts import Bounds, CellCoordinates, Traces, TraceStep, Values
from clusterscale.cube import node_copy
from clusterscale.cube.bounds import bounds_before, merge_bounds
from clusterscale.cube.store import TraceCube
from clusterscale.cube.transforms import cut, with_null_roi
from clusterscale.errors import FormatError, InputError
from clusterscale.foreign import on_overwrite
from clusterscale.seeds import stream
from clusterscale.storage import absolute

_MOST_USERS = 1 << 16

Range = tuple[int, int]  # the first user and the one after the last
Span = tuple[int, int]  # the first epoch and the one after the last
Steps = tuple[TraceStep, ...]
Window = tuple[Span, Steps]


@dataclass(frozen=True, slots=True)
class Source:
    """Reference to a cube, as carried by a task; ``seed`` is for trace steps that draw.

    ``weights``: whether the weights of users are read.
    """

    uri: str
    fingerprint: str
    null_roi: bool
    seed: int
    weights: bool = field(default=False, kw_only=True)

    @classmethod
    def of(
        cls, cube: TraceCube, *more: Any, null_roi: bool, seed: int, weights: bool = False
    ) -> Self:
        """Return a source with an absolute address, since workers may run in another folder.

        ``more`` are the additional fields of a subclass.
        """
        where = absolute(cube.uri), cube.fingerprint
        return cls(*where, null_roi, seed, *more, weights=weights)

    def stream(self, *path: str | int) -> np.random.Generator:
        """Return the generator for one purpose of the trace steps; publishing has others."""
        return stream(self.seed, *path)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some users over some epochs, after trace steps.

    Attributes
    ----------
    traces
        Traces to be counted, with their position in the population.
    bounds
        Largest changes that one unit of data of these users makes to the counts.
    frames
        Coordinates of the cells before each step and after the last.
    """

    traces: Traces
    bounds: Bounds
    frames: tuple[CellCoordinates, ...]


node_copy.register(Block)


def block_size(cube: TraceCube) -> int:
    """Return how many users are read at once: a power of two that depends only on the cube."""
    mean = max(1, cube.n_events // cube.n_users)
    size = 1
    # 1 << 23: eight chunks of the store, so that blocks share few chunks
    while 2 * size * mean <= 1 << 23 and size < _MOST_USERS:
        size *= 2
    return size


def ranges(start: int, stop: int, size: int) -> Iterator[Range]:
    """Yield the first user and the one after the last of each block of ``size`` users."""
    for first in range(start, stop, size):
        yield first, min(first + size, stop)


def read_block(source: Source, windows: Sequence[Window], start: int, stop: int) -> list[Block]:
    """Read the users ``start`` up to ``stop`` once, and apply the trace steps of each window.

    They are a block of :func:`block_size` users; if there are none, only the traces are missing
    from the result.
    """
    cube = open_source(source)
    begin = min(first for (first, _), _ in windows)
    whole = cube.block(start, stop, (begin, max(last for (_, last), _ in windows)))
    blocks = []
    for (first, last), steps in windows:
        traces, frames = cut(whole, first - begin, last - begin), [cube.frame((first, last))]
        for i, step in enumerate(steps):
            path = ("trace step", i, step.id, first, last, "users", start)
            traces, frame = step.apply(traces, frames[-1], rng=source.stream(*path))
            frames.append(frame)
        traces = with_null_roi(traces) if source.null_roi else traces
        bounds = bounds_before(steps, frames, traces)
        weights = traces.weights if source.weights else None
        traces = replace(traces, first=start, population=cube.n_users, weights=weights)
        blocks.append(Block(traces, bounds, tuple(frames)))
    return blocks


def read_users(source: Source, windows: Sequence[Window], users: Range) -> list[Block]:
    """Read users block by block and join them into one block per window.

    ``users``: the first user of a block, and the one after the last of the same or a later
    block; other parameters are those of :func:`read_block`. Raises InputError if the users are
    not whole blocks.
    """
    cube = open_source(source)
    size, (first, last) = block_size(cube), users
    if (
        not 0 <= first < last <= cube.n_users
        or first % size
        or (last % size and last < cube.n_users)
    ):
        raise InputError(
            f"users {first} to {last} of {cube.n_users} are not whole blocks of {size}"
        )
    joints: list[_JoinedTraces] = []
    merged: list[Bounds] = []
    for start, stop in ranges(first, last, size):
        blocks = read_block(source, windows, start, stop)
        if not joints:
            n_events = cube.count_events(first, last)
            n_events *= max(len(block.bounds.tables) for block in blocks) or 1
            joints = [_JoinedTraces(block.traces, last - first, n_events) for block in blocks]
        for joint, block in zip(joints, blocks, strict=True):
            joint.add(block.traces)
        bounds = [block.bounds for block in blocks]
        merged = list(map(merge_bounds, merged, bounds)) if merged else bounds
    return [
        Block(joint.traces(first, cube.n_users), bounds_of, block.frames)
        for joint, bounds_of, block in zip(joints, merged, blocks, strict=True)
    ]


class _JoinedTraces:
    """Traces of consecutive users, written into arrays allocated in advance.

    ``n_events`` is an upper bound; memory that is never written to is not used.
    """

    def __init__(self, like: Traces, n_users: int, n_events: int) -> None:
        self._cells_of = like.n_rois, like.n_epochs
        self._offsets = np.zeros(n_users + 1, np.int64)
        self._cells = np.empty(n_events, like.cells.dtype)
        self._idle = np.empty((n_users, like.n_epochs), np.bool_) if like.null_roi else None
        self._weights = None if like.weights is None else np.empty(n_users)
        self._n_users = self._n_events = 0

    def add(self, traces: Traces) -> None:
        """Append the next users."""
        user, event = self._n_users, self._n_events
        self._n_users, self._n_events = user + traces.n_held, event + len(traces.cells)
        self._offsets[user + 1 : self._n_users + 1] = traces.offsets[1:] + event
        self._cells[event : self._n_events] = traces.cells
        if self._idle is not None:
            self._idle[user : self._n_users] = traces.idle_epochs
        if self._weights is not None:
            self._weights[user : self._n_users] = traces.weights

    def traces(self, first: int, population: int) -> Traces:
        """Return all traces, with their position in the population."""
        self._cells.resize(self._n_events, refcheck=False)
        events, users = (self._offsets, self._cells), (first, population)
        return Traces(*events, *self._cells_of, self._idle, *users, self._weights)


def expand(values: Values, steps: Steps, frames: Sequence[CellCoordinates]) -> Values:
    """Return ``values`` of the cells after ``steps``, shape (…, roi, epoch), on the cube's cells.

    ``frames`` are the coordinates of the cells before each step and after the last.
    """
    for step, frame in zip(reversed(steps), reversed(frames[:-1]), strict=True):
        values = step.expand(values, frame)
    return values


def open_source(source: Source) -> TraceCube:
    """Open the cube of a source, once per process.

    Raises FormatError if the cube is not the one with that fingerprint.
    """
    return _open(source.uri, source.fingerprint)


@lru_cache(maxsize=2)
def _open(uri: str, fingerprint: str) -> TraceCube:
    cube = TraceCube(uri)
    if cube.fingerprint != fingerprint:
        raise FormatError(
            f"{uri} has fingerprint {cube.fingerprint}, not {fingerprint}: it was replaced after "
            "the run was planned"
        )
    return cube


@dataclass(frozen=True, slots=True)
class TraceSource(Source):
    """The traces that a task reads: a URI and a few numbers.

    ``spans`` are the first epoch and the one after the last of each observed window and then of
    the period of the release.
    """

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CellMap:
    """The cells that counts are made of.

    ``steps`` are the trace steps; ``frames`` has the places and times of cells before each step and
    after the last.
    """

    steps: Steps
    frames: tuple[CellCoordinates, ...]

    @property
    def frame(self) -> CellCoordinates:
        """Places and times of the cells."""
        return self.frames[-1]

    def expand(self, values: Values) -> Values:
        """Return values of these cells, shape (…, roi, epoch), on the cells of the cube."""
        return expand(values, self.steps, self.frames)


@dataclass(frozen=True, slots=True, eq=False)
class TraceSetting:
    """Traces that are counted, after a mechanism's trace steps.

    Attributes
    ----------
    past, traces
        Traces of the observed windows, and of the period of the release.
    bounds
        Largest change of the counts of the period by one unit of data of these users.
    cells
        The cells of the traces.
    mean_weight
        Mean weight of all users of the cube; 1 if they have none.
    """

    past: tuple[Traces, ...]
    traces: Traces
    bounds: Bounds
    cells: CellMap
    mean_weight: float


def load_settings(
    source: TraceSource, lists: Iterable[Steps], users: Range | None = None
) -> dict[Steps, TraceSetting]:
    """Read the traces of a source once per process, and apply each list of steps once.

    There is one setting for each of ``lists``; ``users`` is a range as for :func:`read_users`.
    The traces of the last users and period are kept, because tasks of a period follow each
    other; they are dropped before others are read. Raises FormatError if the cube is not the
    one with that fingerprint, and DamagedError if a chunk cannot be read.
    """
    cube = open_source(source)
    lists, users = list(lists), users or (0, cube.n_users)
    blocks = _read_cached(
        source, users, [(span, steps) for steps in lists for span in source.spans]
    )
    settings = {}
    for steps in lists:
        *past, now = (blocks[span, steps] for span in source.spans)
        cells = CellMap(steps, now.frames)
        before = tuple(block.traces for block in past)
        settings[steps] = TraceSetting(before, now.traces, now.bounds, cells, cube.mean_weight)
    return settings


def map_cells(source: TraceSource, steps: Steps) -> CellMap:
    """Return the cells of the period after some steps, without reading traces."""
    (empty,) = read_block(source, [(source.spans[-1], steps)], 0, 0)
    return CellMap(steps, empty.frames)


_CACHE: dict[tuple[Source, Range, Window], Block] = {}
on_overwrite.extend([_CACHE.clear, _open.cache_clear])


def _read_cached(source: TraceSource, users: Range, windows: list[Window]) -> dict[Window, Block]:
    """Return the blocks of some windows; read those that are not in memory."""
    cube = Source(
        source.uri, source.fingerprint, source.null_roi, source.seed, weights=source.weights
    )
    blocks = {window: _CACHE.get((cube, users, window)) for window in windows}
    missing = [window for window, block in blocks.items() if block is None]
    if missing:
        for key in list(_CACHE):
            if key[:2] != (cube, users) or key[2][0] not in source.spans:
                _CACHE.pop(key, None)
        node_copy.keep([_name(*key) for key in _CACHE])
        read = node_copy.share(
            [_name(cube, users, window) for window in missing],
            lambda some: read_users(cube, [missing[i] for i in some], users),
        )
        for window, block in zip(missing, read, strict=True):
            _CACHE[cube, users, window] = blocks[window] = block
    return {window: block for window, block in blocks.items() if block is not None}


def _name(cube: Source, users: Range, window: Window) -> str:
    span, steps = window
    return f"{cube} {users} {span} {[step.id for step in steps]}"
