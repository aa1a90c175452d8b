"""Small cubes as dense arrays, against which everything is checked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from clusterscale.contracts import Traces
from clusterscale.cube import Calendar, Regions, TraceCube, new_cube

Dense = NDArray[np.bool_]  # (user, roi, epoch)

START = 1_211_180_400  # 2008-05-19T00:00 in Los Angeles


def calendar(n_epochs: int, *, start: int = START, step: int = 3600) -> Calendar:
    return Calendar(start, step, n_epochs, "America/Los_Angeles")


def regions(n_rois: int) -> Regions:
    names = tuple(f"station {i}" for i in range(n_rois))
    return Regions(names, 50.0 + np.arange(n_rois), -1.0 - np.arange(n_rois))


def names(n_users: int) -> list[str]:
    return [f"user {i}" for i in range(n_users)]


def events(dense: Dense) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sizes and flat cells, as a writer takes them."""
    flat = dense.reshape(len(dense), dense.shape[1] * dense.shape[2])
    return flat.sum(axis=1), np.nonzero(flat)[1]


def traces(dense: Dense, dtype: type[np.integer] = np.int32) -> Traces:
    sizes, cells = events(dense)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Traces(offsets, cells.astype(dtype), *dense.shape[1:])


def densify(found: Traces) -> Dense:
    dense = np.zeros((found.n_users, found.n_rois * found.n_epochs), np.bool_)
    for user in range(found.n_users):
        cells = found.trace(user)
        assert (np.diff(cells) > 0).all()
        dense[user, cells] = True
    return dense.reshape(found.n_users, found.n_rois, found.n_epochs)


def write(
    uri: Path | str,
    dense: Dense,
    *,
    users: Sequence[str] | None = None,
    where: Regions | None = None,
    when: Calendar | None = None,
    cuts: Sequence[int] = (),
    force: bool = False,
    then: Callable[[], object] = lambda: None,
) -> TraceCube:
    """Write a dense cube, in blocks of users that end at ``cuts``; ``then`` is called before it
    is published."""
    users = names(len(dense)) if users is None else users
    where, when = where or regions(dense.shape[1]), when or calendar(dense.shape[2])
    with new_cube(uri, where, when, provenance={"source": "test"}, force=force) as writer:
        for start, stop in itertools.pairwise([0, *sorted(cuts), len(dense)]):
            writer.append(users[start:stop], *events(dense[start:stop]))
        then()
    return TraceCube(uri)


def draw(*shape: int, share: float = 0.3, seed: int = 0) -> Dense:
    return np.random.default_rng(seed).random(shape) < share


def cubes(max_users: int = 6, min_users: int = 0) -> st.SearchStrategy[Dense]:
    """Any small dense cube, often with users without an event."""
    shape = st.tuples(st.integers(min_users, max_users), st.integers(1, 4), st.integers(1, 5))
    return shape.flatmap(lambda size: hnp.arrays(np.bool_, size))
