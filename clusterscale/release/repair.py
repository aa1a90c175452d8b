"""Which further cells to hide, so that published sums do not give hidden counts away.

Each count that follows has reasons (:mod:`~clusterscale.release.reasons`): of the published cells
that it follows from, one must be hidden. The cells that cost least and meet all reasons found so
far are hidden, the engine looks for counts that still follow, and their reasons are added, until
none does. Where this takes many rounds, cells that were chosen stay hidden, so that it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from scipy import sparse

from clusterscale.contracts import Ints, Values
from clusterscale.errors import InputError
from clusterscale.release.intervals import MOST_CELLS, Ranges, Relations, bound_counts
from clusterscale.release.network import Flags
from clusterscale.release.reasons import also_narrowed, chain

_FREE_ROUNDS = 40  # after which cells that were chosen stay hidden
_NODES = 2_000  # of the search for the cheapest cells of one round
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
    margin
        A count is known if its bounds are at most twice this apart; 0: if it is determined.
    most
        Counts of a component whose ranges are found by integer programs.
    """

    low: Ints
    high: Ints
    relations: Relations
    protect: Flags
    hidden_low: Ints
    hidden_high: Ints
    cost: Values
    may_hide: Flags
    margin: int = 0
    most: int = MOST_CELLS

    def bounds(self, hidden: Flags) -> tuple[Ints, Ints]:
        """Return the bounds of each cell if some more are hidden."""
        return (
            np.where(hidden, np.minimum(self.low, self.hidden_low), self.low),
            np.where(hidden, np.maximum(self.high, self.hidden_high), self.high),
        )

    def known(self, hidden: Flags) -> tuple[Flags, Flags]:
        """Return which cells are known if some are hidden, and which of them may be, undecided."""
        low, high = self.bounds(hidden)
        found = bound_counts(low, high, self.relations, most=0)
        undecided = self._undecided(found)
        if undecided.any():
            wanted = np.flatnonzero(undecided)
            found = bound_counts(low, high, self.relations, most=self.most, wanted=wanted)
            undecided = self._undecided(found)
        if found.contradiction is not None:
            raise InputError("relations contradict, so that nothing can be repaired")
        is_known = self.protect & (found.high - found.low <= 2 * self.margin)
        return is_known | undecided, undecided & ~is_known

    def _undecided(self, found: Ranges) -> Flags:
        sure = found.exact if self.margin else found.settled
        return self.protect & ~sure & (found.high - found.low > 2 * self.margin)

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
            if undecided[cell]:  # as if it followed from each of its relations
                cells = self.relations.only(self.relations.of_cells(np.array([cell])))[1]
            else:
                found = chain(low, high, self.relations, cell, width=2 * self.margin)
                others = also_narrowed(low, high, self.relations, found, 2 * self.margin)
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
        if n_rounds <= _FREE_ROUNDS:
            hidden[:] = False
            new = needed
        hidden[_cheapest(new, problem.cost)] = True
    return Repair(*_justified(problem, hidden, left, needed), np.flatnonzero(left))


def _cheapest(needed: Sequence[Needed], cost: Values) -> Ints:
    """Return cells of least cost, of which each reason has one."""
    if not needed:
        return np.empty(0, np.int64)
    row, flat = _entries(needed)
    cells, column = np.unique(flat, return_inverse=True)
    matrix = sparse.coo_array((np.ones(len(row)), (row, column))).tocsr()
    price = cost[cells]
    price = np.maximum(price, _LEAST_COST * price[price > 0].min(initial=1))
    result = scipy.optimize.milp(
        price,
        constraints=scipy.optimize.LinearConstraint(matrix, 1, np.inf),
        bounds=scipy.optimize.Bounds(0, 1),
        integrality=np.ones(len(price)),
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
        protects[flat[alone]] = np.array([cell for cell, _ in needed])[row[alone]]
    rest = np.flatnonzero(hidden & (protects < 0))
    for cell in rest[np.argsort(-problem.cost[rest], kind="stable")].tolist():
        hidden[cell] = False
        known = problem.known(hidden)[0] & ~left
        if known.any():
            hidden[cell] = True
            protects[cell] = known.argmax()
    hide = np.flatnonzero(hidden)
    return hide, protects[hide]
