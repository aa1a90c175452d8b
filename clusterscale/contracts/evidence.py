"""What each cell of a release says for or against a target, whoever that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts.release import CellLaw, Noise
from clusterscale.contracts.traces import Counts, Ints, Labels, Scores, Values

__all__ = ["CellScore", "CellwiseAttack", "Reference"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """What an adversary expects of every cell before it thinks of a target.

    Attributes
    ----------
    mean_trace
        float64, shape (cell,): how often a user of the reference is in a cell, from 0 to 1.
    n_users
        Users in that reference.
    group_size
        Members in each group.
    noise
        The law of what is added to counts, None where it is not known.
    outside, spread
        float64, shape (cell,): mean of what is published without the target, and its variance
        over groups, as found where the law is not known; else None.
    law
        How each count is published, None where that is not known of a count by itself.
    """

    mean_trace: Floats
    n_users: int
    group_size: int
    noise: Noise | None
    outside: Floats | None = None
    spread: Floats | None = None
    law: CellLaw | None = None


class CellScore(Protocol):
    """How much one published value speaks for *inside*."""

    def cell_evidence(self, values: Values | Counts, cells: Ints, *, here: bool) -> Values:
        """Return the evidence of values, shape (group, cell), of the flat ``cells`` (cell,).

        ``here`` says whether the target was in these cells. A score is the sum of the evidence of
        all cells.
        """

    def total(self, values: Values | Counts, cells: Ints, here: Labels) -> Scores:
        """Return the evidence of all of ``cells`` together, shape (group,).

        ``here``, shape (cell,), says in which of them the target was.
        """


@runtime_checkable
class CellwiseAttack(Protocol):
    """An attack whose score is a sum over cells of what each says by itself.

    Of two targets only the terms of their own cells differ, so one pass over everyone's events
    scores everyone.
    """

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def id(self) -> str:
        """Stable id: keys random streams, journals and coordinates."""

    @property
    def label(self) -> str:
        """Title, or name with its settings: for people only."""

    def rule(self, reference: Reference) -> CellScore:
        """Return what the attack makes of each cell."""
