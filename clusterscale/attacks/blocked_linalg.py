"""Linear algebra on the cells of many releases, in blocks of columns, without a wide copy."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Counts, Floats, Labels, Release, Scores, Values
from clusterscale.jit import kernel

Rows = Values | Counts  # flattened to (row, column)

_WIDTH = 2048  # columns of a block: with 400 rows it is 6.5 MB, which fits in a CPU cache


def blocks(rows: Rows) -> Iterator[tuple[NDArray[np.int64] | slice, Floats]]:
    """Yield the columns of ``rows``, shape (row, column), as float64, block by block.

    Columns of zeros are left out: most cells of a release are empty in every group.
    """
    used = np.zeros(rows.shape[1], np.bool_)
    _mark_used(rows, used)
    indices = np.flatnonzero(used)
    for start in range(0, len(indices), _WIDTH):
        stop = min(start + _WIDTH, len(indices))
        first, last = indices[start], indices[stop - 1]
        dense = last - first == stop - start - 1
        columns = slice(first, last + 1) if dense else indices[start:stop]
        yield columns, rows[:, columns].astype(np.float64)


@kernel
def _mark_used(rows: Rows, used: Labels) -> None:
    for i in range(rows.shape[0]):
        row = rows[i]
        for j in range(len(row)):
            used[j] |= row[j] != 0


def gram(rows: Rows, scale: Floats | None = None) -> Floats:
    """Return the inner products of all rows, shape (row, row), without a wide float64 copy.

    Rows are first multiplied by ``scale``, shape (column,).
    """
    total = np.zeros((len(rows), len(rows)))
    for columns, block in blocks(rows):
        if scale is not None:
            block *= scale[columns]
        total += block @ block.T
    return total


def centre(products: Floats) -> Floats:
    """Return the inner products of rows after subtraction of the mean row."""
    centred: Floats = products - products.mean(axis=0) - products.mean(axis=1)[:, None]
    centred += products.mean()
    return centred


def column_variances(rows: Rows) -> Floats:
    """Return the variance of every column, shape (column,); exactly 0 if 0 up to rounding."""
    variances = np.zeros(rows.shape[1])
    for columns, block in blocks(rows):
        variance = block.var(axis=0)
        largest = np.maximum(block.max(axis=0), -block.min(axis=0))
        rounding = len(rows) * np.finfo(np.float64).eps * largest
        variances[columns] = np.where(np.sqrt(variance) > rounding, variance, 0.0)
    return variances


def product(rows: Rows, weights: Floats) -> Floats:
    """Return the weighted sum of every row, shape (row,), in one pass without a copy."""
    total = np.empty(len(rows))
    _weigh(rows, weights, total)
    return total


@kernel
def _weigh(rows: Rows, weights: Floats, total: Floats) -> None:
    """Add in eight lanes: at memory speed, in an order that does not depend on the processor."""
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
    """Return the sum of all rows weighted by ``shares``, shape (column,)."""
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
