"""How long a release takes, from the store to the published file: seconds, memory and bytes.

    python tests/nightly/benchmarks/publish.py FOLDER --users 1000000 10000000 [--slurm]

Each line is one run of ``clusterscale publish`` as a user would start it: interpreter, cluster,
counting of the first week of all users, at most ten visits of each user and day, discrete Laplace
noise of ε = 1 for a user's day drawn by OpenDP, and the Zarr store with its ledger. Cubes of
synthetic commuters are made in FOLDER where they are not there yet, outside the time. Memory is the
most that any one process of this machine held (the kernel's own count). With ``--slurm`` the two
workers are jobs of the Slurm that the environment reaches.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from show import sum_up
from verbs import measure

import clusterscale as cs
from clusterscale import storage

MECHANISM = {
    "name": "chain",
    "steps": [
        {"name": "cap_contributions", "per_day": 10},
        {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "discrete": True},
    ],
}


def plan(cube: str, folder: Path, cluster: dict[str, object], form: str) -> dict[str, object]:
    """Return a config that publishes the first week."""
    return {
        "cube": cube,
        "output": str(folder / "run"),
        "cluster": cluster,
        "publish": {
            "series": "bench",
            "period": {"name": "week", "first": 0, "epochs": 168},
            "mechanism": MECHANISM,
            "budget": {"unit": "user_day", "epsilon": 1.0},
            "format": form,
            "releases": str(folder / "releases"),
        },
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--users", type=int, nargs="*", default=[100_000, 1_000_000])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--formats", nargs="*", default=["zarr"])
    parser.add_argument("--slurm", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    cluster: dict[str, object] = {"name": "local", "workers": given.workers}
    if given.slurm:
        shared = str((given.folder / "slurm").absolute())
        cluster = {"name": "slurm", "interface": "lo", "memory": "3GiB", "shared": shared}
        cluster |= {"jobs": given.workers, "walltime": "00:50:00"}
    print(f"{'users':>12} {'events':>15} {'format':>8} {'time':>11} {'memory':>10} {'bytes':>12}")
    for users in sorted(given.users):
        uri = given.folder / f"tfl{users}.zarr"
        if not uri.exists():
            cs.synthesise("tfl", str(uri), users=users, seed=1)
        cube = cs.TraceCube(uri)
        for form in given.formats:
            folder = given.folder / "published"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            seconds, memory = measure("publish", plan(str(uri), folder, cluster, form), folder)
            series = folder / "releases" / "bench"
            (release,) = series.glob("bench-0001.*[!n]")
            print(
                f"{cube.n_users:>12,} {cube.n_events:>15,} {form:>8} {seconds:>9.1f} s "
                f"{memory:>7.2f} GB {storage.size(str(release)):>12,}",
                flush=True,
            )
    sum_up("publish", f"{1e6 * seconds / cube.n_users:.1f} µs a user", f"{memory:.2f} GB")


if __name__ == "__main__":
    main()
