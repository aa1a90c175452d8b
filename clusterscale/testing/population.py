"""A small population on which classes are tested, and games against its users."""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import (
    Bounds,
    CellCoordinates,
    Game,
    GroupRequest,
    Mechanism,
    Prior,
    Traces,
)
from clusterscale.cube import measure_bounds
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors import PRIORS
from clusterscale.seeds import stream

__all__ = ["GROUP_SIZE", "bounds", "coordinates", "draw_dense", "exact", "games", "traces"]

GROUP_SIZE = 8
_USERS, _ROIS, _EPOCHS = 60, 8, 48


def draw_dense(
    rng: np.random.Generator, n_users: int, n_rois: int, n_epochs: int
) -> NDArray[np.bool_]:
    """Draw users who keep to a few ROIs and hours each, so that they can be told apart.

    Returns
    -------
    NDArray[np.bool_]
        Shape (user, roi, epoch): whether the user has an event there.
    """
    place = rng.dirichlet(np.full(n_rois, 0.4), n_users)
    hour = rng.dirichlet(np.full(n_epochs, 0.8), n_users)
    likely = np.minimum(30 * place[:, :, None] * hour[:, None, :], 0.9)
    return np.asarray(rng.random((n_users, n_rois, n_epochs)) < likely)


@cache
def traces(first: int = 0, stop: int = _EPOCHS) -> Traces:
    """Return the traces of 60 users in 8 ROIs, in some of 48 hours, without a null ROI."""
    dense = draw_dense(np.random.default_rng(7), _USERS, _ROIS, _EPOCHS)[:, :, first:stop]
    flat = dense.reshape(_USERS, -1)
    offsets = np.concatenate([[0], np.cumsum(flat.sum(axis=1))]).astype(np.int64)
    return Traces(offsets, np.nonzero(flat)[1].astype(np.int32), _ROIS, stop - first)


def coordinates(first: int = 0, stop: int = _EPOCHS) -> CellCoordinates:
    """Return the positions of the ROIs, a few kilometres apart, and the days of the hours."""
    lat = 50 + np.arange(_ROIS) % 2 / 20
    return CellCoordinates(np.arange(first, stop) // 24, lat, np.arange(_ROIS) / 20)


@cache
def bounds() -> Bounds:
    """Return the largest change by one event, day or user of :func:`traces`."""
    return measure_bounds(traces(), coordinates().days)


def exact() -> Mechanism:
    """Return the mechanism that publishes counts as they are."""
    return MECHANISMS.create("exact")


@cache
def games(n_games: int = 30) -> list[Game]:
    """Return games against some users, with an adversary who knows half of the population."""
    settings: Any = {"alpha": 0.5, "training": 60, "challenges": 40, "validation": 20}
    prior: Prior = PRIORS.create("known_subset", **settings)
    requests = (
        GroupRequest(traces(), user, group_size=GROUP_SIZE, rng=stream(0, "groups", user))
        for user in range(0, 2 * n_games, 2)
    )
    return [prior.set_up(request) for request in requests]
