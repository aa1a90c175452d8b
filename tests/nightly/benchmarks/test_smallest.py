"""Every benchmark runs at its smallest sizes and ends with one line of figures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusterscale.cube.synthetic import synthesise

pytestmark = [
    pytest.mark.nightly(group="benchmarks"),
    pytest.mark.timeout(1800),
    pytest.mark.dask,
]

HERE = Path(__file__).parent
HELPERS = {"bandwidth", "clock", "compare", "ours", "papers", "peers", "scaling", "show", "verbs"}
SMALLEST = {  # script: its arguments, of which FOLDER is a folder and CUBE a cube of 300 users
    "advice": "CUBE FOLDER --families 1 --goals counts --targets 4 --confirm 4",
    "brackets": "--audits 20 --pairs 10",
    "ceilings": "1",
    "certify": "CUBE --users 300",
    "defences": "--groups 5 --rois 20 --epochs 50 --cells 10000 --repeats 1",
    "differencing": "1 5",
    "engine": "--cube CUBE --alpha 0.5 --group-size 50 --targets 1 --without-papers",
    "explain": "FOLDER --only no-knowledge",
    "intervals": "--samples 20",
    "least_exposed": "FOLDER --goals 1",
    "levels": "--places 50 --hours 4",
    "local_start": "1",
    "many_targets": "FOLDER --targets 60",
    "neighbours": "--pairs 4",
    "partial_traces": "--people 1000 --group-size 300 --known 100",
    "publications": "--number 3",
    "publish": "FOLDER --users 500",
    "recovery": "FOLDER --users 100",
    "refits": "--draws 2 --attacks logistic projection",
    "scale": "FOLDER overhead --targets 20 --users 1000 --group-size 50 --training 40",
    "screen": "FOLDER --users 1500",
    "sharing": "FOLDER --users 2000 --workers 2",
    "simulated": "FOLDER --workers 20 200 --seconds 0.2 --targets 2000",
    "stability": "--chains 20",
    "tables": "--rows 20000 --zones 50",
    "traits": "FOLDER --users 200",
    "zero_knowledge": "FOLDER --targets 1 --users 1500 --group-size 100 --challenges 10",
}


@pytest.fixture(scope="module")
def cube(tmp_path_factory):
    uri = tmp_path_factory.mktemp("cubes") / "cube.zarr"
    synthesise("tfl", str(uri), users=300, seed=1)
    return uri


def test_every_script_is_here():
    scripts = {path.stem for path in HERE.glob("*.py") if not path.stem.startswith("test_")}
    assert scripts == HELPERS | SMALLEST.keys()


@pytest.mark.parametrize("script", SMALLEST)
def test_the_last_line_has_the_figures(script, cube, tmp_path):
    words = SMALLEST[script].replace("CUBE", str(cube)).replace("FOLDER", str(tmp_path)).split()
    search = os.pathsep.join(filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(HERE / f"{script}.py"), *words],
        env=os.environ | {"PYTHONPATH": search, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{script}: "), last
    assert any(mark.isdigit() for mark in last), last
    print(last)
