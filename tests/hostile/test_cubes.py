"""Cubes whose parts changed places, and cubes made to be wrong: no run gives numbers from them."""

import subprocess
import sys

import numpy as np
import pytest

from clusterscale.cube import writer
from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Regions

CONFIG = """
cube: {folder}/cube.zarr
output: {folder}/run
cluster: {{name: serial}}
audit:
  seed: 1
  targets: {{random: 3}}
  group_sizes: [20]
  priors: [{{name: perfect, groups: 20}}]
  mechanisms: [{{name: exact}}, {{name: laplace, epsilon: 1.0, unit: event}}]
  attacks: [{{name: projection}}]
"""
N_USERS, N_ROIS, N_EPOCHS = 100, 10, 168


def cli(*words):
    command = [sys.executable, "-m", "clusterscale", *map(str, words)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return result.returncode, result.stdout + result.stderr


def write(uri, cells=None):
    """Write a cube of users with 12 events each; ``cells`` replaces them, unchecked."""
    rng = np.random.default_rng(1)
    if cells is None:
        cells = np.concatenate(
            [np.sort(rng.choice(N_ROIS * N_EPOCHS, 12, replace=False)) for _ in range(N_USERS)]
        )
    regions = Regions(tuple(f"r{i}" for i in range(N_ROIS)), np.arange(10.0), np.arange(10.0))
    calendar = Calendar.parse("2024-01-01T00:00", "1h", N_EPOCHS, "UTC")
    users = [f"u{i:03}" for i in range(N_USERS)]
    with writer.new_cube(str(uri), regions, calendar, provenance={}) as cube:
        cube.append(users, np.full(N_USERS, 12), cells)


def refused(tmp_path):
    """Return what the commands say of the cube; each refuses it in our words."""
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(folder=tmp_path))
    texts = []
    for words in (("audit", config), ("screen", config), ("inspect", tmp_path / "cube.zarr")):
        code, output = cli(*words)
        assert code in (1, 2), (words, code, output)
        assert "Traceback" not in output
        texts.append(output)
    return texts


@pytest.mark.slow
def test_chunks_that_changed_places_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "CHUNK", 100)
    write(tmp_path / "cube.zarr")
    chunks = tmp_path / "cube.zarr" / "event_cell" / "c"
    for one, other in ((1, 2), (5, 9)):  # whole users, so that all cells still increase
        a, b = (chunks / str(i) for i in (one, other))
        content = a.read_bytes()
        a.write_bytes(b.read_bytes())
        b.write_bytes(content)
    for text in refused(tmp_path):
        assert "is not the one that was written" in " ".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["beyond the cells", "negative", "do not increase"])
def test_a_cube_that_was_made_to_be_wrong_is_refused(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(writer, "_check_block", lambda *_: None)
    cells = np.tile(np.arange(12), N_USERS)
    if fault == "do not increase":
        cells[:2] = 1, 0
    else:
        cells[600:612] = 2**31 - 1 if fault == "beyond the cells" else -(2**31)
    write(tmp_path / "cube.zarr", cells)
    for text in refused(tmp_path):
        assert "cube.zarr" in text
