"""Values over (row, column) in one array that grows while it is filled."""

from __future__ import annotations

import numpy as np

from clusterscale.contracts import Ints, Values
from clusterscale.jit import kernel

EMPTY = -np.inf
"""Value of cells that were not filled; tables have no infinite values."""

_GROWTH = 1.25


class Grid:
    """Cells over (row, column), float64; the number of both may grow.

    The array is enlarged and rearranged in place: that a table is read in batches of rows, in any
    order, takes little more memory than the table.
    """

    def __init__(self) -> None:
        self._cells = np.empty(0)
        self._n_rows = self._n_columns = 0

    def fill(
        self, row: Ints, column: Ints, value: Values, shape: tuple[int, int], *, add_up: bool
    ) -> Ints:
        """Fill cells, and return which of ``row`` were filled before.

        Parameters
        ----------
        row, column
            Position of each value, int64, shape (value,).
        value
            float64, shape (value,); NaN in a cell makes its sum NaN.
        shape
            Number of rows and columns from now on.
        add_up
            Whether values of one cell are added, in their order.
        """
        self._reserve(*shape)
        repeated = np.empty(len(row), np.int64)
        n = _fill(self._cells, self._n_columns, row, column, value, add_up, repeated)
        return repeated[:n]

    def row(self, number: int) -> Values:
        """Return a copy of a row, shape (column,)."""
        return self._cells[number * self._n_columns : (number + 1) * self._n_columns].copy()

    def column(self, number: int) -> Values:
        """Return a copy of a column, shape (row,)."""
        return self._cells[number :: self._n_columns].copy() if self._n_columns else np.empty(0)

    def arrange(self, rows: Ints, columns: Ints) -> Values:
        """Return the cells of other rows and columns, which this grid has no longer.

        Parameters
        ----------
        rows
            Number of each row of the result, int64, shape (row,), all different.
        columns
            Number of each column of the result, int64, shape (column,); −1 for an empty one.

        Returns
        -------
        ndarray
            float64, shape (row, column).
        """
        self._reserve(self._n_rows, len(columns))
        others = np.ones(self._n_rows, np.bool_)
        others[rows] = False
        order = np.concatenate([rows, np.flatnonzero(others)])
        _permute(self._cells, self._n_columns, order)
        _narrow(self._cells, self._n_columns, len(rows), columns)
        cells, self._cells = self._cells, np.empty(0)
        cells.resize(len(rows) * len(columns), refcheck=False)
        return cells.reshape(len(rows), len(columns))

    def _reserve(self, n_rows: int, n_columns: int) -> None:
        if n_rows <= self._n_rows and n_columns <= self._n_columns:
            return
        old_rows, old_columns = self._n_rows, self._n_columns
        if n_rows > old_rows:
            self._n_rows = max(n_rows, int(old_rows * _GROWTH))
        if n_columns > old_columns:
            self._n_columns = max(n_columns, int(old_columns * _GROWTH))
        # No view of the cells exists here, and large arrays are enlarged without a copy.
        self._cells.resize(self._n_rows * self._n_columns, refcheck=False)
        if self._n_columns > old_columns:
            _widen(self._cells, old_rows, old_columns, self._n_columns)
        self._cells[old_rows * self._n_columns :] = EMPTY


@kernel
def _fill(
    cells: Values,
    n_columns: int,
    row: Ints,
    column: Ints,
    value: Values,
    add_up: bool,
    repeated: Ints,
) -> int:
    n_repeated = 0
    for i in range(len(row)):
        cell = row[i] * n_columns + column[i]
        if cells[cell] == EMPTY:
            cells[cell] = value[i]
            continue
        repeated[n_repeated] = i
        n_repeated += 1
        if add_up:
            cells[cell] += value[i]
    return n_repeated


@kernel
def _widen(cells: Values, n_rows: int, old: int, new: int) -> None:
    """Move rows of ``old`` cells to rows of ``new`` cells, from the last, which moves farthest."""
    for row in range(n_rows - 1, -1, -1):
        for column in range(old - 1, -1, -1):
            cells[row * new + column] = cells[row * old + column]
        for column in range(old, new):
            cells[row * new + column] = EMPTY


@kernel
def _permute(cells: Values, n_columns: int, order: Ints) -> None:
    """Make row ``order[i]`` row ``i``, along the cycles of the permutation."""
    moved = np.zeros(len(order), np.bool_)
    first = np.empty(n_columns)
    for start in range(len(order)):
        if moved[start] or order[start] == start:
            continue
        first[:] = cells[start * n_columns : (start + 1) * n_columns]
        row = start
        while order[row] != start:
            source = order[row]
            for column in range(n_columns):
                cells[row * n_columns + column] = cells[source * n_columns + column]
            moved[row] = True
            row = source
        cells[row * n_columns : (row + 1) * n_columns] = first
        moved[row] = True


@kernel
def _narrow(cells: Values, n_columns: int, n_rows: int, columns: Ints) -> None:
    """Move the cells of the first rows to rows of ``columns``, of which there are no more."""
    row = np.empty(n_columns)
    for i in range(n_rows):
        row[:] = cells[i * n_columns : (i + 1) * n_columns]
        for j in range(len(columns)):
            cells[i * len(columns) + j] = row[columns[j]] if columns[j] >= 0 else EMPTY
