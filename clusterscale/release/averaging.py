"""How much noise averages out where noisy counts must add up: levels, strata and weeks together.

Noisy values of cells whose true counts obey sums are estimated together, by generalised least
squares: of all estimates that are unbiased and linear in the values these have the least variance
(Aitken 1935), and they obey the sums. A count is then known better than its own noise says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from clusterscale.contracts import NO_NOISE, Ints, Mechanism, Values
from clusterscale.errors import InputError
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.release.cells import UNKNOWN, Cells
from clusterscale.release.lattice import relate
from clusterscale.release.publication import Publication
from clusterscale.release.relations import Relations, spans
from clusterscale.validation_messages import exact_number

_BLOCK = 64  # columns of an inverse at once
_MOST = 3 * 10**11  # relations times the square of those of the largest component: 20 s or so
_KNOWN = 1e-4  # of the deviation of a cell: what is left where counts are known
_EXACT = 1e-6  # visits: sums of floats
_BIASED = 0.01  # standard deviations between a count and the mean of its values
_LITTLE = 1e-3  # of a variance: the rest of a difference has lost three digits
_LARGEST = 10_000  # above the exponents of all floats
_MOST_STEPS = 5 * 10**6  # sums of fractions: 20 s or so

Row = dict[int, Fraction]
"""Weights of cells that add up to 0, or to another one."""


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
    unit = noise[given].max(initial=0) or 1.0
    size = np.where(given, noise / unit, np.inf)
    variance = np.where(given, size, 0) ** 2
    sums, solved = _independent(relations, size)
    step, sums = _solutions(sums, solved), sums[given[solved]]
    # Rows are scaled, so that sums of noise of very different sizes are factorised alike.
    sums = (_diagonal(1 / np.sqrt(sums.power(2) @ variance)) @ sums).tocsr()
    moved = (sums @ _diagonal(variance)).tocsr()
    covariance = (moved @ sums.T).tocsc()
    _, component = scipy.sparse.csgraph.connected_components(covariance, directed=False)
    n, largest = len(component), np.bincount(component, minlength=1).max()
    if n * largest**2 > _MOST:
        raise InputError(f"{n:,} relations, of which {largest:,} are connected, are too many")
    estimates = np.where(given, values, 0.0)
    solver: Any = scipy.sparse.linalg.splu(covariance) if n else None
    if n:
        estimates -= moved.T @ solver.solve(sums @ estimates)
    left = variance - _gained(moved.tocsc(), solver, component)
    # Cells without a value are found from others, as are those that others give so well that of
    # the difference of two variances no digits are left.
    found = solved[left[solved] <= _LITTLE * variance[solved]]
    terms = step[found]
    while terms[:, solved].nnz:
        terms = terms @ step
    known, left[found] = given.copy(), terms.power(2) @ variance
    known[found] = terms.astype(np.bool_) @ ~given == 0
    left[found] -= _gained((moved @ terms.T).tocsc(), solver, component)
    estimates[found] = terms @ estimates
    deviations = unit * np.sqrt(np.maximum(left, 0))
    return np.where(known, estimates, np.nan), np.where(known, deviations, np.inf)


def _diagonal(values: Values) -> sparse.dia_array:
    return sparse.dia_array((values[None], [0]), (len(values), len(values)))


def _solutions(sums: sparse.csr_array, solved: Ints) -> sparse.csr_array:
    """Return each cell as a sum of cells, shape (cell, cell): of others where it is solved for."""
    entries, itself = sums.tocoo(), np.ones(sums.shape[1])
    row, cell = entries.coords
    own = cell == solved[row]
    pivots = np.empty(len(solved))
    pivots[row[own]] = entries.data[own]
    weights, row, cell = (part[~own] for part in (-entries.data / pivots[row], row, cell))
    itself[solved] = 0
    others = sparse.csr_array((weights, (solved[row], cell)), [len(itself)] * 2)
    return (_diagonal(itself) + others).tocsr()


def _independent(relations: Relations, noise: Values) -> tuple[sparse.csr_array, Ints]:
    """Return all that relations say of cells with noise or without a value, as independent sums.

    The sums are 0, shape (sum, cell). Each is solved for one of its noisiest cells, shape (sum,),
    which no other one has, unless it is solved for one of this.
    """
    n, n_cells = len(relations.whole), len(noise)
    row, cell, sign = relations.incidences
    add = relations.adds[row]
    matrix = sparse.coo_array((sign[add], (row[add], cell[add])), (n, n_cells)).tocsr()
    matrix.eliminate_zeros()  # cells that are on both sides
    row, cell = matrix.nonzero()
    most, solved = np.zeros(n), np.full(n, -1)
    np.maximum.at(most, row, noise[cell])
    left = most > 0  # sums of exact cells say nothing of noise
    while True:  # what has a cell of its own is independent
        n_times = np.bincount(cell[left[row]], minlength=n_cells)
        own = left[row] & (n_times[cell] == 1) & (2 * noise[cell] >= most[row])
        own &= most[row] < np.inf
        if not own.any():
            break
        solved[row[own]] = cell[own]
        left[row[own]] = False
    kept = np.flatnonzero(solved >= 0)
    here, rows = left[row], {i: Row() for i in np.flatnonzero(left).tolist()}
    for i, j, k in zip(*(part[here].tolist() for part in (row, cell, matrix.data)), strict=True):
        rows[i][j] = Fraction(k)
    pivots = _solve(rows, noise)
    entries = [(i, j, float(k)) for i, own in enumerate(pivots) for j, k in rows[own].items()]
    row, cell, weight = np.array(entries).reshape(-1, 3).T
    shape = len(pivots), n_cells
    rest = sparse.csr_array((weight, (row.astype(np.int64), cell.astype(np.int64))), shape)
    cells = np.array([*solved[kept], *pivots.values()], np.int64)
    return sparse.vstack([matrix[kept], rest]).tocsr(), cells


def _solve(rows: Mapping[int, Row], noise: Values) -> dict[int, int]:
    """Solve rows for their noisiest cells, in place, and return the cell of each.

    No other row has that cell then; rows without one say nothing of noise. Of equally noisy cells,
    that of the fewest rows is the next, and the shortest of these is solved for it.
    """
    at, n_steps = defaultdict[int, set[int]](set), 0
    for i, each in rows.items():
        for cell in each:
            at[cell].add(i)
    size = np.where(noise < np.inf, np.frexp(noise)[1], _LARGEST)
    heap = [(-int(size[cell]), len(some), cell) for cell, some in at.items() if noise[cell] > 0]
    heapify(heap)
    solved = dict[int, int]()
    while heap:
        level, n, cell = heappop(heap)
        if n != len(at[cell]):
            heappush(heap, (level, len(at[cell]), cell))
            continue
        if not (free := at[cell] - solved.keys()):
            continue
        own = min(free, key=lambda i: (len(rows[i]), i))
        solved[own] = cell
        for i in sorted(at[cell] - {own}):
            factor = -rows[i][cell] / rows[own][cell]
            for other, weight in rows[own].items():
                if value := rows[i].get(other, 0) + factor * weight:
                    rows[i][other] = value
                    at[other].add(i)
                else:
                    del rows[i][other]
                    at[other].discard(i)
            n_steps += len(rows[own])
        if n_steps > _MOST_STEPS:
            raise InputError("sums that cross, or of cells that are not published, are too many")
    return solved


def _gained(matrix: sparse.csc_array, solver: Any, component: Ints) -> Values:
    """Return the diagonal of ``matrix.T @ inverse @ matrix``, shape (cell,).

    One column of the inverse of each component is found at a time, all together: they share no row.
    """
    order = np.argsort(component, kind="stable")
    first = np.searchsorted(component[order], component[order])
    place = np.empty_like(order)
    place[order] = np.arange(len(order)) - first  # of a relation within its component
    n_times = np.diff(matrix.indptr)
    cell, gained = np.repeat(np.arange(len(n_times)), n_times), np.zeros(len(n_times))
    for start in range(0, int(place.max(initial=-1)) + 1, _BLOCK):
        inside = (place >= start) & (place < start + _BLOCK)
        units = np.zeros((len(place), _BLOCK))
        units[inside, place[inside] - start] = 1
        inverse = solver.solve(units)
        here = np.flatnonzero(inside[matrix.indices])
        other = np.repeat(here, n_times[cell[here]])
        each = spans(matrix.indptr[cell[here]], n_times[cell[here]])
        row, column = matrix.indices[each], matrix.indices[other]
        weight = matrix.data[each] * matrix.data[other] * (component[row] == component[column])
        part = weight * inverse[row, place[column] - start]
        gained += np.bincount(cell[other], part, minlength=len(gained))
    return gained


def describe_averaging(
    noisy: Sequence[tuple[Cells, Mechanism, int]], exact: Sequence[Cells], plan: Publication
) -> Iterator[str]:
    """Yield how much of the noise of each table averages out with all tables.

    ``noisy`` are the cells of tables with noise, their mechanisms and their group sizes. What ends
    the computation is reported: a note never ends a check.
    """
    try:
        yield from _describe(noisy, exact, plan)
    except InputError as error:
        yield f"how much noise averages out is not computed: {error}"
    except Exception as error:
        yield f"how much noise averages out is not computed: {type(error).__name__}: {error}"


def _describe(
    noisy: Sequence[tuple[Cells, Mechanism, int]], exact: Sequence[Cells], plan: Publication
) -> Iterator[str]:
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
    _, left[cells] = average_noise(values[cells], noise[cells], some)
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
