"""Visits: distinct pairs of user and cell, the result of binning records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["UserCells", "combine", "distinct", "from_frame"]

Ints = NDArray[np.int64]
_USER, _CELLS = pd.ArrowDtype(pa.string()), pd.ArrowDtype(pa.large_binary())


@dataclass(frozen=True, slots=True)
class UserCells:
    """Cells by user.

    Attributes
    ----------
    users
        Arrow strings, shape (user,).
    sizes
        int64, shape (user,): cells of each user.
    cells
        int64, shape (visit,): flat cells, concatenated over users.
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
    """Return the union of visits and the number of duplicates.

    Parameters
    ----------
    parts
        Visits in any order; a user and a cell may be in several parts.
    n_cells
        Size of the grid of cells.
    in_order
        Sort users by their ids; cells are always sorted.
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
