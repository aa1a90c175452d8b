"""How much noise averages out where noisy counts must add up: levels, strata and weeks together.

Noisy values of cells whose true counts obey sums are estimated together, by generalised least
squares: of all estimates that are unbiased and linear in the values these have the least variance
(Aitken 1935), and they obey the sums. A count is then known better than its own noise says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from scipy import sparse, stats

from clusterscale.contracts import Ints, Values
from clusterscale.errors import InputError
from clusterscale.release.intervals import Relations, spans

_BLOCK = 64  # columns of an inverse at once
_FAR = 1e5  # standard deviations of the noise that stand for a cell without a value
_TINY = 1e-9  # of the largest variance, added to each sum: some sums may follow from others

_UNKNOWN = 0.1  # share of the variance of a cell without a value, if nothing says anything of it


@dataclass(frozen=True, slots=True, eq=False)
class Averages:
    """Estimates of counts from noisy values that must add up.

    Attributes
    ----------
    estimates
        Counts that obey the relations, float64, visits, shape (cell,); NaN where no value says
        anything of a cell.
    deviations
        Standard deviation of each estimate, float64, visits, shape (cell,); infinite where NaN.
    noise
        That of each cell's own noise, as given.
    """

    estimates: Values
    deviations: Values
    noise: Values

    def effective(self, epsilon: Values | float) -> Values:
        """Return the ε of noise of the same kind with the deviations that are left, shape (cell,).

        ``epsilon`` is that of each cell's own noise. The ε of Laplace noise is inversely
        proportional to its standard deviation. NaN where a cell has no noise of its own.
        """
        own = np.isfinite(self.noise) & (self.noise > 0)
        ratio = np.full(len(self.noise), np.nan)
        with np.errstate(divide="ignore"):
            np.divide(self.noise, self.deviations, out=ratio, where=own)
        return np.asarray(epsilon * ratio)

    def intervals(self, confidence: float = 0.95) -> tuple[Values, Values]:
        """Return the lower and upper end of each count's interval by a normal law, shape (cell,).

        That of a single Laplace value with 95 % holds the count in 93.7 %; averages are closer.
        """
        reach = float(stats.norm.isf((1 - confidence) / 2)) * self.deviations
        return self.estimates - reach, self.estimates + reach


def average_noise(values: Values, noise: Values, relations: Relations) -> Averages:
    """Return what noisy values of all cells together say of each count.

    Parameters
    ----------
    values
        Published value of each cell, visits, float64, shape (cell,); those without noise of finite
        standard deviation are not read.
    noise
        Standard deviation of each value's noise, visits, float64, shape (cell,): 0 of an exact
        value, infinite of a cell without a value. Noise is independent, with mean 0.
    relations
        Which counts are made of which others. Those that do not add take no part.

    Returns
    -------
    Averages
        By sparse factorisation; the time for standard deviations is that of one solution for each
        relation of the largest component.

    Raises
    ------
    InputError
        If the arrays have other shapes, a standard deviation is negative or NaN, or a value is NaN
        or infinite.
    """
    if not (values.ndim == 1 and values.shape == noise.shape):
        shapes = f"{values.shape} and {noise.shape}"
        raise InputError(f"values and noise have shapes {shapes}, not (cell,) both")
    given = np.isfinite(noise)
    if np.isnan(noise).any() or (noise < 0).any() or not np.isfinite(values[given]).all():
        raise InputError("noise has standard deviations below 0 or NaN, or a value is not finite")
    row, column, sign = relations.incidences
    add = relations.adds[row]
    row, column, weight = row[add], column[add], sign[add].astype(np.float64)
    unit = noise[given].max(initial=0) or 1.0
    variance = np.where(given, noise / unit, _FAR) ** 2
    n_cells, n = len(values), len(relations.whole)
    matrix = sparse.coo_array((weight, (row, column)), (n, n_cells)).tocsr()
    spread = sparse.dia_array((variance[None], [0]), (n_cells, n_cells))
    sums = (matrix @ spread @ matrix.T + _TINY * sparse.eye_array(n)).tocsc()
    solver = scipy.sparse.linalg.splu(sums)
    known = np.where(given, values, 0.0)
    estimates = known - variance * (matrix.T @ solver.solve(matrix @ known))
    _, component = scipy.sparse.csgraph.connected_components(sums, directed=False)
    gained = _gained(matrix.tocsc(), solver, component)
    left = np.maximum(variance - variance**2 * gained, 0)
    unknown = ~given & (left > _UNKNOWN * _FAR**2)
    return Averages(
        np.where(unknown, np.nan, estimates), np.where(unknown, np.inf, unit * np.sqrt(left)), noise
    )


def _gained(matrix: sparse.csc_array, solver: Any, component: Ints) -> Values:
    """Return the diagonal of ``matrix.T @ inverse @ matrix``, shape (cell,).

    One column of the inverse of each component is found at a time, all together: they share no row.
    """
    order = np.argsort(component, kind="stable")
    first = np.searchsorted(component[order], component[order])
    place = np.empty_like(order)
    place[order] = np.arange(len(order)) - first  # of a relation within its component
    n_times = np.diff(matrix.indptr)
    entry = np.repeat(np.arange(matrix.nnz), np.repeat(n_times, n_times))
    other = spans(np.repeat(matrix.indptr[:-1], n_times), np.repeat(n_times, n_times))
    cell = np.repeat(np.arange(matrix.shape[1]), n_times**2)
    weight, column = matrix.data[entry] * matrix.data[other], place[matrix.indices[other]]
    gained = np.zeros(matrix.shape[1])
    for start in range(0, int(place.max(initial=-1)) + 1, _BLOCK):
        inside = (place >= start) & (place < start + _BLOCK)
        units = np.zeros((len(place), _BLOCK))
        units[inside, place[inside] - start] = 1
        inverse = solver.solve(units)
        here = (column >= start) & (column < start + _BLOCK)
        found = inverse[matrix.indices[entry[here]], column[here] - start]
        gained += np.bincount(cell[here], weight[here] * found, minlength=len(gained))
    return gained
