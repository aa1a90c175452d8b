"""The traces of a period in a worker's memory, as they are and as trace steps leave them."""

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

__all__ = ["CellMap", "TraceSetting", "TraceSource", "load_settings", "map_cells"]


@dataclass(frozen=True, slots=True)
class TraceSource(Source):
    """Which traces: a few numbers and an address, all that a task carries.

    ``spans`` are the first epoch and the one after the last of each observed window and then of
    the period of the release.
    """

    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CellMap:
    """The cells that counts are made of.

    ``steps`` are what was done to traces; ``frames``: where and when cells were before each, and
    are after the last.
    """

    steps: Steps
    frames: tuple[CellCoordinates, ...]

    @property
    def frame(self) -> CellCoordinates:
        """Where and when cells are."""
        return self.frames[-1]

    def expand(self, values: Values) -> Values:
        """Return values of these cells, shape (…, roi, epoch), on the cells of the cube."""
        return expand(values, self.steps, self.frames)


@dataclass(frozen=True, slots=True, eq=False)
class TraceSetting:
    """Traces that counts are made of, once a mechanism's trace steps are done.

    Attributes
    ----------
    past, traces
        Those of observed windows, and of the period of the release.
    bounds
        The most that one unit of data of whose traces these are changes the counts of the period.
    cells
        What the traces are of.
    """

    past: tuple[Traces, ...]
    traces: Traces
    bounds: Bounds
    cells: CellMap


def load_settings(
    source: TraceSource, lists: Iterable[Steps], users: Range | None = None
) -> dict[Steps, TraceSetting]:
    """Read the traces of a source once a process, and change them once for each list of steps.

    Those of the last users and period are kept, for tasks of a period come together; they make
    room before others are read.

    Parameters
    ----------
    source
        Which traces.
    lists
        What is done to them, one setting each.
    users
        Whose, as :func:`~clusterscale.cube.blocks.read_users` takes them; everyone's where None.

    Raises
    ------
    FormatError
        If the cube is not the one with that fingerprint.
    DamagedError
        If a chunk cannot be read.
    """
    cube = open_source(source)
    lists, users = list(lists), users or (0, cube.n_users)
    blocks = _hold(source, users, [(span, steps) for steps in lists for span in source.spans])
    found = {}
    for steps in lists:
        *past, now = (blocks[span, steps] for span in source.spans)
        cells = CellMap(steps, now.frames)
        found[steps] = TraceSetting(
            tuple(each.traces for each in past), now.traces, now.bounds, cells
        )
    return found


def map_cells(source: TraceSource, steps: Steps) -> CellMap:
    """Return what the cells of the period are after some steps; reads nobody's traces."""
    (nobody,) = read_block(source, [(source.spans[-1], steps)], 0, 0)
    return CellMap(steps, nobody.frames)


_HELD: dict[tuple[Source, Range, Window], Block] = {}


def _hold(source: TraceSource, users: Range, windows: list[Window]) -> dict[Window, Block]:
    """Return what is held, once it is."""
    cube = Source(source.uri, source.fingerprint, source.null_roi, source.seed)
    found = {window: _HELD.get((cube, users, window)) for window in windows}
    missing = [window for window, block in found.items() if block is None]
    if missing:
        for key in list(_HELD):
            if key[:2] != (cube, users) or key[2][0] not in source.spans:
                _HELD.pop(key, None)
        read = dict(zip(missing, read_users(cube, missing, users), strict=True))
        _HELD.update({(cube, users, window): block for window, block in read.items()})
        found |= read
    return {window: block for window, block in found.items() if block is not None}
