"""Visits of users: their union, temporary blocks of them, and one cube in order of user ids."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import Ints, Traces
from clusterscale.cube import transforms
from clusterscale.cube.writer import CubeWriter
from clusterscale.errors import InputError

_USER, _CELLS = pd.ArrowDtype(pa.string()), pd.ArrowDtype(pa.large_binary())


@dataclass(frozen=True, slots=True)
class UserCells:
    """Flat cells by user, concatenated over users.

    ``users`` are Arrow strings, shape (user,); ``sizes`` their numbers of cells, int64, shape
    (user,); ``cells`` int64, shape (visit,).
    """

    users: Any
    sizes: Ints
    cells: Ints

    def frame(self) -> pd.DataFrame:
        """Return one row per user with its cells as bytes, so that a shuffle moves whole users."""
        offsets = np.concatenate([[0], np.cumsum(self.sizes * 8)]).astype(np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(self.cells))]
        cells = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self.users), buffers)
        return pd.DataFrame(
            {
                "user": pd.Series(self.users, dtype=_USER),
                "cells": pd.Series(cells, dtype=_CELLS),
            }
        )


def from_frame(frame: pd.DataFrame) -> UserCells:
    """Return the visits in a frame made by :meth:`UserCells.frame`, rows in any order."""
    users = _whole(frame["user"], pa.string())
    cells = _whole(frame["cells"], pa.large_binary())
    sizes = pc.binary_length(cells).to_numpy(zero_copy_only=False) // 8
    offsets = np.frombuffer(cells.buffers()[1], np.int64)[cells.offset :]
    data = cells.buffers()[2]
    if data is None or len(cells) == 0:
        return UserCells(users, sizes.astype(np.int64), np.empty(0, np.int64))
    body = np.frombuffer(data, np.uint8)[offsets[0] : offsets[len(cells)]]
    return UserCells(users, sizes.astype(np.int64), body.copy().view(np.int64))


def _whole(column: pd.Series, kind: Any) -> Any:
    array = pa.array(column, kind)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def combine(
    parts: Sequence[UserCells], n_cells: int, *, in_order: bool = False
) -> tuple[UserCells, int]:
    """Return the union of visits in any order, and the number of duplicates.

    ``n_cells``: size of the grid; ``in_order``: sort users by id. Cells are always sorted.
    """
    if not parts:
        return UserCells(pa.array([], pa.string()), np.empty(0, np.int64), np.empty(0, np.int64)), 0
    coded = pa.concat_arrays([part.users for part in parts]).dictionary_encode()
    users, codes = coded.dictionary, coded.indices.to_numpy().astype(np.int64)
    if in_order:
        order = pc.sort_indices(users)
        rank = np.empty(len(order), np.int64)
        rank[order.to_numpy()] = np.arange(len(order))
        users, codes = users.take(order), rank[codes]
    # One key for user and cell: users of a task times cells is far below 2⁶³.
    keys = np.repeat(codes * n_cells, np.concatenate([part.sizes for part in parts]))
    keys += np.concatenate([part.cells for part in parts])
    unique = distinct(keys)
    user, cells = np.divmod(unique, n_cells)
    counts = np.bincount(user, minlength=len(users)).astype(np.int64)
    return UserCells(users, counts, cells), len(keys) - len(unique)


def distinct(keys: Ints) -> Ints:
    """Return the distinct values of ``keys``, sorted; ``keys`` is sorted in place.

    With many repeated values, this is faster than the hash table of :func:`numpy.unique`.
    """
    keys.sort()
    new = np.ones(len(keys), np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    return keys[new]


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
    with storage.open_file(url, "wb") as stream:
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
        kept[np.argsort(-sizes, kind="stable")[top_users:]] = False
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
