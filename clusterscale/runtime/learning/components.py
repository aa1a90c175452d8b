"""What users have in common: the leading components of who was where and when."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from clusterscale.contracts import Executor
from clusterscale.cube import TraceCube
from clusterscale.errors import InputError
from clusterscale.runtime.learning.schedule import needs_dask_ml, scheduled
from clusterscale.storage import absolute

__all__ = ["components"]

_EVENTS = 1 << 23  # of a block of users: 40 MB, as much as what is summed over blocks
_PASSES = 8  # rounds of power iteration


def components(
    cube: TraceCube,
    n: int,
    executor: Executor,
    *,
    passes: int = _PASSES,
    events: int = _EVENTS,
    seed: int = 0,
) -> xr.Dataset:
    """Return the leading right singular vectors of the users × cells matrix of 0 and 1.

    A randomized method with power iteration (Halko, Martinsson and Tropp 2011, SIAM Review 53,
    algorithms 4.4 and 5.1), dask-ml's ``TruncatedSVD``. The matrix is not centred, so the first
    component is close to the mean trace. It is kept as blocks of users, spread over the workers, at
    five bytes an event; beside its share of these a worker holds arrays of (n + 10) × cells.

    Parameters
    ----------
    cube
        Whose users.
    n
        How many components; fewer than users and than cells.
    executor
        Where to work; the result is the same anywhere.
    passes
        Rounds of power iteration: more of them tell apart components of like size.
    events
        Events of a block of users; about as many of these as workers, or more, keep all busy.
    seed
        Of the random directions to begin with.

    Returns
    -------
    xr.Dataset
        float64: ``loading`` (component, roi, epoch), of length 1 each, the sign such that its sum
        is positive; ``singular_value``, ``explained_variance`` (of the users' coordinates, ddof 0)
        and ``explained_variance_ratio`` (of the variance of all cells) on (component,).

    Raises
    ------
    InputError
        If there are not more users and cells than ``n``, or another number makes no sense.
    PackageError
        If dask-ml is not installed.
    DamagedError
        Naming the chunk of the cube that cannot be read.
    """
    _check(cube, n, passes, events)
    with needs_dask_ml("components"):
        import dask
        from dask_ml.decomposition import TruncatedSVD
    with scheduled(executor):
        matrix, n_seen = _lay_out(cube, events)
        # its own computing would ask for the variance of columns, which sparse blocks do not tell
        model = TruncatedSVD(
            n, algorithm="randomized", n_iter=passes, random_state=seed, compute=False
        )
        model.fit(matrix)
        found = dask.compute(
            model.components_, model.singular_values_, model.explained_variance_, n_seen
        )
    return _label(cube, *found)


def _check(cube: TraceCube, n: int, passes: int, events: int) -> None:
    n_cells = cube.n_rois * cube.n_epochs
    if not 1 <= n < min(cube.n_users, n_cells):
        raise InputError(
            f"{n} components of {cube.n_users:,} users and {n_cells:,} cells: give at least 1, "
            f"and at most {min(cube.n_users, n_cells) - 1:,}"
        )
    if passes < 0 or events < 1:
        raise InputError(f"passes {passes} must be at least 0, and events {events} at least 1")


def _lay_out(cube: TraceCube, events: int) -> tuple[Any, Any]:
    """Return the matrix (user, cell), its blocks sparse, and the users seen in each cell."""
    import dask
    import dask.array as da

    uri, n_cells = absolute(cube.uri), cube.n_rois * cube.n_epochs
    blocks, counts = [], []
    for start, stop in _spans(cube, events):
        block = dask.delayed(_read, pure=False)(uri, start, stop)
        # Declared dense: what is done to it is matrix products alone, and these go by what the
        # blocks are. Declared sparse, laying out a variance that nobody computes would fail.
        blocks.append(da.from_delayed(block, (stop - start, n_cells), meta=np.empty((0, 0))))
        counts.append(da.from_delayed(dask.delayed(_count)(block), (n_cells,), np.int64))
    return da.concatenate(blocks), da.stack(counts).sum(axis=0)


def _spans(cube: TraceCube, events: int) -> list[tuple[int, int]]:
    """Return the first user of each block and the one after its last."""
    n_blocks = min(cube.n_users, max(1, -(-cube.n_events // events)))
    goals = cube.n_events * np.arange(1, n_blocks) / n_blocks
    inner = np.searchsorted(cube.offsets, goals)
    ends = np.unique(np.concatenate([[0], inner, [cube.n_users]])).tolist()
    return list(pairwise(ends))


def _read(uri: str, start: int, stop: int) -> Any:
    from scipy.sparse import csr_matrix

    traces = TraceCube(uri).block(start, stop)
    there = np.ones(len(traces.cells), np.bool_)
    shape = (traces.n_users, traces.n_cells)
    return csr_matrix((there, traces.cells, traces.offsets), shape)


def _count(block: Any) -> NDArray[np.int64]:
    return np.bincount(block.indices, minlength=block.shape[1])


def _label(
    cube: TraceCube,
    vectors: NDArray[np.float64],
    singular: NDArray[np.float64],
    variance: NDArray[np.float64],
    n_seen: NDArray[np.int64],
) -> xr.Dataset:
    share = n_seen / cube.n_users
    total = float((share * (1 - share)).sum())
    signs = np.where(vectors.sum(axis=1) < 0, -1.0, 1.0)
    loading = (signs[:, None] * vectors).reshape(-1, cube.n_rois, cube.n_epochs)
    places = xr.open_dataset(cube.uri, engine="clusterscale").drop_dims("user").coords
    return xr.Dataset(
        {
            "loading": (("component", "roi", "epoch"), loading),
            "singular_value": ("component", singular),
            "explained_variance": ("component", variance),
            "explained_variance_ratio": ("component", variance / total),
        },
        places,
    )
