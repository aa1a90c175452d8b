"""What it takes to recover the whereabouts of many commuters (`tfl`, 583 ROIs with the null ROI).

    python tests/nightly/benchmarks/recovery.py FOLDER --users 10000 100000

Three weeks are observed, the fourth is inferred: eight priors, the three strategies of PETS17, both
goals, bare counts. A line is a whole ``clusterscale recover`` as a user would start it; memory is
the most that any one process held. Cubes are made in FOLDER where they are not there yet.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from show import sum_up
from verbs import measure

import clusterscale as cs


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, nargs="*", default=[10_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--memory", default="3GB", help="of a worker")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for users in sorted(given.users):
        uri, output = given.folder / f"tfl{users}.zarr", given.folder / "recovered"
        if not uri.exists():
            cs.synthesise("tfl", str(uri), users=users, seed=1)
        shutil.rmtree(output, ignore_errors=True)
        fields = {"cube": str(uri), "output": str(output), "recovery": {"observed": 504}}
        options = ["--workers", str(given.workers), "--memory", given.memory]
        seconds, memory = measure("recover", fields, given.folder, *options)
        lines.append(f"{users:>12,} {seconds:>9.1f} s {memory:>7.2f} GB")
    print(f"{'users':>12} {'time':>11} {'memory':>10}")
    print("\n".join(lines))
    sum_up("recovery", f"{1e3 * seconds / users:.2f} ms a user, {memory:.2f} GB")


if __name__ == "__main__":
    main()
