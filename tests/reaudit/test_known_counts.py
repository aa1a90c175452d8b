"""True counts are known where they are, whatever the parts of the users."""

from dataclasses import replace
from functools import reduce
from types import SimpleNamespace

import numpy as np
import pytest
import zarr
from conftest import write_cube

from clusterscale.cube import blocks
from clusterscale.cube.blocks import TraceSource
from clusterscale.cube.bounds import measure_bounds
from clusterscale.mechanisms import create
from clusterscale.reauditing.known_counts import INSIDE, TableTask, add_known, count_known
from clusterscale.storage import manifest
from clusterscale.study.execution import Part

SPAN = (6, 30)


@pytest.fixture
def quiet(dense, tmp_path):
    """A cube with places where nobody was at some hours, and its traces."""
    traces = dense & (np.random.default_rng(1).random(dense.shape[1:]) < 0.7)
    return write_cube(str(tmp_path / "cube.zarr"), traces), traces


@pytest.fixture
def inside(tmp_path):
    """Rows of members, and where a worker finds them."""
    rows = np.array([1, 4, 5, 31, 59])
    uri = str(tmp_path / "tables.zarr")
    group = zarr.create_group(uri)
    group.create_array(INSIDE, shape=rows.shape, dtype=rows.dtype)[:] = rows
    manifest.seal(uri)
    return rows, uri


@pytest.mark.parametrize("null_roi", [False, True])
@pytest.mark.parametrize("parts", [((0, 60),), ((0, 8), (8, 40), (40, 60))])
def test_counts_are_those_of_dense_arrays(parts, null_roi, quiet, inside, monkeypatch):
    monkeypatch.setattr(blocks, "_MOST_USERS", 4)
    (cube, dense), (rows, uri) = quiet, inside
    source = TraceSource.of(cube, (SPAN,), null_roi=null_roi, seed=1)
    task = TableTask(SimpleNamespace(mechanism=create("exact")), source, uri)
    tasks = [Part(task, part) for part in parts]
    known = reduce(add_known, map(count_known, tasks))
    traces = dense[:, :, slice(*SPAN)]
    if null_roi:
        idle = ~traces.any(axis=1, keepdims=True)
        traces = np.concatenate([traces, idle], axis=1)
    assert (known.inside == traces[rows].sum(axis=0)).all()
    assert (known.everyone == traces.sum(axis=0)).all()
    assert known.counts(complete=True) is known.inside
    first = [Part(replace(task, n_known=33), part) for part in parts]
    some = reduce(add_known, map(count_known, first))
    assert some.n_users == 33
    assert (some.everyone == traces[:33].sum(axis=0)).all(), "the others are simulated"
    told = known.counts(complete=False)
    assert told.dtype == np.int32
    nobody = traces.sum(axis=0) == 0
    assert nobody.any()
    assert (told[nobody] == 0).all()
    assert (told[~nobody] == -1).all()
    if not null_roi:
        whole = measure_bounds(cube.traces(None, SPAN), cube.frame(SPAN).days)
        assert known.bounds == whole
