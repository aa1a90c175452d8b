"""What thousands of tiny tasks take: seconds, files, and the time to go on with the last tenth.

    python tests/nightly/benchmarks/many_targets.py FOLDER --targets 5000

Each row is an audit by the command line, from the interpreter to the report; every target is
attacked by ``projection`` in groups of 20. Then the results and a tenth of the records are removed,
and the same command goes on. Processor seconds are of all processes; files are those of the run.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml
from show import sum_up

import clusterscale as cs

CLUSTERS = {
    "serial": {"name": "serial"},
    "local 2": {"name": "local", "workers": 2},
    "local 4": {"name": "local", "workers": 4},
}
AUDIT = {
    "seed": 1,
    "null_roi": False,
    "group_sizes": [20],
    "periods": [{"name": "day", "first": 0, "epochs": 24}],
    "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 20}],
    "mechanisms": [{"name": "exact"}],
    "attacks": [{"name": "projection"}],
    "control": False,
}


def run(config: Path) -> tuple[float, float]:
    """Run an audit; return its seconds, and those of all its processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    words = [sys.executable, "-m", "clusterscale", "audit", str(config)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(cube: Path, folder: Path, cluster: dict[str, object], n_targets: int) -> list[str]:
    """Return the cells of a row."""
    output, config = folder / "run", folder / "config.yaml"
    shutil.rmtree(output, ignore_errors=True)
    audit = AUDIT | {"targets": {"random": n_targets}}
    fields = {"cube": str(cube), "output": str(output), "cluster": cluster, "audit": audit}
    config.write_text(yaml.safe_dump(fields))
    seconds, used = run(config)
    journal = sorted((output / "journal").rglob("*.*"))
    n_files = sum(len(names) for _, _, names in os.walk(output))
    shutil.rmtree(output / "results.zarr")
    for file in journal[:: 10 if len(journal) >= 10 else 1]:
        file.unlink()
    resumed, _ = run(config)
    return [f"{seconds:.0f}", f"{used:.0f}", f"{n_files:,}", f"{len(journal):,}", f"{resumed:.0f}"]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--targets", type=int, default=5000)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    cube = given.folder / f"tfl{given.targets}.zarr"
    if not cube.exists():
        cs.synthesise("tfl", str(cube), users=given.targets * 11 // 10, seed=1)  # some stay at home
    head = ("seconds", "processor", "files", "records", "resumed")
    print(" ".join(f"{name:>10}" for name in ("cluster", *head)))
    rows = []
    for name, cluster in CLUSTERS.items():
        cells = measure(cube, given.folder, cluster, given.targets)
        print(" ".join(f"{cell:>10}" for cell in (name, *cells)), flush=True)
        rows.append(f"{name}: {cells[0]} s, {cells[2]} files, resumed in {cells[4]} s")
    sum_up("many_targets", *rows)


if __name__ == "__main__":
    main()
