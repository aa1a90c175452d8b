"""Fixtures that several suites share."""

import os
import re
import shutil
from copy import deepcopy
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import settings

from clusterscale.cube import Calendar, Grid, TraceCube, new_cube
from clusterscale.testing.population import draw_dense

# Test processes inherit this: one thread each, as in the tasks of a run. More would wait for each
# other wherever there are as many processes as processors.
for _library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")
os.environ.setdefault("CLUSTERSCALE_RETRY_SECONDS", "5")  # stores that fail do so soon

# Deadlines would measure the machine. The quick profile tries the same few examples in every run;
# the thorough one (pytest --hypothesis-profile thorough) draws new ones each night.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=5)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=100)
settings.load_profile("quick")


# Modules of which every test has a mark that the run leaves out.
_MARKED = {
    word: re.compile(rf"^pytestmark = (\[[^\]]*)?pytest\.mark\.{word}\b", re.MULTILINE)
    for word in ("slow", "nightly")
}


def pytest_ignore_collect(collection_path, config):
    """Do not import modules whose tests would all be left out; they take seconds to collect."""
    chosen = config.option.markexpr
    if not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    if " or " in chosen or "(" in chosen:
        return None
    text = collection_path.read_text(encoding="utf-8")
    left_out = (word for word in _MARKED if f"not {word}" in chosen)
    return True if any(_MARKED[word].search(text) for word in left_out) else None


def write_cube(uri, dense, weights=None):
    """Write a dense boolean (user, roi, epoch) array as a cube, with weights, and open it."""
    n_users, n_rois, n_epochs = dense.shape
    calendar = Calendar.parse("2024-01-01T00:00", "1h", n_epochs, "UTC")
    grid = Grid.parse(f"50,0,51,1/1x{n_rois}")
    flat = dense.reshape(n_users, -1)
    stated = {"provenance": {"source": "test"}, "public": ("places", "calendar")}
    with new_cube(uri, grid.regions, calendar, **stated) as writer:
        writer.append([f"u{i:03d}" for i in range(n_users)], flat.sum(axis=1), np.nonzero(flat)[1])
        if weights is not None:
            writer.weigh(weights)
    return TraceCube(uri)


@pytest.fixture(scope="session")
def dense():
    """Traces of 60 users over 8 ROIs and 48 epochs, bool (user, roi, epoch)."""
    return draw_dense(np.random.default_rng(7), 60, 8, 48)


_SHARED = []  # cubes of the session


@pytest.fixture(scope="session")
def cube(dense, tmp_path_factory):
    """The same traces as a cube."""
    made = write_cube(str(tmp_path_factory.mktemp("cube") / "cube.zarr"), dense)
    _SHARED.append(made.uri)
    return made


@pytest.fixture(autouse=True)
def nothing_published():
    """Forget the releases of shared cubes that a test has published."""
    yield
    for uri in _SHARED:
        shutil.rmtree(f"{uri}.published", ignore_errors=True)


@pytest.fixture(scope="session")
def shared_plan_fields():
    return {
        "seed": 3,
        "null_roi": True,
        "targets": {"random": 4},
        "group_sizes": [3, 6],
        "periods": [{"name": "all", "first": 0, "epochs": 48}],
        "priors": [{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 20}],
        "mechanisms": [{"name": "exact"}, {"name": "laplace", "epsilon": 1.0, "unit": "event"}],
        "attacks": [{"name": "logistic"}, {"name": "projection"}],
    }


@pytest.fixture
def plan_fields(shared_plan_fields):
    """Fields of a small plan that fits the cube: two sizes, two mechanisms, two attacks."""
    return deepcopy(shared_plan_fields)


@pytest.fixture
def quick(monkeypatch):
    """Stores that fail are tried again at once."""
    monkeypatch.setattr("clusterscale.storage.retries._FIRST", 0.001)


@pytest.fixture(scope="session")
def local_cluster():
    """Return an executor on two worker processes, which the tests of this process share.

    For tests that leave the workers as they found them. Its client is not Dask's default and its
    settings apply to it alone, so that it does not change what other tests run on.
    """
    distributed = pytest.importorskip("distributed")
    import dask

    from clusterscale.runtime.clusters.base import SETTINGS
    from clusterscale.runtime.dask import DaskExecutor

    # Two clusters that look at themselves 50 times a second would take 20 s of the quick tier.
    rarely = {
        "distributed.admin.tick.interval": "1s",
        "distributed.admin.tick.limit": "30s",
        "distributed.admin.system-monitor.interval": "10s",
        "distributed.worker.memory.monitor-interval": "1s",
    }
    with dask.config.set(SETTINGS | rarely):
        cluster = distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs="ERROR",
        )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield DaskExecutor(client)


def _draw_nothing(monkeypatch, plot):
    from clusterscale.reporting import figures
    from clusterscale.reporting.figures import single

    for name in (
        "boxes",
        "draw_time_series",
        "curves",
        "distributions",
        "heatmap",
        "map_of",
        "tradeoff",
    ):
        monkeypatch.setattr(figures, name, MagicMock())
    for module in (figures, single):
        monkeypatch.setattr(module, "plot", plot)


@pytest.fixture
def no_figures(monkeypatch):
    """Leave figures out of reports: drawing them takes most of the time of a page."""
    from markupsafe import Markup

    _draw_nothing(monkeypatch, lambda model, **options: Markup())


@pytest.fixture
def empty_figures(monkeypatch):
    """Leave figures empty: each has its place, title and description, and nothing is drawn."""
    from clusterscale.reporting.section import fill

    def plot(model, **named):
        return fill("figure.html.j2", item="null", **named)

    _draw_nothing(monkeypatch, plot)


@pytest.fixture(scope="session")
def real_data():
    """Folder of the real data sets, or a skip that says why."""
    folder = Path(os.environ.get("CLUSTERSCALE_DATA", ""))
    if not os.environ.get("CLUSTERSCALE_DATA") or not folder.is_dir():
        pytest.skip("real data is absent: CLUSTERSCALE_DATA names no folder")
    return folder
