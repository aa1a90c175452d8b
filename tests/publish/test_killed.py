"""A publisher that is killed at any moment: a whole release with its entry, or neither."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from oracles.publications import BUDGET, LAPLACE, plan

from clusterscale.analyses.publish.series import Series
from clusterscale.api import check
from clusterscale.errors import ClusterscaleError

pytestmark = [pytest.mark.nightly(group="faults"), pytest.mark.timeout(1800)]

MOMENTS = {"zarr": 12, "csv": 8}
"""Number of kills: a folder that is renamed, and two files of which the second one decides."""

ENDINGS = {"zarr": ".zarr", "csv": ".csv"}

# A publisher that is killed just before an operation of its main thread on the file system.
# Where there is none, it writes how many there were. Moments do not depend on how fast it is.
KILLED = """
import itertools, os, signal, sys, threading
from clusterscale.cli import main
main_thread = threading.main_thread()  # others write how far it is, now and then
numbers, at, told = itertools.count(1), int(os.environ["AT"]), os.environ["TOLD"]
for name in ("fsync", "rename", "link", "replace", "mkdir", "unlink", "rmdir"):
    def counted(*given, _original=getattr(os, name), **named):
        if threading.current_thread() is main_thread and next(numbers) == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return _original(*given, **named)
    setattr(os, name, counted)
sys.argv = ["clusterscale", "publish", *sys.argv[1:]]
try:
    main()
finally:
    with open(told, "w") as file:
        file.write(str(next(numbers)))
"""


def config(folder, cube, form):
    path = folder / "publish.yaml"
    fields = {
        "cube": cube.uri,
        "output": str(folder / "run"),
        "cluster": {"name": "serial"},
        "publish": {
            "mechanism": LAPLACE,
            "period": {"name": "week-1", "first": 0, "epochs": 48},
            "series": "places",
            "budget": BUDGET,
            "format": form,
            "releases": str(folder / "releases"),
        },
    }
    path.write_text(yaml.safe_dump(fields))
    return path


def start(path, at=0):
    return subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        env=os.environ | {"AT": str(at), "TOLD": str(path.with_suffix(".told"))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def finish(process):
    """Return the exit code, and what was said."""
    said, _ = process.communicate()
    return process.returncode, said.decode()


def run(path):
    """Publish to the end, and return the number of operations."""
    code, said = finish(start(path))
    assert code == 0, said
    return int(path.with_suffix(".told").read_text())


def readable(folder, form):
    """Return the releases that ``clusterscale check`` accepts, whatever their names."""
    found = []
    for path in Path(folder, "releases/places").glob("*"):
        if path.name.startswith(".") or path.name.endswith("-metadata.json"):
            continue
        try:
            (result,) = check([str(path)])
        except (ClusterscaleError, IsADirectoryError):
            continue
        found.append((path.name, result.verdict))
    return found


def spent(folder, form):
    series = Series(plan(folder, week=9, format=form), "UTC")
    return [entry.number for entry in series.entries], series.spent()


@pytest.mark.parametrize("form", ENDINGS)
def test_a_killed_publisher_leaves_a_whole_release_or_none(form, cube, tmp_path):
    published = [(f"places-0001{ENDINGS[form]}", "pass")], ([1], 1.0)
    for name in ("first", "whole"):  # the first one may also fill caches of compiled functions
        whole = tmp_path / name
        whole.mkdir()
        n_operations = run(config(whole, cube, form))
        assert (readable(whole, form), spent(whole, form)) == published
    moments, outcomes = random.Random(30), set()  # of the kills; the noise has no seed
    for number in range(MOMENTS[form]):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        path = config(folder, cube, form)
        low, high = (n_operations * n // MOMENTS[form] for n in (number, number + 1))
        at = moments.randint(low + 1, high - 1)
        code, said = finish(start(path, at))
        assert code == -signal.SIGKILL, f"{at} of {n_operations}: {said}"
        found = readable(folder, form), spent(folder, form)
        assert found in (([], ([], 0.0)), published), f"{at} of {n_operations}"
        outcomes.add(bool(found[0]))
        run(path)
        assert (readable(folder, form), spent(folder, form)) == published
        series = folder / "releases/places"
        left = [*series.glob(".*.partial"), *(folder / "run").rglob("*.npz")]
        assert not left, "values that were not published, and exact counts"
    assert outcomes == {True, False}, "kills before and after the release"


def test_two_publishers_at_once(cube, tmp_path):
    """Both start at the same time: one publishes, and the other one then finds the release."""
    path = config(tmp_path, cube, "zarr")
    other = tmp_path / "other.yaml"
    other.write_text(path.read_text().replace("week-1", "week-2").replace("/run", "/run-2"))
    running = [start(one) for one in (path, other)]
    codes = sorted(finish(process)[0] for process in running)
    assert codes in ([0, 0], [0, 75])
    numbers, total = spent(tmp_path, "zarr")
    assert numbers == [*range(1, codes.count(0) + 1)]
    assert total == codes.count(0)
    for one in (path, other):
        run(one)
    assert spent(tmp_path, "zarr") == ([1, 2], 2.0)
    third = tmp_path / "third.yaml"
    third.write_text(path.read_text().replace("week-1", "week-3").replace("/run", "/run-3"))
    code, said = finish(start(third))
    assert code == 4
    assert "would spend" in said
