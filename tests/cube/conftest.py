"""What the tests of the cube share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Give an address that nothing was written to, as often as a property needs one."""
    root, count = tmp_path_factory.mktemp("cubes"), itertools.count()
    return lambda: root / f"cube-{next(count)}.zarr"


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> int:
    """Chunks of eight elements, so that small cubes have several."""
    monkeypatch.setattr("clusterscale.cube.writer.CHUNK", 8)
    monkeypatch.setattr("clusterscale.cube.store.CHUNK", 8)
    return 8
