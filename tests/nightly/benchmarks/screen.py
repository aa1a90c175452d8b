"""How long everyone takes, from the store to results: time, memory and growth with users.

    python tests/nightly/benchmarks/screen.py FOLDER --users 10000 100000 1000000 [--cube CABS ...]

Each line is one run of ``clusterscale screen`` as a user would start it: interpreter, local Dask
cluster, counting, scoring and the results on disk, under Laplace noise of ε = 1 for an event, three
attacks, 200 groups, one week. Cubes of synthetic commuters are made in FOLDER where they are not
there yet, outside the time. Memory is the most that any one process held (the kernel's own count).
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
from show import sum_up
from verbs import measure

import clusterscale as cs


def plan(cube: str, output: str, group_size: int) -> dict[str, object]:
    """Return a config; a screen does not look at its targets, priors and attacks."""
    return {
        "cube": cube,
        "output": output,
        "audit": {
            "seed": 1,
            "null_roi": False,
            "targets": {"random": 1},
            "group_sizes": [group_size],
            "priors": [{"name": "perfect"}],
            "mechanisms": [{"name": "laplace", "epsilon": 1.0, "unit": "event"}],
            "attacks": [{"name": "projection"}],
        },
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--cube", nargs="*", default=[], help="cubes of others, groups of 100")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    runs = [(uri, 100) for uri in given.cube]
    for users in sorted(given.users):
        uri = given.folder / f"tfl{users}.zarr"
        if not uri.exists():
            cs.synthesise("tfl", str(uri), users=users, seed=1)
        runs.append((str(uri), 1000))
    points, lines = [], []
    for uri, size in runs:
        cube = cs.TraceCube(uri)
        output = given.folder / "screened"
        shutil.rmtree(output, ignore_errors=True)
        fields, options = plan(uri, str(output), size), ("--workers", str(given.workers))
        seconds, memory = measure("screen", fields, given.folder, *options)
        microseconds = 1e6 * seconds / cube.n_users
        lines.append(
            f"{cube.n_users:>12,} {cube.n_events:>15,} {seconds:>9.1f} s {memory:>7.2f} GB "
            f"{microseconds:>9.0f} µs a user"
        )
        if size == 1000:
            points.append((cube.n_users, seconds))
    print(f"{'users':>12} {'events':>15} {'time':>11} {'memory':>10}")
    print("\n".join(lines))
    if len(points) > 1:
        users, seconds = np.log(np.array(points)).T
        print(f"time grows with users to the power {np.polyfit(users, seconds, 1)[0]:.2f}")
        if len(points) > 2:
            slope = (seconds[-1] - seconds[-2]) / (users[-1] - users[-2])
            print(f"between the last two: {slope:.2f}")
    sum_up("screen", f"{microseconds:.0f} µs a user", f"{memory:.2f} GB")


if __name__ == "__main__":
    main()
