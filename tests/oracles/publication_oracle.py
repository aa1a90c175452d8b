"""Which counts fit a publication, by integer programming over all cells of its lattice.

Written from the description of publications alone, and shares no code with the package: places,
times and categories are the axes of a lattice; unpublished totals are cells of it, and so are the
finest cells, which perhaps no table has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

ALL = "(all)"
"""Node of an axis of categories that is their total."""

Key = tuple[str, ...]
"""Cell of a lattice: the people counted, and a node of each axis."""


@dataclass
class Axis:
    """Nodes of an axis, and of which others each is made; those without parts are the finest."""

    parts: dict[str, list[tuple[str, ...]]]
    adds: bool = True

    def __post_init__(self):
        every = {one for some in self.parts.values() for group in some for one in group}
        self.parts |= {one: [] for one in sorted(every - self.parts.keys())}

    @property
    def nodes(self) -> list[str]:
        """All nodes that have counts of their own."""
        return [one for one in self.parts if not self.adds or not self.parts[one]]

    def finest(self, node: str) -> list[str]:
        """Return the finest nodes of which one is made."""
        some = self.parts[node]
        return [leaf for one in some[0] for leaf in self.finest(one)] if some else [node]

    def spread(self, node: str) -> list[str]:
        """Return the nodes with counts of their own that add up to one."""
        return self.finest(node) if self.adds else [node]


@dataclass(frozen=True)
class Cell:
    """A published cell: where findings name it, its place in the lattice, and what it may be.

    ``threshold`` is the smallest count that is always shown, or 0; ``secondary`` is the smallest
    that may be hidden only to protect others. ``row`` has its file, and the texts of its row.
    """

    table: str
    place: str
    time: str
    key: Key
    text: str
    low: int
    high: int
    true: int
    threshold: int = 0
    secondary: int = 0
    row: tuple[str, ...] = ()

    @property
    def name(self) -> tuple[str, str, str]:
        """Name in findings."""
        return self.table, self.place, self.time

    @property
    def is_open(self) -> bool:
        """Whether its own value leaves more than one count."""
        return self.low != self.high


@dataclass
class Lattice:
    """Axes, cells, and what is declared of people and of equal cells.

    ``people`` has, for each whole, the groups of people that are its parts; ``equal`` has pairs of
    keys whose counts are equal.
    """

    axes: list[Axis]
    cells: list[Cell]
    people: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    equal: list[tuple[Key, Key]] = field(default_factory=list)
    most: int = 5000

    def __post_init__(self):
        self._index: dict[Key, int] = {}

    def sums(self, key: Key) -> list[int]:
        """Return the variables that add up to a cell."""
        people, *nodes = key
        spread = [axis.spread(node) for axis, node in zip(self.axes, nodes, strict=True)]
        return [self._variable((people, *one)) for one in product(*spread)]

    def _variable(self, key: Key) -> int:
        return self._index.setdefault(key, len(self._index))

    def _everyone(self) -> list[str]:
        named = {cell.key[0] for cell in self.cells}
        return sorted(named.union(*({whole, *parts} for whole, parts in self.people)))

    def rows(self) -> Iterator[tuple[dict[int, int], float, float]]:
        """Yield coefficients of variables, and the least and the largest value of their sum."""
        for cell in self.cells:
            yield _count(self.sums(cell.key)), cell.low, cell.high
        for one, two in self.equal:
            yield _minus(self.sums(one), self.sums(two)), 0, 0
        for place, axis in enumerate(self.axes):
            if not axis.adds:
                yield from self._unions(place, axis)
        own = [axis.nodes for axis in self.axes]
        for whole, parts in self.people:
            for one in product(*own):
                some = [self._variable((part, *one)) for part in parts]
                yield _minus([self._variable((whole, *one))], some), 0, 0

    def _unions(self, place: int, axis: Axis) -> Iterator[tuple[dict[int, int], float, float]]:
        """Yield that a union is at least its largest part, and at most their sum.

        It is at least what a union of some of its parts is.
        """
        others = [list(one.parts) for one in self.axes]
        others[place] = [""]
        wholes = [(node, some) for node, groups in axis.parts.items() for some in groups]
        for people, one in product(self._everyone(), product(*others)):
            for node, some in wholes:
                keys = [(people, *one[:place], each, *one[place + 1 :]) for each in (node, *some)]
                union, *each = [self.sums(key) for key in keys]
                yield _minus([i for part in each for i in part], union), 0, np.inf
                yield from ((_minus(union, part), 0, np.inf) for part in each)
            for (node, some), (other, every) in product(wholes, wholes):
                if node != other and {*some} <= {*every}:
                    keys = [(people, *one[:place], x, *one[place + 1 :]) for x in (other, node)]
                    yield _minus(*map(self.sums, keys)), 0, np.inf


def _count(columns: Sequence[int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for column in columns:
        found[column] = found.get(column, 0) + 1
    return found


def _minus(columns: Sequence[int], less: Sequence[int]) -> dict[int, int]:
    found = _count(columns)
    for column in less:
        found[column] = found.get(column, 0) - 1
    return found


class Oracle:
    """All counts that fit a lattice."""

    def __init__(self, lattice: Lattice) -> None:
        rows = list(lattice.rows())
        entries = [(i, j, v) for i, (row, _, _) in enumerate(rows) for j, v in row.items()]
        i, j, v = (np.array(column) for column in zip(*entries, strict=True))
        self.lattice, self._n = lattice, len(lattice._index)
        self._matrix = coo_array((v, (i, j)), (len(rows), self._n)).tocsr()
        self._low, self._high = (np.array([row[end] for row in rows], float) for end in (1, 2))
        self._seen = np.empty((0, self._n), int)

    def solve(self, objective: Mapping[int, int]) -> np.ndarray | None:
        """Return counts that make an objective least, or None if no counts fit."""
        costs = np.zeros(self._n)
        for column, weight in objective.items():
            costs[column] = weight
        # Simplified first, a few programs end at counts that are not the least (HiGHS 1.12).
        some = [
            milp(
                costs,
                integrality=np.ones(self._n),
                bounds=Bounds(0, self.lattice.most),
                constraints=LinearConstraint(self._matrix, self._low, self._high),
                options={"mip_rel_gap": 0, "presolve": simplified},
            )
            for simplified in (True, False)
        ]
        found = min(some, key=lambda one: (one.status, np.inf if one.x is None else one.fun))
        if found.status == 2:
            return None
        if found.status != 0:
            raise RuntimeError(found.message)
        counts = np.rint(found.x).astype(int)
        sums = self._matrix @ counts
        if (sums < self._low).any() or (sums > self._high).any():
            raise RuntimeError("the solver returned counts that do not fit")
        self._seen = np.vstack([self._seen, counts])
        return counts

    @property
    def is_possible(self) -> bool:
        """Whether any counts fit."""
        return len(self._seen) > 0 or self.solve({}) is not None

    def range_of(self, columns: Sequence[int], low: int = 0, high: int = 10**9) -> tuple[int, int]:
        """Return the least and the largest sum of variables, which is within known ends."""
        found = []
        for sign, end in ((1, low), (-1, high)):
            seen = self._seen[:, columns].sum(axis=1)
            if end not in seen:
                counts = self.solve({j: sign * v for j, v in _count(columns).items()})
                assert counts is not None
                seen = counts[columns].sum(keepdims=True)
                end = int(seen[0])
            found.append(end)
        return found[0], found[1]

    def ranges(self) -> dict[tuple[str, str, str], tuple[int, int]]:
        """Return the range of each cell whose own value leaves several counts."""
        return {
            cell.name: self.range_of(self.lattice.sums(cell.key), cell.low, cell.high)
            for cell in self.lattice.cells
            if cell.is_open
        }
