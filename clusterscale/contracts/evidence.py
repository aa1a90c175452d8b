"""Evidence that each cell of a release gives for or against any target being inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.component import Named
from clusterscale.contracts.release import CellLaw, Noise
from clusterscale.contracts.traces import Counts, Ints, Labels, Scores, Values

__all__ = ["CellScore", "CellwiseAttack", "Reference"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What an adversary expects of every cell, independent of the target.

    Attributes
    ----------
    mean_trace
        float64, shape (cell,): how often a user of the reference is in a cell, 0 to 1.
    n_users
        Number of users in the reference.
    group_size
        Members in each group.
    noise
        Distribution of the noise added to counts; None if unknown.
    outside, spread
        float64, shape (cell,): mean and variance, over groups without the target, of the
        published values, estimated if the law is unknown; else None.
    law
        Output distribution of each count; None if unknown or not independent of other counts.
    weights
        Weight of the target and mean weight of the others, for published sums of weights.
    """

    mean_trace: Floats
    n_users: int
    group_size: int
    noise: Noise | None
    outside: Floats | None = None
    spread: Floats | None = None
    law: CellLaw | None = None
    weights: tuple[float, float] = (1.0, 1.0)


class CellScore(Protocol):
    """Score of one published value; higher speaks for *inside*."""

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the evidence of ``values``, shape (group, cell), in the flat ``cells``, (cell,).

        ``here`` says whether the target was in these cells. A group's score is the sum of the
        evidence of all cells.
        """

    def total(self, values: Values | Counts, cells: Ints, here: Labels) -> Scores:
        """Return the total evidence of all ``cells``, shape (group,).

        ``here``, shape (cell,), says in which of them the target was.
        """


@runtime_checkable
class CellwiseAttack(Named, Protocol):
    """An attack whose score is a sum of independent terms, one per cell.

    The scores of two targets differ only in the terms of their own cells, so one pass over all
    events scores all users.
    """

    def cell_score(self, reference: Reference) -> CellScore:
        """Return the attack's score of each cell."""
