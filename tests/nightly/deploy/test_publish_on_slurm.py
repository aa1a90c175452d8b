"""A release whose users are counted by the jobs of a real Slurm."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from doubles.slurm import Queue
from doubles.waiting import LIMIT

from clusterscale.release import read_table

pytest.importorskip("dask_jobqueue")
pytest.importorskip("cryptography")

pytestmark = [
    pytest.mark.nightly(group="slurm"),
    pytest.mark.dask,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("slurm-audits"),
]

COMMAND = Path(sys.executable).with_name("clusterscale")


def test_jobs_count_everyone_once(slurm, cube, dense, tmp_path):
    path = tmp_path / "publish.yaml"
    fields = {
        "cube": cube.uri,
        "output": str(tmp_path / "run"),
        "cluster": {
            "name": "slurm",
            "jobs": 2,
            "memory": "900MiB",
            "interface": "lo",
            "shared": str(tmp_path / "shared"),
        },
        "publish": {
            "mechanism": {"name": "threshold", "k": 3},
            "period": {"name": "days", "first": 0, "epochs": 48},
            "series": "places",
            "without_guarantee": True,
            "releases": str(tmp_path / "releases"),
        },
    }
    path.write_text(yaml.safe_dump(fields))
    done = subprocess.run(
        [COMMAND, "publish", path], env=slurm, capture_output=True, text=True, timeout=2 * LIMIT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = dense.sum(axis=0)
    release = read_table(str(tmp_path / "releases/places/places-0001.zarr"))
    assert (release.values == np.where(counts < 3, 0, counts)).all()
    assert not Queue(slurm).jobs()
    assert not [*(tmp_path / "run").rglob("*.npz")]
