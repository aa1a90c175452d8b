"""Changes to the sizes and cells of a cube before it is written, which no sound cube has."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from fuzz.crowd import N_EPOCHS, N_ROIS

__all__ = ["CHANGES"]


def _of(sizes: np.ndarray, user: int) -> slice:
    return slice(int(sizes[:user].sum()), int(sizes[: user + 1].sum()))


def _beyond(sizes: np.ndarray, cells: np.ndarray, user: int) -> None:
    cells[_of(sizes, user).stop - 1] = N_ROIS * N_EPOCHS


def _far_beyond(sizes: np.ndarray, cells: np.ndarray, user: int) -> None:
    cells[_of(sizes, user).stop - 1] = 2**31 - 1


def _negative(sizes: np.ndarray, cells: np.ndarray, user: int) -> None:
    cells[_of(sizes, user).start] = -(2**31)


def _minus_one(sizes: np.ndarray, cells: np.ndarray, user: int) -> None:
    cells[_of(sizes, user).start] = -1


def _unsorted(sizes: np.ndarray, cells: np.ndarray, user: int) -> None:
    cells[_of(sizes, user)] = cells[_of(sizes, user)][::-1].copy()


def _twice(sizes: np.ndarray, cells: np.ndarray, user: int) -> None:
    cells[_of(sizes, user).start + 1] = cells[_of(sizes, user).start]


def _falling(sizes: np.ndarray, cells: np.ndarray, user: int) -> None:
    sizes[user], sizes[user - 1] = -5, sizes[user - 1] + sizes[user] + 5


def _too_few(sizes: np.ndarray, cells: np.ndarray, user: int) -> None:
    sizes[user] = 0


def _too_many(sizes: np.ndarray, cells: np.ndarray, user: int) -> None:
    sizes[user] += 1000


CHANGES: dict[str, Callable[[np.ndarray, np.ndarray, int], None]] = {
    "a cell beyond the last": _beyond,
    "the largest cell": _far_beyond,
    "a negative cell": _negative,
    "the cell of lost chunks": _minus_one,
    "cells that fall": _unsorted,
    "a cell twice": _twice,
    "offsets that fall": _falling,
    "fewer events by offsets": _too_few,
    "more events by offsets": _too_many,
}
