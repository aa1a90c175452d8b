"""What an adversary knows of the target, and the cells that it assumes from that."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeVar

import numpy as np
from pydantic import model_validator

from clusterscale.contracts import Ints, Prior, Traces
from clusterscale.groups import subsample_trace
from clusterscale.priors.zero_knowledge.synthesis import SyntheticPopulation, draw_epochs
from clusterscale.validation_messages import plural

Knows = Literal["trace", "rois"]
Times = Literal["greedy", "random"]


class TargetPrior(Prior):
    """An adversary who knows the target's trace, or some of it, before it sees challenges."""

    gives_whereabouts: ClassVar[bool] = True
    adds_challenges: ClassVar[bool] = True

    if TYPE_CHECKING:  # each prior has these fields, in an order of its own
        challenges: int
        knows: Knows
        known_fraction: float
        top_rois: int | None
        times: Times

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.knows == "trace" and self.top_rois is not None:
            raise ValueError("top_rois needs an adversary who knows only ROIs: set knows to rois")
        if self.knows == "rois" and self.known_fraction < 1:
            raise ValueError("known_fraction is a share of the trace, but only ROIs are known")
        return self

    @property
    def n_challenges(self) -> int:
        """The field ``challenges``."""
        return self.challenges


def name_places(top_rois: int | None) -> str:
    """Return the known places in words."""
    places = "places" if top_rois is None else plural(top_rois, "most visited place")
    return f"the target’s {places}"


@dataclass(frozen=True, slots=True, eq=False)
class KnownCells:
    """``where`` the target was: flat cells, int32, sorted, shape (event,); all of them or some."""

    where: Ints
    complete: bool

    def assume_cells(self, population: SyntheticPopulation, *, rng: np.random.Generator) -> Ints:
        """Return the cells; nothing is drawn."""
        return self.where


@dataclass(frozen=True, slots=True, eq=False)
class KnownPlaces:
    """``where`` the target was: ROIs, the most visited first, without times.

    ``times``: ``greedy`` assumes that it was in each of them in every epoch; ``random`` divides the
    visits of an average user among them, at epochs drawn from the population (POPETS24 D.3).
    """

    where: Ints
    times: Times

    complete: ClassVar[bool] = False
    """Cells are guessed."""

    def assume_cells(self, population: SyntheticPopulation, *, rng: np.random.Generator) -> Ints:
        """Return the guessed cells."""
        rois, n_epochs = np.sort(self.where).astype(np.int64), population.n_epochs
        if self.times == "greedy":
            cells = rois[:, None] * n_epochs + np.arange(n_epochs)
            return cells.ravel().astype(self.where.dtype)
        n_visits = max(1, round(population.activity.mean / max(len(rois), 1)))
        visited = np.repeat(rois, n_visits)
        cells = visited * n_epochs + draw_epochs(population, visited, rng=rng)
        return np.unique(cells).astype(self.where.dtype)


# Information on where the target was. ``complete``: whether it covers every cell; ``assume_cells``
# returns the flat cells in which the target is assumed to have been, sorted, (event,), where
# ``population`` is used to guess what is unknown.
TargetInformation = KnownCells | KnownPlaces
Known = TypeVar("Known", bound=TargetInformation)


def join(one: Known, other: TargetInformation) -> Known:
    """Add the information from another block of users."""
    return replace(one, where=np.concatenate([one.where, other.where]))


def most_visited_rois(trace: Ints, n_epochs: int, n_seen: int, top: int | None) -> Ints:
    """Return the ``top`` ROIs of a trace, the most visited first, ties in order of index."""
    rois, visits = np.unique(trace // n_epochs, return_counts=True)
    rois, visits = rois[rois < n_seen], visits[rois < n_seen]
    return np.asarray(rois[np.argsort(-visits, kind="stable")][:top].copy())  # not a view


def describe_target(
    traces: Traces, target: int, limits: TargetPrior, *, rng: np.random.Generator
) -> TargetInformation:
    """Return what an adversary knows of a target, which is among ``traces``."""
    trace = traces.trace(target).copy()  # a view would give access to all users' cells
    if limits.knows == "rois":
        n_real = traces.n_rois - traces.null_roi
        rois = most_visited_rois(trace, traces.n_epochs, n_real, limits.top_rois)
        return KnownPlaces(rois, limits.times)
    if limits.known_fraction < 1:
        trace = subsample_trace(trace, traces, limits.known_fraction, rng=rng)
    return KnownCells(trace, limits.known_fraction == 1)
