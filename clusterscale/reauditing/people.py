"""People who are simulated, and cubes in which they complete the known ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clusterscale import storage
from clusterscale.contracts import Ints
from clusterscale.cube import TraceCube
from clusterscale.cube.blocks import Range, block_size, ranges
from clusterscale.cube.writer import new_cube
from clusterscale.errors import ConfigError, ExistsError
from clusterscale.mechanisms import MECHANISMS
from clusterscale.priors.zero_knowledge.occupancy import estimate_occupancy
from clusterscale.seeds import stream

Floats = NDArray[np.float64]

_BLOCK = 10_000  # people simulated from one stream
_FEW = 20  # known people from whom activity is not estimated
_MOST_SPREAD = 5.0  # standard deviation of the logarithm of the number of visits


def complete_cube(cube: TraceCube, uri: str, n_people: int, *, seed: int = 0) -> TraceCube:
    """Write the users of a cube and others, simulated from their counts, unless this is there.

    Parameters
    ----------
    cube
        The known people, who are the first rows.
    uri
        Where the new cube is written.
    n_people
        Number of people in it.
    seed
        Root seed of the simulated people.

    Returns
    -------
    TraceCube
        The cube at ``uri``; its ``n_known`` is the number of known people.

    Raises
    ------
    ConfigError
        If there are not more people than users of ``cube``.
    ExistsError
        If another cube is at ``uri``.
    """
    if n_people <= cube.n_users:
        raise ConfigError(f"users: {n_people:,}, but the known cube has {cube.n_users:,}")
    about = {"known": cube.n_users, "of": cube.fingerprint, "seed": seed}
    if not storage.exists(f"{uri}/zarr.json"):
        span, days = (0, cube.n_epochs), cube.frame((0, cube.n_epochs)).days
        exact, rng = MECHANISMS.create("exact"), stream(seed, "occupancy", cube.fingerprint)
        counts = count_everyone(cube, span)
        drawn = estimate_occupancy(counts, cube.n_users, exact, days, rng=rng)
        law = drawn, spread_of(np.diff(cube.offsets))
        regions = {key: cube.attributes["provenance"].get(key) for key in ("regions",)}
        write_people(
            uri, cube, n_people, law, span, about=about | regions, key=cube.fingerprint, seed=seed
        )
    made = TraceCube(uri)
    if not made.attributes["provenance"].items() >= about.items() or made.n_users != n_people:
        raise ExistsError(f"{uri} contains another cube: choose another path")
    return made


def write_people(
    uri: str,
    cube: TraceCube,
    n_people: int,
    law: tuple[Floats, float],
    span: tuple[int, int],
    *,
    about: Mapping[str, Any],
    key: str,
    seed: int,
) -> None:
    """Write the users of a cube, and then simulated people, with the events of some epochs.

    Parameters
    ----------
    uri, cube, n_people
        As for :func:`complete_cube`.
    law
        Occupancy and spread of :func:`simulate_people`.
    span
        First epoch and the one after the last.
    about
        Provenance besides its source.
    key, seed
        Name and root seed of the random streams.
    """
    n_others = n_people - cube.n_users
    source = f"{cube.n_users:,} known and {n_others:,} simulated people"
    with new_cube(
        uri, cube.regions, cube.calendar, provenance={"source": source, **about},
        pseudonyms=True, public=cube.public, force=True,
    ) as writer:  # fmt: skip
        for part in parts_of(cube):
            names, traces = cube.pseudonyms(np.arange(*part)), cube.block(*part, span)
            cells = _place(traces.cells, span, cube)
            writer.append(names.tolist(), np.diff(traces.offsets), cells)
        for first in range(0, n_others, _BLOCK):
            n_some = min(_BLOCK, n_others - first)
            rng = stream(seed, "simulated people", key, first)
            sizes, cells = simulate_people(n_some, *law, rng=rng)
            simulated = [f"simulated {first + i}" for i in range(n_some)]
            writer.append(simulated, sizes, _place(cells, span, cube))
        weights = cube.weights
        if weights is not None and cube.n_users:  # simulated people have those of known ones
            others = stream(seed, "simulated weights", key).choice(weights, n_others)
            writer.weigh(np.concatenate([weights, others]))


def count_everyone(cube: TraceCube, span: tuple[int, int]) -> Floats:
    """Return the counts of all users in some epochs, float64, shape (roi, epoch)."""
    counts = np.zeros(cube.n_rois * (span[1] - span[0]))
    for part in parts_of(cube):
        counts += np.bincount(cube.block(*part, span).cells, minlength=len(counts))
    return counts.reshape(cube.n_rois, -1)


def parts_of(cube: TraceCube) -> Iterator[Range]:
    """Yield the ranges in which users are read."""
    if cube.n_users:
        yield from ranges(0, cube.n_users, block_size(cube))


def _place(cells: Ints, span: tuple[int, int], cube: TraceCube) -> Ints:
    """Return cells of some epochs as cells of the cube."""
    roi, epoch = np.divmod(cells.astype(np.int64), span[1] - span[0])
    return roi * cube.n_epochs + span[0] + epoch


def spread_of(n_visits: Ints) -> float:
    """Return the standard deviation of the log of known numbers of visits, 0 if few are known."""
    seen = n_visits[n_visits > 0]
    return min(float(np.log(seen).std()), _MOST_SPREAD) if len(seen) >= _FEW else 0.0


def simulate_people(
    n: int, occupancy: Floats, spread: float, *, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Draw the traces of people who visit cells independently.

    Parameters
    ----------
    n
        Number of people.
    occupancy
        Probability of a person being in each cell, float64, shape (roi, epoch), below 1.
    spread
        Standard deviation of the logarithm of how active a person is.
    rng
        Random generator.

    Returns
    -------
    tuple[Ints, Ints]
        Cells of each person, int64, shape (person,); and these flat cells, increasing within a
        person, int64, shape (cell,).
    """
    rates = -np.log1p(-occupancy.ravel())  # a Poisson number of visits to a cell is merged into one
    total = np.cumsum(rates)
    activity = np.exp(rng.normal(-(spread**2) / 2, spread, n))
    n_visits = rng.poisson(activity * total[-1])
    cells = np.searchsorted(total, rng.random(n_visits.sum()) * total[-1], side="right")
    cells = np.minimum(cells, np.flatnonzero(rates)[-1:].sum())  # rounding may exceed the total
    keys = np.unique(np.repeat(np.arange(n), n_visits) * len(rates) + cells)
    people, cells = np.divmod(keys, len(rates))
    return np.bincount(people, minlength=n), cells
