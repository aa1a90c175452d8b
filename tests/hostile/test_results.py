"""A disk that loses and changes files of a finished run: no other answer comes of it."""

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from clusterscale.cli import app
from clusterscale.errors import ClusterscaleError

pytestmark = pytest.mark.slow

CONFIG = """
cube: {{preset: tfl, users: 200, path: {folder}/cube.zarr}}
output: {folder}/run
cluster: {{name: serial}}
audit:
  seed: 1
  targets: {{random: 2}}
  group_sizes: [20]
  priors: [{{name: perfect, groups: 20}}]
  mechanisms:
    - {{name: exact}}
    - {{name: laplace, epsilon: 0.01, unit: user, discrete: true}}
  attacks: [{{name: projection}}]
"""


def cli(*words):
    """Return the exit code and the output of a command, as ``clusterscale`` itself gives them."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(result.exception, ClusterscaleError):
        return 2, str(result.exception)
    return result.exit_code, result.output or repr(result.exception)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    (folder / "config.yaml").write_text(CONFIG.format(folder=folder))
    code, output = cli("audit", folder / "config.yaml")
    assert code == 0, output
    return folder


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished / "run", tmp_path / "run")
    return tmp_path / "run"


def numbers(folder):
    with xr.open_zarr(folder / "results.zarr", consolidated=False) as dataset:
        return {name: np.asarray(array.values) for name, array in dataset.variables.items()}


def same(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[name], other[name], equal_nan=one[name].dtype.kind == "f")
        for name in one
    )


def gate(folder):
    return cli("gate", folder, "--mechanism", "exact")


def test_a_gate_never_passes_after_a_file_was_lost(run):
    code, output = gate(run)
    files = sorted(path for path in (run / "results.zarr").rglob("*") if path.is_file())
    for path in files:
        content = path.read_bytes()
        path.unlink()
        again, words = gate(run)
        path.write_bytes(content)
        assert (again, words) == (code, output) or again == 2, (path, again)
        assert again == 2 or path.name.startswith("."), path
    for name in ("verdict", "auc", "privacy_loss"):
        shutil.move(run / "results.zarr" / name, run / name)
        again, words = gate(run)
        shutil.move(run / name, run / "results.zarr" / name)
        assert again == 2, (name, again, words)
        assert name in words
    assert gate(run) == (code, output)


def test_a_flipped_bit_is_never_another_number(run):
    wanted, rng = numbers(run), random.Random(1)
    files = sorted(path for path in (run / "results.zarr").rglob("*") if path.is_file())
    n_silent = 0
    for path in rng.sample(files, min(60, len(files))):
        content = path.read_bytes()
        position, bit = rng.randrange(len(content)), 1 << rng.randrange(8)
        flipped = bytearray(content)
        flipped[position] ^= bit
        path.write_bytes(flipped)
        code, output = cli("report", run, "--format", "parquet", "--output", run.parent / "out")
        if code == 0:
            try:
                n_silent += not same(numbers(run), wanted)
            except Exception:
                n_silent += 1
        else:
            assert code == 2, output
        path.write_bytes(content)
        shutil.rmtree(run.parent / "out", ignore_errors=True)
    assert n_silent == 0


def test_what_is_damaged_is_computed_again(finished, tmp_path):
    for name in ("config.yaml", "cube.zarr", "run"):
        source = finished / name
        shutil.copytree(source, tmp_path / name) if source.is_dir() else shutil.copy(
            source, tmp_path
        )
    run, wanted = tmp_path / "run", numbers(finished / "run")
    shutil.rmtree(run / "results.zarr" / "auc")
    os.truncate(next(p for p in (run / "results.zarr" / "level").rglob("*") if p.name == "0"), 3)
    text = Path(tmp_path / "config.yaml").read_text().replace(str(finished), str(tmp_path))
    (tmp_path / "config.yaml").write_text(text)
    code, output = cli("audit", tmp_path / "config.yaml")
    assert code == 0, output
    assert same(numbers(run), wanted)
