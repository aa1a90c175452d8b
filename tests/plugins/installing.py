"""Installing the example, and a config that uses it."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

EXAMPLE = Path(__file__).with_name("example")
AUDIT = {
    "targets": {"random": 2},
    "group_sizes": [6],
    "periods": [{"name": "all", "first": 0, "epochs": 48}],
    "priors": [{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 20}],
    "mechanisms": [{"name": "exact"}, {"name": "uniform_noise", "width": 3.0}],
    "attacks": [{"name": "matching_cells"}],
    "utility": {"groups": 4, "measures": [{"name": "largest_error"}]},
    "verdict": {"trials": 1000},
}


def install(folder):
    """Install the example into a folder; return the environment of a process that imports it."""
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", folder)
    pip = (sys.executable, "-m", "pip", "install", "--disable-pip-version-check")
    subprocess.run([*pip, *options, EXAMPLE], check=True)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | {"PYTHONPATH": path, "COLUMNS": "200"}


def call(environment, *arguments, code=0):
    """Run the command line; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "clusterscale", *map(str, arguments)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def write_config(folder, cube, **cluster):
    """Write the config of an audit with the plug-ins; return its path."""
    file = folder / "run.yaml"
    fields = {"cube": cube.uri, "output": str(folder / "run"), "audit": AUDIT, "cluster": cluster}
    file.write_text(yaml.safe_dump(fields))
    return file


def names_in_report(folder):
    """Return which of the plug-ins the page of the run names."""
    page = (folder / "run" / "report.html").read_text()
    return {name for name in ("uniform_noise", "matching_cells", "largest_error") if name in page}
