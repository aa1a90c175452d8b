"""Passes over the cells of many releases, some columns at a time and without a wide copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Counts, Labels, Release, Scores, Values
from clusterscale.errors import InputError
from clusterscale.jit import kernel

__all__ = ["LinearDistinguisher", "Rows", "blocks", "centre", "column_variances", "combine", "gram"]
__all__ += ["product"]

Floats = NDArray[np.float64]
Rows = Values | Counts  # flattened to (row, column)

_WIDTH = 2048  # columns of a block: 400 rows of them are 6.5 MB, which stays in a processor's cache


def blocks(rows: Rows) -> Iterator[tuple[NDArray[np.int64] | slice, Floats]]:
    """Yield the columns of ``rows``, shape (row, column), as float64, some at a time.

    Columns of zeros are left out: most cells of a release are empty in every group.

    Raises
    ------
    InputError
        If ``rows`` has another number of dimensions.
    """
    if rows.ndim != 2:
        raise InputError(f"rows have shape {rows.shape}, not (row, column)")
    used = np.zeros(rows.shape[1], np.bool_)
    _mark_used(rows, used)
    places = np.flatnonzero(used)
    for start in range(0, len(places), _WIDTH):
        stop = min(start + _WIDTH, len(places))
        first, last = places[start], places[stop - 1]
        dense = last - first == stop - start - 1
        columns = slice(first, last + 1) if dense else places[start:stop]
        yield columns, rows[:, columns].astype(np.float64)


@kernel
def _mark_used(rows: Rows, used: Labels) -> None:
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(len(row)):
            used[j] |= row[j] != 0


def gram(rows: Rows, scale: Floats | None = None) -> Floats:
    """Return the inner products of all rows, shape (row, row), without a wide float64 copy.

    ``scale``, shape (column,), multiplies every row before that.
    """
    total = np.zeros((len(rows), len(rows)))
    for columns, block in blocks(rows):
        if scale is not None:
            block *= scale[columns]
        total += block @ block.T
    return total


def centre(products: Floats) -> Floats:
    """Return the inner products that rows have once the mean row is taken from each of them."""
    centred: Floats = products - products.mean(axis=0) - products.mean(axis=1)[:, None]
    centred += products.mean()
    return centred


def column_variances(rows: Rows) -> Floats:
    """Return the variance of every column, shape (column,); what is 0 up to rounding is 0."""
    found = np.zeros(rows.shape[1])
    for columns, block in blocks(rows):
        variance = block.var(axis=0)
        largest = np.maximum(block.max(axis=0), -block.min(axis=0))
        rounding = len(rows) * np.finfo(np.float64).eps * largest
        found[columns] = np.where(np.sqrt(variance) > rounding, variance, 0.0)
    return found


def product(rows: Rows, weights: Floats) -> Floats:
    """Return the weighted sum of every row, shape (row,), in one pass and without a copy.

    Raises
    ------
    InputError
        If there is not one weight for each column.
    """
    if rows.ndim != 2 or weights.shape != rows.shape[1:]:
        raise InputError(f"weights of shape {weights.shape} do not fit rows of {rows.shape}")
    total = np.empty(len(rows))
    _weigh(rows, weights, total)
    return total


@kernel
def _weigh(rows: Rows, weights: Floats, total: Floats) -> None:
    """Add in eight lanes: at the speed of memory, and in an order that is no processor's choice."""
    n_columns = rows.shape[1]
    whole = n_columns - n_columns % 8
    for i in range(rows.shape[0]):
        row = rows[i]
        a = b = c = d = e = f = g = h = 0.0
        for j in range(0, whole, 8):
            a += row[j] * weights[j]
            b += row[j + 1] * weights[j + 1]
            c += row[j + 2] * weights[j + 2]
            d += row[j + 3] * weights[j + 3]
            e += row[j + 4] * weights[j + 4]
            f += row[j + 5] * weights[j + 5]
            g += row[j + 6] * weights[j + 6]
            h += row[j + 7] * weights[j + 7]
        rest = 0.0
        for j in range(whole, n_columns):
            rest += row[j] * weights[j]
        total[i] = ((a + e) + (c + g)) + ((b + f) + (d + h)) + rest


def combine(rows: Rows, shares: Floats) -> Floats:
    """Return the sum of all rows, each times its share, shape (column,)."""
    total = np.zeros(rows.shape[1])
    for columns, block in blocks(rows):
        total[columns] = shares @ block
    return total


@dataclass(frozen=True, slots=True)
class LinearDistinguisher:
    """A weight for every cell, and a threshold on the weighted sum."""

    weights: Floats
    intercept: float = 0.0
    threshold: float = 0.0

    def score(self, release: Release) -> Scores:
        """Return the weighted sum of each group's values, plus the intercept."""
        return product(release.flat, self.weights) + self.intercept
