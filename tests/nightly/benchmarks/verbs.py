"""A verb of the command line in a process of its own, timed."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml


def measure(verb: str, fields: dict[str, Any], folder: Path, *options: str) -> tuple[float, float]:
    """Run ``clusterscale VERB`` on a config; return its seconds and gigabytes.

    Memory is the most that any one process held, of all that were run so far: begin with the
    small ones.
    """
    config = folder / f"{verb}.yaml"
    config.write_text(yaml.safe_dump(fields))
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "clusterscale", verb, str(config), *options],
        check=True,
        stdout=sys.stdout,
        stderr=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - start
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
