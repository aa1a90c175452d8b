"""What benchmarks import exists."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("test_"))


@pytest.mark.slow
def test_every_script_can_be_imported():
    paths = [str(HERE), str(HERE.parents[1])]
    code = f"import sys; sys.path[:0] = {paths!r}; import {', '.join(SCRIPTS)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
