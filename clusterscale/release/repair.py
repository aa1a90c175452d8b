"""Which further cells to hide, so that published sums do not give hidden counts away.

Each count that follows has reasons (:mod:`~clusterscale.release.reasons`): of the published cells
that it follows from, one must be hidden. The cells that cost least and meet all reasons found so
far are hidden, the engine looks for counts that still follow, and their reasons are added, until
none does. Where this takes many rounds, cells that were chosen stay hidden, so that it ends.

In large tables whose sums are a network, cells are hidden one cycle after another: those of the
cheapest cycle through a count that is known, along which it then can change (Castro 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy
from scipy import sparse

from clusterscale.contracts import Ints, Values
from clusterscale.errors import InputError
from clusterscale.release.intervals import MOST_CELLS, Ranges, bound_counts, components
from clusterscale.release.network import CountNetwork
from clusterscale.release.reasons import also_narrowed, chain
from clusterscale.release.relations import Flags, Relations

_FREE_ROUNDS = 40  # after which cells that were chosen stay hidden
_NODES = 2_000  # of the search for the cheapest cells of one round
_MANY = 1_000  # counts above which cells are hidden along cycles
_MOST_ASKED = 10_000  # cells for which programs decide whether they are known
_MOST_EXACT = 500  # cells to protect, or reasons, for which the cheapest choice is looked for
_LEAST_COST = 1e-3  # of the least positive cost, so that cells without value are not hidden at will

Needed = tuple[int, Ints]  # a cell, and cells of which one must be hidden for it


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
    most
        Counts of a component whose ranges are found by integer programs.
    greedy
        Whether less is tried to hide few cells.
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
    most: int = MOST_CELLS
    greedy: bool = False

    def bounds(self, hidden: Flags) -> tuple[Ints, Ints]:
        """Return the bounds of each cell if some more are hidden."""
        return (
            np.where(hidden, np.minimum(self.low, self.hidden_low), self.low),
            np.where(hidden, np.maximum(self.high, self.hidden_high), self.high),
        )

    @property
    def widths(self) -> Ints:
        """``width`` of each cell, int64, shape (cell,)."""
        return np.broadcast_to(self.width, self.low.shape).astype(np.int64)

    @property
    def prices(self) -> Values:
        """Cost of hiding each cell, which is positive, float64, shape (cell,)."""
        least = _LEAST_COST * self.cost[self.cost > 0].min(initial=1)
        return np.asarray(np.maximum(self.cost, least))

    def known(self, hidden: Flags) -> tuple[Flags, Flags]:
        """Return which cells are known if some are hidden, and which of them may be, undecided."""
        low, high = self.bounds(hidden)
        nothing = np.empty(0, np.int64)
        find = partial(bound_counts, low, high, self.relations, enough=self.widths)
        found = find(most=0, wanted=nothing)
        undecided = self._undecided(found)
        if undecided.any():
            wanted = np.flatnonzero(undecided)
            found = find(most=self.most if len(wanted) <= _MOST_ASKED else 0, wanted=wanted)
            undecided = self._undecided(found)
        if found.contradiction is not None:
            raise InputError("relations contradict, so that nothing can be repaired")
        is_known = self.protect & (found.high - found.low <= self.widths)
        return is_known | undecided, undecided & ~is_known

    def _undecided(self, found: Ranges) -> Flags:
        wide = found.high - found.low > self.widths
        return np.asarray(self.protect & ~found.settled & wide)

    def hide_along_cycles(self) -> tuple[Repair, Flags]:
        """Return the repair of those sums that are networks, and which cells these have."""
        chosen = (self.low < self.high) | self.may_hide
        component, _ = components(chosen, self.relations)
        counts = CountNetwork.of(self.low, self.high, self.relations, component, chosen)
        flow, _ = counts.network.flow(counts.supply)
        if flow is None:
            raise InputError("relations contradict, so that nothing can be repaired")
        cells, (low, high) = counts.cells, self.bounds(self.may_hide)
        network = replace(counts.network, room=(high - low)[cells])
        edges = np.flatnonzero(self.protect[cells])
        hidden_for, fails = network.hide(
            flow + (self.low - low)[cells],
            np.where(self.may_hide, self.prices, 0)[cells],
            edges,
            np.minimum(self.widths + 1, high - low)[cells[edges]],
        )
        new = hidden_for >= 0
        done = Repair(cells[new], cells[edges[hidden_for[new]]], cells[edges[fails]])
        return done, counts.fits[component]

    def reasons(self, known: Flags, undecided: Flags, hidden: Flags) -> list[Needed]:
        """Return published cells that known ones follow from, of each of which one must be hidden.

        A cell without reasons of its own follows from those of another cell.
        """
        low, high = self.bounds(hidden)
        wider = (self.hidden_low < self.low) | (self.hidden_high > self.high)
        may_help = self.may_hide & wider & ~hidden
        waiting, needed = known.copy(), list[Needed]()
        for cell in np.flatnonzero(known).tolist():
            if not waiting[cell]:
                continue
            if undecided[cell] or self.greedy:  # as if it followed from all relations near it
                cells, before = np.array([cell]), 0
                while before < len(cells) and not may_help[cells].any():
                    before = len(cells)
                    cells = self.relations.only(self.relations.of_cells(cells))[1]
            else:
                found = chain(low, high, self.relations, cell, width=int(self.widths[cell]))
                others = also_narrowed(low, high, self.relations, found, self.widths)
                cells, waiting[others] = found.cells, False
            needed.append((cell, cells[may_help[cells]]))
        return needed


def find_repair(problem: RepairProblem) -> Repair:
    """Return which further cells to hide, so that no protected count is known.

    Parameters
    ----------
    problem
        What is published, and what may be hidden.

    Returns
    -------
    Repair
        What the engine cannot decide is repaired as if it were known.

    Raises
    ------
    InputError
        If the relations contradict.
    """
    done = Repair(*np.empty((3, 0), np.int64))
    if np.count_nonzero((problem.low < problem.high) | problem.may_hide) > _MANY:
        done, in_networks = problem.hide_along_cycles()
        rest = problem.protect & ~in_networks
        greedy = int(np.count_nonzero(rest)) > _MOST_EXACT
        problem = replace(problem, protect=rest, greedy=greedy)
    hidden, left = np.zeros(len(problem.low), np.bool_), np.zeros(len(problem.low), np.bool_)
    needed = list[Needed]()
    n_rounds = 0
    while True:
        known, undecided = problem.known(hidden)
        known &= ~left
        if not known.any():
            break
        new = problem.reasons(known, undecided, hidden)
        left[[cell for cell, some in new if not len(some)]] = True
        new = [one for one in new if len(one[1])]
        needed += new
        n_rounds += 1
        if n_rounds <= _FREE_ROUNDS and not problem.greedy:
            hidden[:] = False
            new = needed
        hidden[_cheapest(new, problem.prices)] = True
    hide, protects = _justified(problem, hidden, left, needed)
    hide, protects = np.append(done.hide, hide), np.append(done.protects, protects)
    order = np.argsort(hide)
    return Repair(hide[order], protects[order], np.union1d(done.left, np.flatnonzero(left)))


def _cheapest(needed: Sequence[Needed], cost: Values) -> Ints:
    """Return cells of least cost, of which each reason has one."""
    if not needed:
        return np.empty(0, np.int64)
    if len(needed) > _MOST_EXACT:
        return np.unique([some[cost[some].argmin()] for _, some in needed])
    row, flat = _entries(needed)
    cells, column = np.unique(flat, return_inverse=True)
    matrix = sparse.coo_array((np.ones(len(row)), (row, column))).tocsr()
    result = scipy.optimize.milp(
        cost[cells],
        constraints=scipy.optimize.LinearConstraint(matrix, 1, np.inf),
        bounds=scipy.optimize.Bounds(0, 1),
        integrality=np.ones(len(cells)),
        options={"node_limit": _NODES, "mip_rel_gap": 0.0},
    )
    if result.x is None:
        return np.unique([some[cost[some].argmin()] for _, some in needed])
    return np.asarray(cells[result.x > 0.5])


def _entries(needed: Sequence[Needed]) -> tuple[Ints, Ints]:
    """Return the number of each reason and its cells, both of shape (entry,)."""
    sizes = [len(some) for _, some in needed]
    return np.repeat(np.arange(len(needed)), sizes), np.concatenate([some for _, some in needed])


def _justified(
    problem: RepairProblem, hidden: Flags, left: Flags, needed: Sequence[Needed]
) -> tuple[Ints, Ints]:
    """Return the hidden cells without those that protect nothing, and a cell that each protects."""
    protects = np.full(len(hidden), -1)
    if needed:
        row, flat = _entries(needed)
        alone = hidden[flat] & (np.bincount(row[hidden[flat]], minlength=len(needed)) == 1)[row]
        first = np.array([cell for cell, _ in needed])
        protects[flat[alone]] = first[row[alone]]
    rest = np.flatnonzero(hidden & (protects < 0))
    if needed and problem.greedy:
        protects[flat] = np.where(protects[flat] < 0, first[row], protects[flat])
        rest = rest[:0]
    for cell in rest[np.argsort(-problem.cost[rest], kind="stable")].tolist():
        hidden[cell] = False
        known = problem.known(hidden)[0] & ~left
        if known.any():
            hidden[cell] = True
            protects[cell] = known.argmax()
    hide = np.flatnonzero(hidden)
    return hide, protects[hide]
