"""A few hostile inputs of each kind, and that the runner notices what is wrong with a command.

The cases run in another process, which has no threads and so can be forked.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PLANTED = {
    1: "signal",
    2: "hang",
    3: "exit code",
    4: "traceback",
    5: "files left",
    6: "id leaked",
    7: "message too long",
    8: "control character",
    9: "different result",
}


def fuzz(*words, folder):
    """Run the script; return its exit code and what it printed."""
    command = [sys.executable, str(HERE / "fuzz.py"), *map(str, words), "--folder", str(folder)]
    path = os.pathsep.join([str(HERE.parents[2]), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("kind", "cases"),
    [
        ("configs", 60),
        ("sources", 30),
        ("cubes", 8),
        ("runs", 4),
        ("releases", 6),
        ("published", 60),
    ],
)
@pytest.mark.nightly(group="hostile")
def test_hostile_inputs_are_handled(kind, cases, tmp_path):
    code, printed = fuzz(kind, "--cases", cases, "--seed", 1, folder=tmp_path)
    assert code == 0, printed
    assert re.search(rf"{kind} +{cases} ", printed)
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly(group="hostile")
def test_every_planted_fault_is_noticed(tmp_path):
    code, printed = fuzz("planted", "--cases", 10, "--cpu-seconds", 2, folder=tmp_path)
    assert code == 1
    parts = re.split(r"planted --seed 0 --only (\d+): .*", printed)
    found = {int(number): words for number, words in zip(parts[1::2], parts[2::2], strict=True)}
    assert found.keys() == PLANTED.keys()
    for number, name in PLANTED.items():
        assert f"\n  {name}: " in found[number]


@pytest.mark.nightly(group="hostile")
def test_a_case_that_waits_is_a_hang(tmp_path):
    code, printed = fuzz("planted", "--only", 10, "--wall-seconds", 2, folder=tmp_path)
    assert code == 1
    assert "hang: " in printed
