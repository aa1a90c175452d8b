"""Leading singular components of the users × cells matrix."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from clusterscale.cube import TraceCube
from clusterscale.errors import InputError
from clusterscale.runtime.learning.graphs import needs_dask_ml, scheduled
from clusterscale.storage import absolute
from clusterscale.study.execution import Executor

_EVENTS = 1 << 23  # events in a block of users: 40 MB, similar to the arrays summed over blocks
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
    component is close to the mean trace. It is kept as blocks of users, distributed over the
    workers, at five bytes per event; in addition a worker holds arrays of (n + 10) × cells.

    Parameters
    ----------
    cube
        Traces of the users.
    n
        Number of components; fewer than users and fewer than cells.
    executor
        Runs the tasks; the result does not depend on it.
    passes
        Rounds of power iteration; more rounds separate components of similar size.
    events
        Events per block of users; at least one block per worker keeps all of them busy.
    seed
        Seed of the initial random directions.

    Returns
    -------
    xr.Dataset
        float64: ``loading`` (component, roi, epoch), each of norm 1 and with a positive sum;
        ``singular_value``, ``explained_variance`` (of the users' coordinates, ddof 0)
        and ``explained_variance_ratio`` (of the variance of all cells) on (component,).

    Raises
    ------
    InputError
        If there are not more users and cells than ``n``, or another argument is out of range.
    PackageError
        If dask-ml is not installed.
    DamagedError
        Naming the chunk of the cube that cannot be read.
    """
    _check(cube, n, passes, events)
    with needs_dask_ml("components"):
        import dask
        from dask_ml.decomposition import TruncatedSVD
    # compute=True would need the variance of columns, which sparse blocks do not support
    model = TruncatedSVD(n, algorithm="randomized", n_iter=passes, random_state=seed, compute=False)
    with scheduled(executor):
        matrix, n_present = _stack_blocks(cube, events)
        model.fit(matrix)
        lazy = model.components_, model.singular_values_, model.explained_variance_, n_present
        return _label(cube, *dask.compute(*lazy))


def _check(cube: TraceCube, n: int, passes: int, events: int) -> None:
    n_cells = cube.n_rois * cube.n_epochs
    if not 1 <= n < min(cube.n_users, n_cells):
        raise InputError(
            f"{n} components of {cube.n_users:,} users and {n_cells:,} cells: choose at least "
            f"1, and at most {min(cube.n_users, n_cells) - 1:,}"
        )
    if passes < 0 or events < 1:
        raise InputError(f"passes {passes} must be at least 0, and events {events} at least 1")


def _stack_blocks(cube: TraceCube, events: int) -> tuple[Any, Any]:
    """Return the matrix (user, cell) of sparse blocks, and the number of users in each cell."""
    import dask
    import dask.array as da

    uri, n_cells = absolute(cube.uri), cube.n_rois * cube.n_epochs
    blocks, counts = [], []
    for start, stop in _spans(cube, events):
        block = dask.delayed(_read, pure=False)(uri, start, stop)
        # Declared dense: only matrix products are computed, which use the actual type of the
        # blocks. Declared sparse, building the graph of an unused variance would fail.
        blocks.append(da.from_delayed(block, (stop - start, n_cells), meta=np.empty((0, 0))))
        counts.append(da.from_delayed(dask.delayed(_count)(block), (n_cells,), np.int64))
    return da.concatenate(blocks), da.stack(counts).sum(axis=0)


def _spans(cube: TraceCube, events: int) -> list[tuple[int, int]]:
    """Return the first user of each block and the one after its last."""
    n_blocks = min(cube.n_users, max(1, -(-cube.n_events // events)))
    targets = cube.n_events * np.arange(1, n_blocks) / n_blocks
    inner = np.searchsorted(cube.offsets, targets)
    ends = np.unique(np.concatenate([[0], inner, [cube.n_users]])).tolist()
    return list(pairwise(ends))


def _read(uri: str, start: int, stop: int) -> Any:
    from scipy.sparse import csr_matrix

    traces = TraceCube(uri).block(start, stop)
    present = np.ones(len(traces.cells), np.bool_)
    shape = (traces.n_users, traces.n_cells)
    return csr_matrix((present, traces.cells, traces.offsets), shape)


def _count(block: Any) -> NDArray[np.int64]:
    return np.bincount(block.indices, minlength=block.shape[1])


def _label(
    cube: TraceCube,
    vectors: NDArray[np.float64],
    singular: NDArray[np.float64],
    variance: NDArray[np.float64],
    n_present: NDArray[np.int64],
) -> xr.Dataset:
    share = n_present / cube.n_users
    total = float((share * (1 - share)).sum())
    signs = np.where(vectors.sum(axis=1) < 0, -1.0, 1.0)
    loading = (signs[:, None] * vectors).reshape(-1, cube.n_rois, cube.n_epochs)
    coords = xr.open_dataset(cube.uri, engine="clusterscale").drop_dims("user").coords
    return xr.Dataset(
        {
            "loading": (("component", "roi", "epoch"), loading),
            "singular_value": ("component", singular),
            "explained_variance": ("component", variance),
            "explained_variance_ratio": ("component", variance / total),
        },
        coords,
    )
