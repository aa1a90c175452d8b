"""Write a synthetic cube, a block of users at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from clusterscale import seeds
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Regions
from clusterscale.cube.store import TraceCube
from clusterscale.cube.synthetic.cabs import Cabs
from clusterscale.cube.synthetic.commuters import Commuters
from clusterscale.cube.synthetic.diary import Ints
from clusterscale.cube.synthetic.phones import Phones, ReportingActivity, antennas, squares
from clusterscale.cube.synthetic.presets import PRESETS, Preset
from clusterscale.cube.writer import new_cube
from clusterscale.errors import ExistsError, InputError, UnknownNameError
from clusterscale.storage import exists
from clusterscale.validation_messages import choices

__all__ = ["open_or_synthesise", "synthesise", "write_like"]


class Population(Protocol):
    """A distribution of users, drawn ``block`` at a time."""

    block: int
    regions: Regions

    def draw(self, rng: np.random.Generator, n_users: int) -> tuple[Ints, Ints]:
        """Return sizes, shape (user,), and cells, shape (event,), of the first users of a block."""


_POPULATIONS: Mapping[str, Callable[[Preset], Population]] = {
    "tfl": lambda preset: Commuters("tfl", preset.rois, preset.epochs),
    "sfc": lambda preset: Cabs(preset.epochs),
    # Epoch 0 is a Tuesday. No user skips a week: the month has 9 parts (a target of the paper has
    # 9 visits), and every week contains a whole part.
    "cdr": lambda preset: Phones(
        "cdr", antennas(preset.rois), preset.epochs, 144, ReportingActivity(96.0, 0.9, 9, 4096, 36)
    ),
    "milan": lambda preset: Phones(
        "milan", squares(), preset.epochs, 0, ReportingActivity(2.9, 1.28, 1, 1024, 1)
    ),
}


def synthesise(
    preset: str, uri: str, *, users: int | None = None, seed: int = 0, force: bool = False
) -> TraceCube:
    """Write a cube of synthetic users that match the statistics of a paper's data set.

    Parameters
    ----------
    preset
        ``tfl``, ``sfc``, ``cdr`` or ``milan``; see :data:`PRESETS`.
    uri
        Where to write: a local path or an fsspec URL.
    users
        Number of users; as in the paper if None. They are drawn and written in blocks, so that
        memory does not grow with their number.
    seed
        Root seed. The first users are the same for any number of users.
    force
        Overwrite what is stored at ``uri``.

    Returns
    -------
    TraceCube
        The finished cube.

    Raises
    ------
    UnknownNameError
        If there is no such preset.
    InputError
        If ``users`` is below 1.
    ExistsError
        If something is stored at ``uri`` and ``force`` is not set.
    """
    if preset not in PRESETS:
        raise UnknownNameError(f"unknown preset {preset!r}: {choices(preset, sorted(PRESETS))}")
    n_users = PRESETS[preset].users if users is None else users
    if n_users < 1:
        raise InputError(f"users is {n_users}: a cube has at least 1")
    return write_like(preset, replace(PRESETS[preset], users=n_users), uri, seed=seed, force=force)


def open_or_synthesise(
    preset: str, uri: str, *, users: int | None = None, seed: int = 0
) -> TraceCube:
    """Open the cube of a preset, writing it first if it is not there yet.

    Parameters are those of :func:`synthesise`, whose errors can be raised too.

    Raises
    ------
    ExistsError
        If another cube is at ``uri``; with ``users`` None, any number of users is accepted.
    FormatError, DamagedError
        If the cube at ``uri`` cannot be used.
    """
    if not exists(uri):
        return synthesise(preset, uri, users=users, seed=seed)
    cube = TraceCube(uri)
    provenance = cube.attributes["provenance"]
    same = provenance.get("preset") == preset and provenance.get("seed") == seed
    if not same or (users is not None and cube.n_users != users):
        raise ExistsError(
            f"{uri} contains a cube other than {preset} with {users or 'all'} users and "
            f"seed {seed}: choose another path"
        )
    return cube


def write_like(
    preset: str, what: Preset, uri: str, *, seed: int = 0, force: bool = False
) -> TraceCube:
    """Write a cube of users like those of a preset, with the size and calendar of ``what``.

    Parameters and errors are those of :func:`synthesise`; presets on a grid keep their ROIs.
    """
    n_users = what.users
    calendar = Calendar.parse(what.start, "1h", what.epochs, what.timezone)
    population = _POPULATIONS[preset](what)
    provenance: dict[str, Any] = {"source": "synthetic", "preset": preset, "seed": seed}
    with new_cube(
        uri, population.regions, calendar, provenance=provenance, pseudonyms=True, force=force
    ) as writer:
        for index, first in enumerate(range(0, n_users, population.block)):
            size = min(population.block, n_users - first)
            sizes, cells = population.draw(seeds.stream(seed, "synthetic", preset, index), size)
            writer.append([f"u{i:07d}" for i in range(first, first + size)], sizes, cells)
    return TraceCube(uri)
