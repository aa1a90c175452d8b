"""Merge blocks of shuffled users into one cube, in order of user ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import Traces
from clusterscale.cube import transforms
from clusterscale.cube.writer import CubeWriter
from clusterscale.errors import InputError
from clusterscale.ingest.visits import combine, from_frame

__all__ = ["SpilledBlock", "choose", "copy", "write_block"]

Ints = NDArray[np.int64]
_RUN = 1 << 21  # events written at a time


@dataclass(frozen=True, slots=True)
class SpilledBlock:
    """Some users in order, with their cells in a file of int64."""

    url: str
    users: Any
    sizes: Ints
    n_twice: int


def write_block(frame: pd.DataFrame, url: str, n_cells: int) -> SpilledBlock:
    """Merge the visits of each user in one partition of the shuffle and write them to a file."""
    visits, n_twice = combine([from_frame(frame)], n_cells, in_order=True)
    with fsspec.open(url, "wb") as stream:
        stream.write(visits.cells.astype("<i8", copy=False).tobytes())
    return SpilledBlock(url, visits.users, visits.sizes, n_twice)


@dataclass(frozen=True, slots=True)
class _Users:
    """All users in order of their ids, with the block of each and the index in it."""

    names: Any
    block: Ints
    place: Ints
    sizes: Ints

    def __len__(self) -> int:
        return len(self.sizes)


def choose(
    blocks: Sequence[SpilledBlock], *, top_users: int | None, min_events: int
) -> tuple[_Users, int]:
    """Return the users to keep, in order of their ids, and the number of events of the others.

    The ``top_users`` with the most events are kept; ties are resolved in order of id.

    Raises
    ------
    InputError
        If no user has ``min_events``.
    """
    names = pa.concat_arrays([block.users.cast(pa.large_string()) for block in blocks])
    order = pc.sort_indices(names)
    rows = order.to_numpy()
    counts = [len(block.users) for block in blocks]
    sizes = np.concatenate([block.sizes for block in blocks])[rows]
    kept = sizes >= min_events
    if not kept.any():
        raise InputError(f"no user has {min_events} events or more: the most is {sizes.max()}")
    if top_users is not None and kept.sum() > top_users:
        ranked = np.argsort(-sizes, kind="stable")
        kept[ranked[top_users:]] = False
    users = _Users(
        names.take(order).filter(pa.array(kept)),
        np.repeat(np.arange(len(blocks)), counts)[rows][kept],
        np.concatenate([np.arange(count) for count in counts])[rows][kept],
        sizes[kept],
    )
    return users, int(sizes[~kept].sum())


def copy(blocks: Sequence[SpilledBlock], users: _Users, writer: CubeWriter) -> Iterator[int]:
    """Append users to a cube; yield the number written after each run."""
    starts = [np.concatenate([[0], np.cumsum(block.sizes)]) for block in blocks]
    ends = np.cumsum(users.sizes)
    first = 0
    while first < len(ends):
        base = ends[first] - users.sizes[first]
        stop = max(int(np.searchsorted(ends, base + _RUN, "right")), first + 1)
        run = slice(first, stop)
        cells = _gather(blocks, starts, users.block[run], users.place[run])
        writer.append(users.names[first:stop].to_pylist(), users.sizes[run], cells)
        yield stop
        first = stop


def _gather(
    blocks: Sequence[SpilledBlock], starts: Sequence[Ints], block: Ints, place: Ints
) -> NDArray[np.integer[Any]]:
    """Read the users of a run, which are contiguous in each block, and put them in order."""
    sizes: list[Ints] = []
    pieces: list[Ints] = []
    index = np.empty(len(block), np.int64)
    n_before = 0
    for number in np.unique(block):
        inside = block == number
        low, high = int(place[inside].min()), int(place[inside].max()) + 1
        offsets = starts[number][low : high + 1]
        pieces.append(_cells(blocks[number].url, int(offsets[0]), int(offsets[-1])))
        sizes.append(np.diff(offsets))
        index[inside] = n_before + place[inside] - low
        n_before += high - low
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    any_cell = np.iinfo(np.int64).max  # picking users does not depend on the size of the grid
    return transforms.pick(Traces(offsets, np.concatenate(pieces), 1, any_cell), index).cells


def _cells(url: str, start: int, stop: int) -> Ints:
    filesystem, path = storage.connect(url)
    return np.frombuffer(filesystem.cat_file(path, start=8 * start, end=8 * stop), "<i8")
