"""What published sums say of hidden counts: bounds by propagation, flows and integer programs.

Counts are whole numbers between known bounds; relations say which of them are sums of others. In a
tree of relations, propagating bounds gives the exact range of each count. Where trees cross, as in
a table with totals of rows and of columns, relations are the nodes of a network and counts its
flows: which counts are determined follows from one flow (Gusfield 1988). Only what is left is
solved as integer programs, component by component; where these are too large, bounds are true, but
may be wider than the range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import call
from typing import Any, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from scipy import sparse

from clusterscale.contracts import Ints
from clusterscale.errors import InputError
from clusterscale.jit import kernel
from clusterscale.release.network import FIRST, CountNetwork, joined
from clusterscale.release.relations import Flags, Relations

MOST_CELLS = 2_000
"""Counts of a component whose ranges are found by integer programs."""

Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each item, anywhere; the results are in the order of the items."""

# Limits of an integer program. That of nodes does not depend on the machine, and comes first.
_NODES, _SECONDS = 1_000, 60.0
_DIRECTIONS, _IN_VAIN = 40, 4  # in which programs look for two possible counts, all and in a row
_ROUNDS = 64  # visits of a relation, on average, before propagation ends


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """What is known of counts.

    Attributes
    ----------
    low, high
        Bounds of each count, int64, shape (cell,); all counts that are possible are within.
    exact
        Whether these are the least and the largest possible count, bool, shape (cell,). Where not,
        the count is only known to be within.
    settled
        Whether the range is exact, or two counts are possible that are further apart than is
        ``enough``, bool, shape (cell,).
    contradiction
        Number of a relation that cannot hold with the others; None if there is none.
    """

    low: Ints
    high: Ints
    exact: Flags
    settled: Flags
    contradiction: int | None = None


def bound_counts(
    low: Ints,
    high: Ints,
    relations: Relations,
    *,
    most: int = MOST_CELLS,
    wanted: Ints | None = None,
    enough: Ints | int | None = None,
    run: Run = map,
) -> Ranges:
    """Return what relations say of counts with known bounds.

    Parameters
    ----------
    low, high
        Smallest and largest possible count of each cell, int64, shape (cell,), which do not cross.
    relations
        Which counts are made of which others.
    most
        Counts of a component whose ranges are found by integer programs.
    wanted
        Cells whose ranges are found by flows and integer programs; None: all. Without any, flows
        find which counts are determined, and programs contradictions.
    enough
        Width of each range above which it need not be exact: programs look for two possible counts
        that are further apart. None: a count is settled if it is not determined, but all ranges are
        exact.
    run
        Solves the programs of components, which do not depend on each other, such as by tasks on a
        cluster. Ranges are the same wherever they are solved, unless a program takes a minute.

    Returns
    -------
    Ranges
        With a ``contradiction``, nothing else is said.
    """
    low, high = np.array(low, np.int64), np.array(high, np.int64)
    failed, ended = _propagate_all(low, high, relations)
    nothing = np.zeros(len(low), np.bool_)
    if failed is not None:
        return Ranges(low, high, nothing, nothing, failed)
    component, is_tree = components(low < high, relations)
    exact = is_tree & ended
    settled = exact.copy()
    rest = (low < high) & ~exact
    asked = np.ones(len(low), np.bool_) if wanted is None else np.isin(np.arange(len(low)), wanted)
    width = np.broadcast_to(-1 if enough is None else enough, low.shape)
    if rest.any():
        found = Ranges(low, high, exact, settled)
        may_settle = rest & (width <= 0)
        failed = _by_flows(found, relations, component, rest, ended, asked, may_settle)
        if failed is None:
            failed, again = _propagate_all(low, high, relations)
            ended &= again
        if failed is None:
            failed = _by_programs(found, relations, rest & ~exact, most, asked, width, run)
        if failed is not None:
            return Ranges(low, high, nothing, nothing, failed)
    fixed = low == high
    return Ranges(low, high, exact | fixed, settled | exact | fixed)


def _propagate_all(low: Ints, high: Ints, relations: Relations) -> tuple[int | None, bool]:
    """Narrow bounds in place; return a relation that fails, and whether nothing more follows."""
    cell, relation = relations.by_cell
    offsets = np.searchsorted(cell, np.arange(len(low) + 1)).astype(np.int64)
    failed = _propagate(
        low, high, relations.whole, relations.parts, relations.offsets.astype(np.int64),
        relations.adds, relation, offsets, _ROUNDS * len(relations.whole),
    )  # fmt: skip
    return (None if failed < 0 else int(failed)), bool(failed != _UNFINISHED)


_UNFINISHED = -2


@kernel
def _propagate(
    low: Ints,
    high: Ints,
    whole: Ints,
    parts: Ints,
    offsets: Ints,
    adds: Flags,
    touching: Ints,
    touching_offsets: Ints,
    most: int,
) -> int:
    """Narrow bounds by one relation after another, until none narrows any."""
    n = len(whole)
    queue, waits = np.empty(n + 1, np.int64), np.ones(n, np.bool_)
    queue[:n] = np.arange(n)
    first, last = 0, n
    while first != last:
        r = queue[first]
        first = (first + 1) % (n + 1)
        waits[r] = False
        if most == 0:
            return -2
        most -= 1
        least, total, largest = np.int64(0), np.int64(0), np.int64(-(1 << 62))
        for i in range(offsets[r], offsets[r + 1]):
            least += low[parts[i]]
            total += high[parts[i]]
            largest = max(largest, low[parts[i]])
        for i in range(offsets[r] - 1, offsets[r + 1]):
            w = whole[r]
            if i < offsets[r]:
                cell = w
                new_low, new_high = least if adds[r] else largest, total
            else:
                cell = parts[i]
                new_low = low[w] - (total - high[cell])
                new_high = high[w] - (least - low[cell]) if adds[r] else high[w]
            new_low, new_high = max(new_low, low[cell]), min(new_high, high[cell])
            if new_low > new_high:
                return int(r)
            if new_low == low[cell] and new_high == high[cell]:
                continue
            if cell != w:  # sums are kept, so that each part is compared with the others
                least += new_low - low[cell]
                total += new_high - high[cell]
            low[cell], high[cell] = new_low, new_high
            for j in range(touching_offsets[cell], touching_offsets[cell + 1]):
                if not waits[touching[j]]:
                    waits[touching[j]] = True
                    queue[last] = touching[j]
                    last = (last + 1) % (n + 1)
    return -1


def components(free: Flags, relations: Relations) -> tuple[Ints, Flags]:
    """Return the component of each cell, and whether relations of its free cells form a tree."""
    relation, cell, _ = relations.incidences
    kept = free[cell]
    n_cells, n = len(free), len(relations.whole)
    ends = cell[kept], n_cells + relation[kept]
    label = joined(ends, n_cells + n)
    used = np.zeros(n_cells + n, np.bool_)
    used[np.concatenate(ends)] = True
    nodes = np.bincount(label[used], minlength=label.max(initial=-1) + 1)
    edges = np.bincount(label[ends[0]], minlength=len(nodes))
    tree = (edges < nodes) | (nodes == 0)
    return label[:n_cells], np.asarray(tree[label[:n_cells]])


def _by_flows(
    found: Ranges,
    relations: Relations,
    component: Ints,
    rest: Flags,
    ended: bool,
    asked: Flags,
    may_settle: Flags,
) -> int | None:
    """Fix the counts that are determined in networks; return a relation if none can hold."""
    low, high = found.low, found.high
    network = CountNetwork.of(low, high, relations, component, rest, without_rim=ended)
    cells = network.cells
    if not len(cells):
        return None
    flow, unmet = network.flow()
    if flow is None:
        return unmet - FIRST
    changes = network.on_cycles(flow)
    fixed = cells[~changes]
    least = low[cells]
    low[fixed] = high[fixed] = (least + flow)[~changes]
    found.settled[may_settle & network.fits[component]] = True
    edges = np.flatnonzero(changes & asked[cells])
    below, above = network.ranges(flow, edges)
    low[cells[edges]], high[cells[edges]] = least[edges] + below, least[edges] + above
    found.exact[cells[edges]] = True
    return None


def _by_programs(
    found: Ranges,
    relations: Relations,
    rest: Flags,
    most: int,
    asked: Flags,
    width: Ints,
    run: Run,
) -> int | None:
    """Find the ranges in small components; return a relation if one has no solution."""
    low, high, settled = found.low, found.high, found.settled
    free = low < high
    component, _ = components(free, relations)
    sizes = np.bincount(component[free], minlength=component.max(initial=0) + 1)
    chosen = free & (sizes[component] <= most)
    chosen &= np.isin(component, component[rest & free & (asked if asked.any() else ~settled)])
    needed = asked & ~settled if (width >= 0).any() else asked
    programs = list(_programs(chosen, component, low, high, relations))
    tasks = [partial(one.ranges, needed[cells], width[cells]) for cells, _, one in programs]
    for (cells, rows, _), solution in zip(programs, run(call, tasks), strict=True):
        if solution is None:
            return int(rows[0])
        low[cells], high[cells], solved, apart = solution
        found.exact[cells] |= solved
        settled[cells] |= solved | apart
    return None


def _programs(
    chosen: Flags, component: Ints, low: Ints, high: Ints, relations: Relations
) -> Iterator[tuple[Ints, Ints, Program]]:
    """Yield the chosen cells of each component, its relations and its program."""
    relation, cell, _ = relations.incidences
    kept = chosen[cell]
    cells_of = _grouped(np.flatnonzero(chosen), component[chosen])
    rows_of = _grouped(relation[kept], component[cell[kept]])
    for cells, several in zip(cells_of, rows_of, strict=True):
        rows = np.unique(several)
        yield cells, rows, Program.of(cells, rows, low, high, relations)


def _grouped(values: Ints, labels: Ints) -> list[Ints]:
    """Return the values of each label, in the order of labels."""
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order])) + 1
    return np.split(values[order], starts) if len(values) else []


def possible_counts(low: Ints, high: Ints, relations: Relations, near: Flags) -> Ints:
    """Return counts that are possible together.

    Parameters
    ----------
    low, high
        Smallest and largest possible count of each cell, int64, shape (cell,).
    relations
        Which counts are made of which others.
    near
        Cells whose counts are looked for, and all that these depend on, bool, shape (cell,).

    Returns
    -------
    int64, shape (cell,)
        −1 where the count of a cell was looked for and not found.

    Raises
    ------
    InputError
        If no counts are possible.
    """
    low, high = low.copy(), high.copy()
    failed, _ = _propagate_all(low, high, relations)
    free = (low < high) & near
    counts = np.where(free, -1, low)
    component, _ = components(low < high, relations)
    programs = () if failed is not None else _programs(free, component, low, high, relations)
    found = [(cells, program.possible()) for cells, _, program in programs]
    if failed is not None or any(some is None for _, some in found):
        raise InputError("relations contradict, so that nothing can be repaired")
    for cells, some in found:
        counts[cells] = some
    return counts


def supporting(low: Ints, high: Ints, relations: Relations, cell: int) -> tuple[Flags, Flags]:
    """Return which relations, and bounds of which cells, limit a count, if counts are fractions.

    Parameters
    ----------
    low, high
        Smallest and largest possible count of each cell, int64, shape (cell,).
    relations
        Which counts are made of which others.
    cell
        Number of the cell, whose bounds differ.

    Returns
    -------
    bool, shape (relation,), and bool, shape (cell,)
        No relation and no cell if no fractions fit.
    """
    free = np.flatnonzero(low < high)
    program = Program.of(free, np.arange(len(relations.whole)), low, high, relations)
    owner = np.repeat(np.arange(len(relations.whole)), np.diff(relations.offsets))
    owner = np.concatenate([np.arange(len(relations.whole)), owner[~relations.adds[owner]]])
    (least, most), cost = program.limits, np.zeros(len(free))
    equal, above = least == most, np.isfinite(least)
    sign, one_sided = np.where(above, -1, 1), np.flatnonzero(~equal)
    rows, cells = (np.zeros(n, np.bool_) for n in (len(relations.whole), len(low)))
    cells[low == high] = cells[cell] = True
    for cost[free == cell] in (1, -1):
        found = scipy.optimize.linprog(
            cost,
            (program.matrix * sign[:, None]).tocsr()[one_sided],
            np.where(above, -least, most)[one_sided],
            program.matrix[np.flatnonzero(equal)],
            most[equal],
            np.stack([program.low, program.high], axis=1),
        )
        if found.status:
            return np.zeros_like(rows), np.zeros_like(cells)
        rows[owner[one_sided[found.ineqlin.marginals != 0]]] = True
        rows[owner[equal][found.eqlin.marginals != 0]] = True
        cells[free[(found.lower.marginals != 0) | (found.upper.marginals != 0)]] = True
    return rows, cells


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """An integer program over free counts: rows of ``matrix`` times counts are within limits."""

    matrix: sparse.csr_array
    limits: tuple[NDArray[np.float64], NDArray[np.float64]]
    low: Ints
    high: Ints

    @classmethod
    def of(cls, cells: Ints, rows: Ints, low: Ints, high: Ints, relations: Relations) -> Self:
        """Return the program of some relations, over their free counts."""
        part, inside = relations.only(rows)
        row, cell, sign = part.incidences
        n, owner = len(rows), np.repeat(np.arange(len(rows)), np.diff(part.offsets))
        alone = np.flatnonzero(~part.adds[owner])  # parts that are at most the whole
        added = n + np.arange(len(alone))
        row = np.concatenate([row, added, added])
        cell = np.concatenate([cell, part.parts[alone], part.whole[owner[alone]]])
        sign = np.concatenate([sign, np.ones_like(added), -np.ones_like(added)])
        matrix = sparse.coo_array((sign, (row, cell)), (n + len(alone), len(inside))).tocsr()
        free = np.isin(inside, cells)
        known = (matrix[:, ~free] @ low[inside[~free]]).astype(np.float64)
        is_sum = np.arange(len(known)) < n
        limits = np.where(is_sum, -known, -np.inf), -known
        limits[1][:n][~part.adds] = np.inf
        return cls(matrix[:, free], limits, low[cells], high[cells])

    def fits(self, counts: Ints) -> bool:
        """Return whether all rows are within their limits, of counts of shape (…, cell)."""
        sums = counts @ self.matrix.T
        return bool(((sums >= self.limits[0]) & (sums <= self.limits[1])).all())

    def possible(self) -> Ints | None:
        """Return counts that are possible, or −1 if the time was too short; None if none are."""
        result = self._solved(np.zeros(len(self.low)))
        if result.status == _INFEASIBLE:
            return None
        counts = np.full(len(self.low), -1) if result.x is None else np.rint(result.x)
        return counts.astype(np.int64) if self.fits(counts) else np.full(len(self.low), -1)

    def apart(self, asked: Flags, width: Ints) -> Flags:
        """Return which counts have two possible values that are further apart than ``width``.

        These are found by programs in random directions; only those asked for are looked for, and
        none where ``width`` is negative.
        """
        rng, found = np.random.default_rng(0), np.zeros(len(asked), np.bool_)
        seen, n_waiting, in_vain = np.empty((0, len(asked)), np.int64), len(asked) + 1, 0
        for _ in range(_DIRECTIONS):
            waits = asked & (width >= 0) & ~found
            # Counts that are known are never apart: their ranges cost less than all directions.
            in_vain = in_vain + 1 if waits.sum() == n_waiting else 0
            n_waiting = int(waits.sum())
            if not n_waiting or in_vain == _IN_VAIN:
                break
            cost = np.where(waits, rng.uniform(-1, 1, len(asked)), 0)
            result = self._solved(cost, mip_rel_gap=0.1)
            if result.x is None:
                break
            counts = np.rint(result.x).astype(np.int64)
            if not self.fits(counts):
                continue
            seen = np.vstack([seen, counts])
            found = (width >= 0) & (np.ptp(seen, axis=0) > width)
        return np.asarray(found & asked)

    def ranges(self, asked: Flags, width: Ints) -> tuple[Ints, Ints, Flags, Flags] | None:
        """Return bounds of counts, which are exact, and which are apart; None if no counts fit.

        Bounds are narrowed of the first count, and of those that are asked for and not apart.
        """
        n, apart = len(self.low), self.apart(asked, width)
        asked = (asked & ~apart) | (np.arange(n) == 0)
        low, high, exact = self.low.copy(), self.high.copy(), asked.copy()
        seen = np.zeros((0, n), np.int64)
        for i in np.flatnonzero(asked).tolist():
            for sign, ends in ((1, low), (-1, high)):
                if len(seen) and (seen[:, i] == ends[i]).any():
                    continue
                found, best = self._solve(i, sign)
                if found is None and best is None:
                    return None
                if found is not None:
                    seen = np.vstack([seen, found])
                ends[i] = best if best is not None else ends[i]
                exact[i] &= found is not None
        return low, high, exact, apart

    def _solve(self, i: int, sign: int) -> tuple[Ints | None, int | None]:
        """Return counts with the least ``sign`` times count ``i``, and a bound of it.

        The counts are None if the time was too short, and both if no counts are possible.
        """
        cost = np.zeros(len(self.low))
        cost[i] = sign
        own = self.low[i] if sign == 1 else self.high[i]
        result = self._solved(cost, mip_rel_gap=0.0)
        if result.status == _SOLVED and result.fun != sign * own:
            # Simplified first, a few programs end at counts that are not the least (HiGHS 1.12).
            again = self._solved(cost, mip_rel_gap=0.0, presolve=False)
            if again.status != _SOLVED or again.fun < result.fun:
                result = again
        if result.status == _INFEASIBLE:
            return None, None
        if result.status == _SOLVED:
            counts = np.rint(result.x).astype(np.int64)
            return counts, self._end(i, sign * int(counts[i]), sign)
        lower = result.mip_dual_bound
        if lower is None or not np.isfinite(lower):
            return None, int(own)
        return None, self._end(i, int(np.ceil(lower - _NEARLY)), sign)

    def _end(self, i: int, least: int, sign: int) -> int:
        """Return the end of a count, of which ``sign`` times is at least this; open if it was."""
        return int(self.high[i]) if sign == -1 and -least >= _OPEN else sign * least

    def _solved(self, cost: NDArray[np.float64], **options: float) -> Any:
        # The solver does not end where some bounds are near 2^31, and needs one where costs are.
        high = np.where(cost == 0, np.inf, _OPEN)
        given = {
            "constraints": scipy.optimize.LinearConstraint(self.matrix, *self.limits),
            "bounds": scipy.optimize.Bounds(self.low, np.where(self.high < _OPEN, self.high, high)),
            "integrality": np.ones(len(cost)),
        }
        options = {"node_limit": _NODES, "time_limit": _SECONDS, **options}
        result = scipy.optimize.milp(cost, **given, options=options)
        if result.status == _INFEASIBLE:  # which is not believed of a program simplified first
            result = scipy.optimize.milp(cost, **given, options={**options, "presolve": False})
        return result


_SOLVED, _INFEASIBLE, _NEARLY = 0, 2, 1e-6
_OPEN = 1 << 29  # of what is not known, and of sums of that
