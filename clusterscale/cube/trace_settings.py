"""The traces of a period in a worker's memory, before and after trace steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from clusterscale.contracts import Bounds, CellCoordinates, Traces, Values
from clusterscale.cube.blocks import (
    Block,
    Range,
    Source,
    Span,
    Steps,
    Window,
    expand,
    open_source,
    read_block,
    read_users,
)


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

    The traces of the last users and period are kept, because tasks of a period follow each other;
    they are dropped before others are read.

    Parameters
    ----------
    source
        The traces to read.
    lists
        Lists of trace steps; there is one setting for each.
    users
        Range of users, as for :func:`~clusterscale.cube.blocks.read_users`; all if None.

    Raises
    ------
    FormatError
        If the cube is not the one with that fingerprint.
    DamagedError
        If a chunk cannot be read.
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
        read = dict(zip(missing, read_users(cube, missing, users), strict=True))
        _CACHE.update({(cube, users, window): block for window, block in read.items()})
        blocks |= read
    return {window: block for window, block in blocks.items() if block is not None}
