"""Synthetic traces from population marginals (POPETS24 §4.2, algorithm 1)."""

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field

from clusterscale.contracts import CellCoordinates, ConfigModel, Floats, Positive, Traces
from clusterscale.errors import InputError
from clusterscale.jit import kernel
from clusterscale.registry import Registry
from clusterscale.validation_messages import exact_number


class ActivityLaw(ConfigModel):
    """A distribution of integers from 1 on with a given mean."""

    name: str

    @property
    def phrase(self) -> str:
        """Short display text."""
        return self.name

    def draw(self, mean: float, n: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the number of visits of each of ``n`` users, int64, shape (n,), at least 1.

        The distribution has this ``mean`` before rounding and clipping to 1. With the same
        generator state, numbers increase with the mean. Raises InputError if ``mean`` is
        negative or not finite.
        """
        if not (np.isfinite(mean) and mean >= 0):
            raise InputError(f"the mean of visits is {mean}: it must be finite and not negative")
        return np.maximum(np.rint(self._scaled(mean, n, rng)), 1).astype(np.int64)

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        raise NotImplementedError


class Exponential(ActivityLaw):
    """Exponential distribution, as in the paper; its only parameter is the mean."""

    name: Literal["exponential"] = "exponential"

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        return rng.exponential(1.0, n) * mean


class LogNormal(ActivityLaw):
    """Log-normal distribution, typical of real activity; ``sigma`` is its log-sd.

    ``sigma`` is about 1 in the data of POPETS24 (Fig. 6). It cannot be estimated from an aggregate.

    Attributes
    ----------
    sigma
        Standard deviation of the natural logarithm of a user's number of visits.
    """

    name: Literal["lognormal"] = "lognormal"
    sigma: Positive = Field(default=1.0, le=5)

    @property
    def phrase(self) -> str:
        """The name with sigma."""
        return f"log-normal (σ {exact_number(self.sigma)})"

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        return np.exp(rng.normal(-(self.sigma**2) / 2, self.sigma, n)) * mean


class Constant(ActivityLaw):
    """Everyone makes the mean number of visits."""

    name: Literal["constant"] = "constant"

    def _scaled(self, mean: float, n: int, rng: np.random.Generator) -> Floats:
        return np.full(n, mean)


ACTIVITIES: Registry[ActivityLaw] = Registry("activity", Constant, Exponential, LogNormal)


@dataclass(frozen=True, slots=True)
class VisitCounts:
    """Distribution of the number of visits per user.

    Attributes
    ----------
    mean
        Mean number of visits.
    law
        The distribution.
    """

    mean: float
    law: ActivityLaw = field(default_factory=Exponential)

    def draw(self, n: int, *, rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the number of visits of each of ``n`` users, int64, shape (n,), at least 1."""
        return self.law.draw(self.mean, n, rng=rng)


Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Neighbours of every ROI, compressed by ROI.

    Attributes
    ----------
    offsets
        int64, shape (roi + 1,): the neighbours of ``s`` are
        ``neighbours[offsets[s]:offsets[s + 1]]``.
    neighbours
        int64, shape (2 · edge,): increasing within an ROI.
    """

    offsets: Longs
    neighbours: Longs

    @property
    def n_rois(self) -> int:
        """Number of ROIs."""
        return len(self.offsets) - 1

    @classmethod
    def of(cls, n_rois: int, edges: Longs) -> "Graph":
        """Return the graph of undirected ``edges``, int64, shape (edge, 2), in any order."""
        both = np.unique(np.concatenate([edges, edges[:, ::-1]]), axis=0)
        both = both[both[:, 0] != both[:, 1]]
        offsets = np.searchsorted(both[:, 0], np.arange(n_rois + 1))
        return cls(offsets.astype(np.int64), np.ascontiguousarray(both[:, 1]))


def triangulate(frame: CellCoordinates) -> Graph:
    """Return the Delaunay triangulation of ROIs.

    Positions are projected to a plane at the mean latitude, which changes no neighbourhood
    within a city. Two ROIs are always neighbours; collinear ROIs are neighbours in their order;
    ROIs at one position are connected to the first of them, which has all other edges. A single
    ROI has no edges. For points on a common circle, such as the corners of grid squares, either
    diagonal is a triangulation; the choice is the same on every machine. Raises InputError if a
    position is unknown.
    """
    lat, lon = np.asarray(frame.lat, np.float64), np.asarray(frame.lon, np.float64)
    if unknown := int((~np.isfinite(lat + lon)).sum()):
        raise InputError(
            f"{unknown} of {len(lat)} ROIs have no position, which is needed to find their "
            "neighbours: give lat and lon of each ROI when creating the cube, or set positions of "
            "zero_knowledge to unknown"
        )
    if not len(lat):
        return Graph.of(0, np.zeros((0, 2), np.int64))
    lon = lon - 360 * np.rint((lon - lon[0]) / 360)  # ROIs across the antimeridian are near
    flat = np.column_stack([lon * np.cos(np.radians(lat.mean())), lat])
    points, first, same = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    coincident = np.column_stack([first[same.ravel()], np.arange(len(flat))])
    return Graph.of(len(flat), np.concatenate([first[_edges(points)], coincident]))


def _edges(places: Floats) -> Longs:
    """Return the edges between distinct positions, int64, shape (edge, 2)."""
    middle = places - places.mean(axis=0)
    size = np.abs(middle).max(initial=0.0)
    if len(places) > 2 and size > 0:
        _, spread, directions = np.linalg.svd(middle / size, full_matrices=False)
        if spread[1] > 1e-9 * spread[0]:
            return _triangles(middle / size)
        order = np.argsort(middle @ directions[0], kind="stable")
    else:
        order = np.arange(len(places))
    return np.column_stack([order[:-1], order[1:]]).astype(np.int64)


def _triangles(places: Floats) -> Longs:
    corners = scipy.spatial.Delaunay(places).simplices.astype(np.int64)
    edges = [corners[:, [i, j]] for i, j in ((0, 1), (1, 2), (2, 0))]
    left_out = np.setdiff1d(np.arange(len(places)), corners)
    if len(left_out):  # too close to other points for the precision of the triangulation
        others = np.unique(corners)
        _, nearest = scipy.spatial.KDTree(places[others]).query(places[left_out])
        edges.append(np.column_stack([left_out, others[nearest]]))
    return np.concatenate(edges)


def correlated_rois(values: Floats, days: Longs) -> Graph | None:
    """Return as neighbours the ROIs whose published series correlate; None if none do.

    The correlation is that of what the sum of all series, by least squares, does not explain; it
    must be significant on odd and on even days. Pairs with so few visits that five coincidences
    are not expected are not tested. A ROI that correlates with no other has all others as
    neighbours. Above 10,000 ROIs, None is returned.

    ``values`` are float64, shape (roi, epoch), without a null ROI; ``days``, int64, shape
    (epoch,), are the numbers of the day in which each epoch begins.
    """
    odd = (days - days[0]) % 2 == 1
    if len(values) > 10_000 or not odd.any():  # for more, all pairs would take gigabytes
        return None
    near = ~np.eye(len(values), dtype=bool)
    for half in (odd, ~odd):
        part = values[:, half]
        common = part.sum(axis=0)
        expected = np.outer(part @ common / max(common @ common, 1e-300), common)
        part, common = (each - each.mean(axis=-1, keepdims=True) for each in (part, common))
        part -= np.outer(part @ common / max(common @ common, 1e-300), common)
        norms = np.sqrt((part**2).sum(axis=1, keepdims=True))
        part = np.divide(part, norms, out=np.zeros_like(part), where=norms > 1e-9)
        # 4.0: standard errors of the correlation of independent series
        near &= part @ part.T * np.sqrt(part.shape[1]) > 4.0
        # 5.0: expected number from which counts of two ROIs are tested
        near &= expected @ expected.T > 5.0
    alone = ~near.any(axis=1)
    if alone.all():
        return None
    near[alone] = True
    np.fill_diagonal(near, False)
    offsets = np.concatenate([[0], np.cumsum(near.sum(axis=1))])
    return Graph(offsets, np.nonzero(near)[1])


NEIGHBOURHOOD = 10
"""Maximum number of ROIs that a user visits (algorithm 1)."""


class SyntheticPopulation(NamedTuple):
    """Distribution of synthetic users.

    Attributes
    ----------
    space
        Float64, shape (roi,): popularity of each ROI; sums to 1.
    time
        Float64: distribution of visits over epochs, shape (epoch,) if the same for all ROIs, or
        (roi, epoch) with one row per ROI. Rows sum to 1.
    activity
        Number of visits per user, before visits to the same cell are merged.
    """

    space: Floats
    time: Floats
    activity: VisitCounts

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return int(self.time.shape[-1])

    @property
    def occupancy_probabilities(self) -> Floats:
        """Probability of a user being in each cell, float64, shape (roi, epoch)."""
        return np.minimum(self.activity.mean * self.space[:, None] * self.time, 1.0)

    def with_mean(self, mean: float) -> "SyntheticPopulation":
        """Return the population with another mean number of visits per user."""
        return self._replace(activity=replace(self.activity, mean=mean))


def synthetic_traces(
    n: int,
    population: SyntheticPopulation,
    graph: Graph | None = None,
    *,
    rng: np.random.Generator,
) -> Traces:
    """Draw ``n`` users on the ROIs of ``population`` (POPETS24, algorithm 1).

    A user starts at an ROI drawn by popularity; a connected set of :data:`NEIGHBOURHOOD` ROIs
    is grown from it by repeatedly adding a uniformly drawn neighbour of the set, any ROI if
    ``graph`` is None; visits are to the ROIs of the set by popularity, at epochs drawn with
    replacement. Visits to the same cell are merged. The number and order of draws from ``rng``
    do not depend on their values. Raises InputError if a distribution is invalid.
    """
    _check(population)
    space, n_epochs = population.space, population.n_epochs
    visits = population.activity.draw(n, rng=rng)
    offsets = np.concatenate([[0], np.cumsum(visits)])
    origins = _sample(space, rng.random(n))
    if graph is None:
        rois = _sample(space, rng.random(offsets[-1]))
    else:
        choices = rng.random((n, NEIGHBOURHOOD - 1))
        uniform = rng.random(offsets[-1])
        edges = graph.offsets, graph.neighbours
        rois = _choose_rois(origins, space, edges, choices, uniform, offsets)
    cells = rois * n_epochs + draw_epochs(population, rois, rng=rng)
    n_cells = len(space) * n_epochs
    user, cells = np.divmod(np.unique(np.repeat(np.arange(n), visits) * n_cells + cells), n_cells)
    return Traces(np.searchsorted(user, np.arange(n + 1)), cells, len(space), n_epochs)


def draw_epochs(population: SyntheticPopulation, rois: Longs, *, rng: np.random.Generator) -> Longs:
    """Draw an epoch for a visit to each of ``rois``, int64, the same shape (visit,)."""
    when = rng.random(len(rois))
    if population.time.ndim == 1:
        return _sample(population.time, when)
    return _sample_by_row(np.cumsum(population.time, axis=1), rois, when)


def _check(population: SyntheticPopulation) -> None:
    for name, law in (("space", population.space), ("time", population.time)):
        totals = law.sum(axis=-1)
        if not (np.isfinite(law).all() and (law >= 0).all() and np.allclose(totals, 1)):
            raise InputError(
                f"{name} is not a distribution: values from {law.min()} to {law.max()}"
            )


def _sample(law: Floats, uniform: Floats) -> Longs:
    """Return the values of ``law`` for uniform draws in [0, 1), by inversion."""
    edges = np.cumsum(law)
    index = np.searchsorted(edges, uniform * edges[-1], side="right")
    return np.asarray(np.minimum(index, np.flatnonzero(law)[-1]))


@kernel
def _sample_by_row(edges: Floats, rows: Longs, uniform: Floats) -> Longs:
    """Return values for uniform draws by inversion, each by the distribution of its row."""
    picked = np.empty(len(rows), np.int64)
    for i in range(len(rows)):
        law = edges[rows[i]]
        last = np.searchsorted(law, law[-1])
        at = np.searchsorted(law, uniform[i] * law[-1], side="right")
        picked[i] = min(at, last)
    return picked


@kernel
def _choose_rois(
    origins: Longs,
    space: Floats,
    graph: tuple[Longs, Longs],
    choices: Floats,
    uniform: Floats,
    offsets: Longs,
) -> Longs:
    """Return the ROI of every visit, within a connected set around its user's origin."""
    rois, (first_neighbours, neighbours) = np.empty(len(uniform), np.int64), graph
    n_most = choices.shape[1] + 1
    state = np.zeros(len(space), np.int64)  # for user i: 2i + 1 on the frontier, 2i + 2 inside
    frontier = np.empty(len(space), np.int64)
    chosen = np.empty(n_most, np.int64)
    edges = np.empty(n_most)
    for user in range(len(origins)):
        mark, n_chosen, n_frontier = 2 * user + 1, 0, 0
        roi = origins[user]
        while True:
            chosen[n_chosen] = roi
            n_chosen += 1
            state[roi] = mark + 1
            for k in range(first_neighbours[roi], first_neighbours[roi + 1]):
                near = neighbours[k]
                if state[near] < mark:
                    state[near] = mark
                    frontier[n_frontier] = near
                    n_frontier += 1
            if n_chosen == n_most or n_frontier == 0:
                break
            at = int(choices[user, n_chosen - 1] * n_frontier)
            roi = frontier[at]
            n_frontier -= 1
            frontier[at] = frontier[n_frontier]
        total = 0.0
        for k in range(n_chosen):
            total += space[chosen[k]]
            edges[k] = total
        for visit in range(offsets[user], offsets[user + 1]):
            at = np.searchsorted(edges[:n_chosen], uniform[visit] * total, side="right")
            rois[visit] = chosen[min(at, n_chosen - 1)]
    return rois
