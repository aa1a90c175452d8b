"""How much noise averages out where noisy counts must add up: levels, strata and weeks together.

Noisy values of cells whose true counts obey sums are estimated together, by generalised least
squares: of all estimates that are unbiased and linear in the values these have the least variance
(Aitken 1935), and they obey the sums. A count is then known better than its own noise says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from clusterscale.contracts import NO_NOISE, Ints, Mechanism, Values
from clusterscale.errors import InputError
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.release.cells import UNKNOWN, Cells, relate
from clusterscale.release.publication import Publication
from clusterscale.release.relations import Relations, spans
from clusterscale.validation_messages import exact_number

_BLOCK = 64  # columns of an inverse at once
_FAR = 1e5  # standard deviations of the noise that stand for a cell without a value
_TINY = 1e-9  # of the largest variance, added to each sum: some sums may follow from others

_MOST = 3 * 10**11  # relations times the square of those of the largest component: 20 s or so
_KNOWN = 1e-4  # of the deviation of a cell: what is left where counts are known
_EXACT = 1e-6  # visits: sums of floats
_BIASED = 0.01  # standard deviations between a count and the mean of its values
_UNKNOWN = 0.1  # share of the variance of a cell without a value, if nothing says anything of it


def average_noise(values: Values, noise: Values, relations: Relations) -> tuple[Values, Values]:
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
    tuple[Values, Values]
        Estimates of counts, which obey the relations, visits, NaN where no value says anything of a
        cell; and the standard deviation of each, infinite where NaN. Both have shape (cell,). They
        are found by sparse factorisation; the time for standard deviations is that of one solution
        for each relation of the largest component.

    Raises
    ------
    InputError
        If there are too many relations.
    """
    given = np.isfinite(noise)
    row, column, sign = relations.incidences
    add = relations.adds[row]
    row, column, weight = row[add], column[add], sign[add].astype(np.float64)
    unit = noise[given].max(initial=0) or 1.0
    variance = np.where(given, noise / unit, _FAR) ** 2
    n_cells, n = len(values), len(relations.whole)
    matrix = sparse.coo_array((weight, (row, column)), (n, n_cells)).tocsr()
    spread = sparse.dia_array((variance[None], [0]), (n_cells, n_cells))
    sums = (matrix @ spread @ matrix.T + _TINY * sparse.eye_array(n)).tocsc()
    _, component = scipy.sparse.csgraph.connected_components(sums, directed=False)
    largest = np.bincount(component, minlength=1).max()
    if n * largest**2 > _MOST:
        raise InputError(f"{n:,} relations, of which {largest:,} are connected, are too many")
    solver = scipy.sparse.linalg.splu(sums)
    known = np.where(given, values, 0.0)
    estimates = known - variance * (matrix.T @ solver.solve(matrix @ known))
    gained = _gained(matrix.tocsc(), solver, component)
    left = np.maximum(variance - variance**2 * gained, 0)
    unknown = ~given & (left > _UNKNOWN * _FAR**2)
    deviations = np.where(unknown, np.inf, unit * np.sqrt(left))
    return np.where(unknown, np.nan, estimates), deviations


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


def describe_averaging(
    noisy: Sequence[tuple[Cells, Mechanism, int]], exact: Sequence[Cells], plan: Publication
) -> Iterator[str]:
    """Yield how much of the noise of each table averages out with all tables.

    ``noisy`` are the cells of tables with noise, their mechanisms and their group sizes.
    """
    sums = relate([*(cells for cells, _, _ in noisy), *exact], plan)
    added = [_added_noise(mechanism, size) for _, mechanism, size in noisy]
    rests = np.full(sum(map(len, sums.rests)), np.nan)
    exact = sums.tables[len(noisy) :]
    counts = [np.where(one.low == one.high, one.low, np.nan).ravel() for one in exact]
    values = np.concatenate([*(table.values.ravel() for table, _, _ in noisy), *counts, rests])
    sizes = np.diff(sums.first[: len(noisy) + 1])
    noise, factors = (np.repeat(column, sizes) for column in zip(*added, strict=True))
    values[: len(noise)] /= factors
    noise = np.append(noise, np.zeros(len(values) - len(noise)))
    noise[np.isnan(values)] = np.inf
    low = np.where(noise == 0, values, 0).astype(np.int64)
    relations, _, _ = sums.relations(low, np.where(noise == 0, low, UNKNOWN))
    some, cells = relations.only(np.flatnonzero(~_are_computed(values, noise, relations)))
    left = noise.copy()
    try:
        _, left[cells] = average_noise(values[cells], noise[cells], some)
    except InputError as error:
        yield f"how much noise averages out is not computed: {error}"
        return
    for i, ((table, mechanism, _), (own, _)) in enumerate(zip(noisy, added, strict=True)):
        here = slice(*sums.first[i : i + 2])
        known = np.where(left < _KNOWN * own, 0, left)[here][np.isfinite(noise[here])]
        if len(known):
            ends, epsilon = np.array([np.median(known), known.min()]), mechanism.guarantee.epsilon
            text = (
                f"noise of {table.name}: standard deviation {own:.3g} alone, and with all tables "
            )
            text += "{:.3g} (median) and {:.3g} (smallest)".format(*ends)
            if np.isfinite(epsilon):
                effective = " and ".join(
                    f"{epsilon * own / end:.3g}" if end else "∞" for end in ends
                )
                text += f": as ε {effective} instead of {exact_number(epsilon)}"
            yield text


def _added_noise(mechanism: Mechanism, group_size: int) -> tuple[float, float]:
    """Return the standard deviation of noise in visits, and by what values were multiplied then.

    The deviation is infinite if values are not counts plus independent noise.
    """
    law = mechanism.law(group_size)
    if isinstance(law, OutputDistribution) and law.noise != NO_NOISE:
        counts = np.array([group_size // 4, group_size - group_size // 4])
        means, variances = law.moments(counts)
        deviation, factor = variances.max() ** 0.5, (means[1] - means[0]) / (counts[1] - counts[0])
        if factor > 0 and abs(means[0] - factor * counts[0]) < _BIASED * deviation:
            return float(deviation / factor), float(factor)
    return np.inf, 1.0


def _are_computed(values: Values, noise: Values, relations: Relations) -> NDArray[np.bool_]:
    """Return which noisy wholes were computed from their parts, so that nothing averages out.

    Whole numbers may fit by chance, unless all do.
    """
    row, cell, sign = relations.incidences
    off = np.bincount(row, sign * np.where(np.isfinite(noise), values, np.nan)[cell])
    fits = np.abs(off) < _EXACT
    is_noisy = np.bincount(row, (noise > 0)[cell]) > 1  # the noise of one cell is no sum
    has_fractions = np.bincount(row, (values % 1 > 0)[cell]) > 0
    return fits & is_noisy & (has_fractions | fits[is_noisy & np.isfinite(off)].all())
