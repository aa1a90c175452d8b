"""What is known of the target: its cells, some of them, or only its ROIs (POPETS24 D.3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self

import numpy as np

from clusterscale.contracts import Ints
from clusterscale.priors.zero_knowledge.synthesis import SyntheticPopulation, draw_epochs

__all__ = ["KnownCells", "KnownPlaces", "TargetInformation", "find_haunts"]


class TargetInformation(Protocol):
    """Something that is known of where the target was."""

    @property
    def complete(self) -> bool:
        """Whether it is known of every cell if the target was there."""

    def tell(self, population: SyntheticPopulation, *, rng: np.random.Generator) -> Ints:
        """Return the flat cells where the target is taken to have been, sorted, (event,).

        ``population`` is what people are like, for what is not known.
        """

    def plus(self, other: Self) -> Self:
        """Add what is known where the target's trace is held with other users'."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownCells:
    """Flat ``cells`` where the target was, int32, sorted, shape (event,); all of them or some."""

    cells: Ints
    complete: bool

    def tell(self, population: SyntheticPopulation, *, rng: np.random.Generator) -> Ints:
        """Return the cells; nothing is drawn."""
        return self.cells

    def plus(self, other: Self) -> Self:
        """Add what is known where the target's trace is held with other users'."""
        return replace(self, cells=np.concatenate([self.cells, other.cells]))


@dataclass(frozen=True, slots=True, eq=False)
class KnownPlaces:
    """``rois`` where the target was, the most visited first, but not when.

    ``times``: ``greedy`` takes it to have been in each of them in every epoch; ``random`` shares
    the visits of an average user among them, at epochs when people move (POPETS24 D.3).
    """

    rois: Ints
    times: Literal["greedy", "random"]

    @property
    def complete(self) -> bool:
        """Never: cells are guessed."""
        return False

    def tell(self, population: SyntheticPopulation, *, rng: np.random.Generator) -> Ints:
        """Return the guessed cells."""
        rois, n_epochs = np.sort(self.rois).astype(np.int64), population.n_epochs
        if self.times == "greedy":
            cells = rois[:, None] * n_epochs + np.arange(n_epochs)
            return cells.ravel().astype(self.rois.dtype)
        each = max(1, round(population.activity.mean / max(len(rois), 1)))
        where = np.repeat(rois, each)
        cells = where * n_epochs + draw_epochs(population, where, rng=rng)
        return np.unique(cells).astype(self.rois.dtype)

    def plus(self, other: Self) -> Self:
        """Add what is known where the target's trace is held with other users'."""
        return replace(self, rois=np.concatenate([self.rois, other.rois]))


def find_haunts(trace: Ints, n_epochs: int, n_seen: int, top: int | None) -> Ints:
    """Return the ROIs of a trace, the most visited first, equals by number; ``top`` of them."""
    rois, visits = np.unique(trace // n_epochs, return_counts=True)
    rois, visits = rois[rois < n_seen], visits[rois < n_seen]
    found: Ints = rois[np.argsort(-visits, kind="stable")][:top].copy()  # no view of the others
    return found
