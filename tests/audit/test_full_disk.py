"""A disk that fills up ends a run with one clear error; with space again, it goes on."""

from __future__ import annotations

from itertools import chain

import pytest
import xarray as xr
from oracles.disks import fill, small_disk
from running import run, screen

from clusterscale import open_screen, storage
from clusterscale.analyses.audit import AuditPlan, open_results
from clusterscale.errors import StoreError
from clusterscale.runtime import SerialExecutor

pytestmark = pytest.mark.slow  # each runs several studies


@pytest.fixture
def plan_fields(plan_fields):
    """The same with little to compute beside the attacks."""
    return plan_fields | {"verdict": {"trials": 40}, "utility": {"groups": 2}}


@pytest.fixture
def disk(tmp_path):
    """A disk of four megabytes."""
    with small_disk(tmp_path / "disk", 4) as folder:
        yield folder


class Filling(SerialExecutor):
    """Leaves no byte free on a disk before the results of a batch are written, each of one item."""

    def __init__(self, disk, n_batches):
        self.disk, self.n_left = disk, n_batches

    def map_batches(self, function, items, *, write=None, **options):
        for item in items:
            yield from super().map_batches(function, [item], write=self._filled(write), **options)

    def _filled(self, write):
        def fill_first(batch):
            if self.n_left == 0:
                fill(self.disk)
            self.n_left -= 1
            return write(batch)

        if write is None and self.n_left == 0:
            fill(self.disk)
        return write and fill_first


def same(left, right):
    left, right = (each.load().drop_vars("seconds", errors="ignore") for each in (left, right))
    xr.testing.assert_identical(left, right)


@pytest.mark.parametrize("n_batches", [0, 3])
def test_an_audit(plan_fields, cube, disk, tmp_path, n_batches):
    plan, output = AuditPlan(**plan_fields), disk / "run"
    with pytest.raises(StoreError, match=r"is full; finished work is kept; free some space"):
        run(plan, cube, output, Filling(disk, n_batches))
    kept = [storage.list_names(f"{output}/{name}") for name in ("journal", "evaluations")]
    assert len(list(chain(*kept))) == n_batches
    (disk / "ballast").unlink()
    run(plan, cube, output, SerialExecutor())
    same(open_results(output), run(plan, cube, tmp_path / "run", SerialExecutor()))


def test_a_screen(plan_fields, cube, disk, tmp_path):
    plan, output = AuditPlan(**plan_fields | {"screen": {"groups": 40}}), disk / "run"
    with pytest.raises(StoreError, match=r"is full; finished work is kept; free some space"):
        screen(plan, cube, output, Filling(disk, 0))
    (disk / "ballast").unlink()
    screen(plan, cube, output, SerialExecutor())
    same(open_screen(output), screen(plan, cube, tmp_path / "run", SerialExecutor()))
