"""What it takes to describe many commuters (`tfl`, four weeks of 582 ROIs).

    python tests/nightly/benchmarks/traits.py FOLDER --users 10000 100000

All eleven characteristics of every user over all four weeks, unicity against everybody among them,
by the tasks that ``clusterscale traits`` runs, one after the other in this process; then the same
once more, for the first time compiles. Cubes are made in FOLDER where they are not there yet.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path

import numpy as np
from show import sum_up

import clusterscale as cs
from clusterscale.analyses.traits.mobility import (
    MeasureTask,
    UnicityTask,
    count_unique,
    measure,
    part_size,
    slices,
)
from clusterscale.cube.blocks import Source, ranges


def describe(cube: cs.TraceCube, memory: int) -> tuple[float, float, int]:
    """Return the seconds that movement and unicity take, and in how many slices of time."""
    source, span = Source.of(cube, null_roi=False, seed=0), (0, cube.n_epochs)
    began = time.perf_counter()
    active = np.zeros(cube.n_epochs, np.int64)
    for part in ranges(0, cube.n_users, part_size(cube)):
        (found,) = measure(MeasureTask(source, (span,), *part))
        active += found.active
    moved = time.perf_counter()
    parts = list(slices(cube, active, span, memory=memory, n_workers=1))
    for part in parts:
        count_unique(UnicityTask(source, part))
    return moved - began, time.perf_counter() - moved, len(parts)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--memory", type=int, default=2 * 10**9, help="bytes")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    head = "users", "movement", "unicity", "slices", "memory"
    print(("{:>12}" * len(head)).format(*head))
    for users in sorted(given.users):
        uri = given.folder / f"tfl{users}.zarr"
        made = uri.exists()
        cube = cs.TraceCube(uri) if made else cs.synthesise("tfl", uri, users=users, seed=1)
        for _ in range(2):
            moved, unique, n_slices = describe(cube, given.memory)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            cells = f"{users:,}", f"{moved:.2f} s", f"{unique:.2f} s", n_slices, f"{peak:.2f} GB"
            print(("{:>12}" * len(cells)).format(*cells), flush=True)
    sum_up("traits", f"{1e6 * (moved + unique) / users:.0f} µs a user", f"{peak:.2f} GB")


if __name__ == "__main__":
    main()
