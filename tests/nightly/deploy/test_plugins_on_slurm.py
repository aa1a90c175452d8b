"""An audit with the plug-ins of an installed package runs in the jobs of a real Slurm."""

import pytest
from doubles.slurm import Queue
from plugins.installing import call, install, names_in_report, write_config

pytest.importorskip("dask_jobqueue")
pytest.importorskip("hatchling")

pytestmark = [
    pytest.mark.nightly(group="slurm"),
    pytest.mark.dask,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("slurm-audits"),
]


def test_jobs_use_the_plugins(slurm, cube, tmp_path):
    """Jobs inherit the environment of the driver, and so the folder of the package."""
    environment = slurm | {"PYTHONPATH": install(tmp_path / "installed")["PYTHONPATH"]}
    shared = str(tmp_path / "shared")
    place = {"name": "slurm", "jobs": 1, "interface": "lo", "memory": "900MiB", "shared": shared}
    try:
        call(environment, "audit", write_config(tmp_path, cube, **place))
    finally:
        Queue(environment).empty()
    assert names_in_report(tmp_path) == {"uniform_noise", "matching_cells", "largest_error"}
