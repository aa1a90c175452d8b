"""What the tests of ingest share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def small_chunks() -> Iterator[None]:
    """Chunks of a cube as small as its content here: a test writes hundreds of cubes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clusterscale.cube.writer.CHUNK", 64)
        yield


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with real records."""
    folder = os.environ.get("CLUSTERSCALE_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("CLUSTERSCALE_DATA names no folder with the real records")
    return Path(folder)
