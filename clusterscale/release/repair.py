"""Which further cells to hide, so that published sums do not give hidden counts away.

A count is protected if two of its values are possible that are far enough apart. An integer program
over the cells near some counts finds such values for each, and the published cells of least cost
that are hidden then. Where cells are few, it is one program, and its cost the least; else there is
one for a few counts after another, and cells that are not needed in the end are shown again.

In large tables whose sums are a network, cells are hidden one cycle after another: those of the
cheapest cycle through a count that is known, along which it then can change (Castro 2007).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import scipy
from scipy import sparse

from clusterscale.contracts import Ints, Values
from clusterscale.errors import InputError
from clusterscale.release.intervals import Program, components, possible_counts
from clusterscale.release.network import CountNetwork
from clusterscale.release.relations import Flags, Relations

_MANY = 1_000  # counts above which cells are hidden along cycles
_MOST_VALUES = 600  # of the counts of one program
_NEAR, _FAR = 200, 1_000  # cells of one program, and where these do not suffice
_NODES = 500  # of the search of one program
_REACH = 8  # change of the count of a cell that is hidden, as a multiple of what others need
_LEAST_COST = 1e-3  # of the least positive cost, so that cells without value are not hidden at will


@dataclass(frozen=True, slots=True, eq=False)
class Repair:
    """Further cells to hide.

    Attributes
    ----------
    hide
        These cells, increasing, int64, shape (hidden,).
    protects
        For each of them a cell that would follow if this one alone were shown, int64, shape
        (hidden,).
    left
        Cells that follow, or may follow, whatever is hidden, increasing, int64, shape (left,).
    """

    hide: Ints
    protects: Ints
    left: Ints


@dataclass(frozen=True, slots=True, eq=False)
class RepairProblem:
    """What is published, and what may be hidden.

    Attributes
    ----------
    low, high
        Smallest and largest possible count of each cell, int64, shape (cell,); equal if published.
    relations
        Which counts are made of which others.
    protect
        Cells whose counts must not follow, bool, shape (cell,).
    hidden_low, hidden_high
        Bounds of each cell if it is hidden, int64, shape (cell,): what its reader knows of it then.
        A reader who can tell these cells from those below a threshold knows that they are not.
    cost
        What hiding each cell costs, such as 1 or its count, float64, shape (cell,).
    may_hide
        Whether each cell may be hidden, bool, shape (cell,).
    width
        A count is known if its bounds are at most this apart, one number or int64, shape (cell,);
        0: if it is determined.
    """

    low: Ints
    high: Ints
    relations: Relations
    protect: Flags
    hidden_low: Ints
    hidden_high: Ints
    cost: Values
    may_hide: Flags
    width: Ints | int = 0

    def bounds(self, hidden: Flags, cells: Ints | slice = slice(None)) -> tuple[Ints, Ints]:
        """Return the bounds of some cells if some more are hidden, all of shape (cell,)."""
        low, high = self.low[cells], self.high[cells]
        return (
            np.where(hidden, np.minimum(low, self.hidden_low[cells]), low),
            np.where(hidden, np.maximum(high, self.hidden_high[cells]), high),
        )

    @property
    def widths(self) -> Ints:
        """``width`` of each cell, int64, shape (cell,)."""
        return np.broadcast_to(self.width, self.low.shape)

    @property
    def prices(self) -> Values:
        """Cost of hiding each cell, which is positive, float64, shape (cell,)."""
        least = _LEAST_COST * self.cost[self.cost > 0].min(initial=1)
        return np.asarray(np.maximum(self.cost, least))

    def hide_along_cycles(self) -> tuple[Repair, Flags]:
        """Return the repair of those sums that are networks, and which cells these have."""
        chosen = (self.low < self.high) | self.may_hide
        component, _ = components(chosen, self.relations)
        network = CountNetwork.of(self.low, self.high, self.relations, component, chosen)
        flow, _ = network.flow()
        if flow is None:
            raise InputError("relations contradict, so that nothing can be repaired")
        cells, (low, high) = network.cells, self.bounds(self.may_hide)
        network = replace(network, room=(high - low)[cells])
        edges = np.flatnonzero(self.protect[cells])
        hidden_for, fails = network.hide(
            flow + (self.low - low)[cells],
            np.where(self.may_hide, self.prices, 0)[cells],
            edges,
            np.minimum(self.widths + 1, high - low)[cells[edges]],
        )
        new = hidden_for >= 0
        done = Repair(cells[new], cells[edges[hidden_for[new]]], cells[edges[fails]])
        return done, network.fits[component]


@dataclass(slots=True, eq=False)
class _Search:
    """Cells that are hidden, so that counts have two possible values that are far enough apart.

    ``counts`` are possible if nothing more is hidden. ``protects`` is the count for which a cell is
    hidden, −1 for none. For each protected count, ``needs`` has the cells that must be hidden so
    that it can have its two values; ``users`` are the counts that need a cell, or once did.
    """

    problem: RepairProblem
    counts: Ints
    protects: Ints
    needs: dict[int, frozenset[int]] = field(default_factory=dict)
    users: dict[int, list[int]] = field(default_factory=dict)

    def hide(self, targets: Ints) -> list[int]:
        """Hide cells to protect counts; return those for which no two values are found."""
        waiting, left = dict.fromkeys(targets.tolist()), list[int]()
        movable, most = (self.problem.low < self.problem.high) | self.problem.may_hide, _NEAR
        while waiting:
            first = next(iter(waiting))
            cells = self._near(first, movable, most)
            others = [cell for cell in cells.tolist() if cell in waiting and cell != first]
            some = [first, *others][: max(1, _MOST_VALUES // (2 * len(cells)))]
            new, fail = self._widen(cells, some, self.problem.may_hide)
            most = _FAR if fail and len(cells) == most == _NEAR else _NEAR
            if most == _NEAR:
                self.protects[new] = first
                left += fail
                for cell in (first, *others):
                    if cell in self.needs or cell in fail:
                        del waiting[cell]
        return left

    def show_again(self) -> None:
        """Show cells that are not needed, the most expensive first."""
        problem, hidden = self.problem, np.flatnonzero(self.protects >= 0)
        for cell in hidden[np.argsort(-problem.cost[hidden], kind="stable")].tolist():
            first, self.protects[cell] = self.protects[cell], -1
            movable = (problem.low < problem.high) | (self.protects >= 0)
            users = {one for one in self.users.get(cell, ()) if cell in self.needs[one]}
            before = {one: self.needs.pop(one) for one in users}
            for one in sorted(users, key=lambda one: (one != first, one)):
                if one not in self.needs:
                    near = self._near(one, movable, _NEAR)
                    if self._widen(near, [one], movable & False)[1]:
                        self.protects[cell] = one
                        self.needs |= before
                        break

    def _near(self, cell: int, movable: Flags, most: int) -> Ints:
        """Return a cell and the nearest ones whose counts can change, increasing."""
        cells, relations = np.array([cell]), self.problem.relations
        while len(cells) < most:
            wider = relations.only(relations.of_cells(cells))[1]
            new = np.setdiff1d(wider[movable[wider]], cells)
            if not len(new):
                break
            cells = np.union1d(cells, new[: most - len(cells)])
        return cells

    def _widen(self, cells: Ints, targets: list[int], may: Flags) -> tuple[Ints, list[int]]:
        """Find two values of each target, for which cells of least cost are hidden.

        Return these, or none if there are not two values of each, and the targets of which not.
        """
        problem, n, n_values = self.problem, len(cells), 2 * len(targets)
        need, counts = problem.widths[targets] + 1, self.counts[cells]
        reach = _REACH * int(need.max())
        low, high = problem.bounds(self.protects[cells] >= 0, cells)
        low, high = np.maximum(low, counts - reach), np.minimum(high, counts + reach)
        room = np.where(may[cells] & (self.protects[cells] < 0), reach, 0)
        below = np.clip(low - problem.hidden_low[cells], 0, room)
        above = np.clip(problem.hidden_high[cells] - high, 0, room)
        extra = np.flatnonzero(below + above > 0)
        rows = problem.relations.of_cells(cells)
        program = Program.of(cells, rows, self.counts, self.counts, problem.relations)
        ends = sparse.eye_array(n).tocsr()[extra]
        hides = sparse.vstack([
            sparse.coo_array((program.matrix.shape[0], len(extra))),
            *(sparse.diags_array(one[extra], dtype=np.float64) for one in (below, -above)),
        ])  # fmt: skip
        column = n * np.arange(n_values) + np.repeat(np.searchsorted(cells, targets), 2)
        apart = np.tile([1, -1], len(targets)), (np.arange(n_values) // 2, column)
        each, free = sparse.eye_array(n_values), np.full(len(extra), np.inf)
        least = np.tile(np.r_[program.limits[0], low[extra], -free], n_values)
        most = np.tile(np.r_[program.limits[1], free, high[extra]], n_values)
        n_choices, price = len(extra) + len(targets), problem.cost[cells]
        result = scipy.optimize.milp(
            np.r_[np.zeros(n * n_values), price[extra], np.full(len(targets), 1 + price.sum())],
            constraints=scipy.optimize.LinearConstraint(
                sparse.block_array([
                    [sparse.kron(each, sparse.vstack([program.matrix, ends, ends])),
                     sparse.kron(np.ones((n_values, 1)), hides), None],
                    [sparse.coo_array(apart, (len(targets), n * n_values)), None,
                     sparse.diags_array(need, dtype=np.float64)],
                ]),
                np.r_[least, need],
                np.r_[most, np.full(len(targets), np.inf)],
            ),
            bounds=scipy.optimize.Bounds(
                np.r_[np.tile(low - below, n_values), np.zeros(n_choices)],
                np.r_[np.tile(high + above, n_values), np.ones(n_choices)],
            ),
            integrality=np.ones(n * n_values + n_choices),
            options={"node_limit": _NODES, "mip_rel_gap": 0.0},
        )  # fmt: skip
        if result.x is None:
            return extra[:0], targets[:1]
        found = np.rint(result.x).astype(np.int64)
        values = found[: n * n_values].reshape(n_values, n)
        new, fail = np.split(found[n * n_values :] > 0, [len(extra)])
        within = ((values >= low) & (values <= high)).all(0)
        within[extra[new]] = True
        if fail.any() or not (within.all() and program.fits(values)):
            return extra[:0], [targets[i] for i in np.flatnonzero(fail)] or targets[:1]
        self._record(cells, values)
        return cells[extra[new]], []

    def _record(self, cells: Ints, values: Ints) -> None:
        """Record which protected counts have two values that are far enough apart."""
        problem = self.problem
        outside = (values < problem.low[cells]) | (values > problem.high[cells])
        for i in range(0, len(values), 2):
            apart = np.abs(values[i + 1] - values[i]) > problem.widths[cells]
            needed = frozenset(cells[outside[i] | outside[i + 1]].tolist())
            for target in cells[apart & problem.protect[cells]].tolist():
                if target not in self.needs:
                    self.needs[target] = needed
                    for cell in needed:
                        self.users.setdefault(cell, []).append(target)


def find_repair(problem: RepairProblem) -> Repair:
    """Return which further cells to hide, so that no protected count is known.

    Parameters
    ----------
    problem
        What is published, and what may be hidden.

    Returns
    -------
    Repair
        Counts for which no two values were found are among those left.

    Raises
    ------
    InputError
        If the relations contradict.
    """
    done = Repair(*np.empty((3, 0), np.int64))
    changes = (problem.low < problem.high) | problem.may_hide
    if np.count_nonzero(changes) > _MANY:
        done, in_networks = problem.hide_along_cycles()
        problem = replace(problem, protect=problem.protect & ~in_networks)
    component, _ = components(changes, problem.relations)
    near = np.isin(component, component[problem.protect])
    counts = possible_counts(problem.low, problem.high, problem.relations, near)
    unknown = problem.protect & np.isin(component, component[counts < 0])
    prices = replace(problem, cost=problem.prices)
    search = _Search(prices, counts, np.full(len(changes), -1))
    fail = search.hide(np.flatnonzero(problem.protect & ~unknown))
    search.show_again()
    hide = np.flatnonzero(search.protects >= 0)
    left = np.union1d(done.left, np.append(np.flatnonzero(unknown), fail)).astype(np.int64)
    protects = np.append(done.protects, search.protects[hide])
    hide = np.append(done.hide, hide)
    order = np.argsort(hide)
    return Repair(hide[order], protects[order], left)
