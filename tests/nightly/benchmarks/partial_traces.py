"""Time to audit a release of 9,000 people when the traces of only 300 of them are known.

``python tests/nightly/benchmarks/partial_traces.py [--everyone]`` simulates 20,000 commuters,
publishes the counts of 9,000 of them for a week, and re-audits the release with two workers and the
traces of 300. With ``--everyone`` it is audited with all traces too, for comparison.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from typing import Any

import numpy as np
from show import sum_up

import clusterscale as cs
from clusterscale.config import ReleasesConfig
from clusterscale.cube.synthetic import synthesise
from clusterscale.cube.writer import new_cube
from clusterscale.groups import count_visits
from clusterscale.release import TABLE_FORMATS, RawRelease, ReleaseMetadata
from clusterscale.runtime import Local
from clusterscale.seeds import stream

WEEK = 168
METHOD = {"name": "threshold", "k": 5}


def make(folder: str, n_people: int, size: int, n_known: int) -> dict[str, str]:
    """Write the cubes and the release, and return their addresses."""
    cube = synthesise("tfl", f"{folder}/all.zarr", users=n_people, seed=3)
    rng = stream(3, "members")
    members = np.sort(rng.choice(n_people, size, replace=False))
    known = np.sort(rng.choice(n_people, n_known, replace=False))
    traces, uri = cube.traces(known), f"{folder}/some.zarr"
    with new_cube(uri, cube.regions, cube.calendar, provenance={}, pseudonyms=True) as writer:
        writer.append(cube.pseudonyms(known).tolist(), np.diff(traces.offsets), traces.cells)
    counts = count_visits(cube.traces(None, (0, WEEK)), members[None])[0]
    values = np.where(counts < METHOD["k"], 0.0, counts)  # type: ignore[operator]
    times = (cube.calendar.start + cube.calendar.step * np.arange(WEEK)).astype("datetime64[s]")
    metadata = ReleaseMetadata(group_size=size)
    table = RawRelease(values, cube.regions.names, times, metadata=metadata)
    TABLE_FORMATS.create("long").write(f"{folder}/week.csv", table)
    return {"all": cube.uri, "some": uri, "release": f"{folder}/week.csv"}


def audit(cube: str, release: str, output: str, n_people: int) -> dict[str, Any]:
    """Return the row of the ledger."""
    zero = {"name": "zero_knowledge", "crowd": "counts", "refit": "shared"}
    config = ReleasesConfig.model_validate(
        {
            "cube": cube,
            "output": output,
            "releases": [{"counts": release, "mechanism": METHOD, "population": n_people}],
            "audit": {
                "seed": 1,
                "targets": {"tertiles": 4},
                "priors": [zero | {"correction": "matched"}],
                "attacks": [{"name": "projection"}, {"name": "likelihood"}],
            },
        }
    )
    rows = cs.reaudit(config, executor=Local(workers=2), progress=False)
    return {name: rows[name].values[0] for name in rows}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--everyone", action="store_true")
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--group-size", type=int, default=9_000)
    parser.add_argument("--known", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = make(folder, options.people, options.group_size, options.known)
        for known in ("some", "all") if options.everyone else ("some",):
            began = time.perf_counter()
            row = audit(made[known], made["release"], f"{folder}/audit-{known}", options.people)
            seconds = time.perf_counter() - began
            print(
                f"{known} traces known: {seconds:.0f} s, {row['verdict']}, mean privacy loss of "
                f"{row['n_targets']} targets {row['mean_privacy_loss']:.3f} "
                f"({row['mean_privacy_loss_low']:.3f} to {row['mean_privacy_loss_high']:.3f}), "
                f"share above one half {row['share_above']:.3f} {row['error']}\n{row['reasons']}",
                flush=True,
            )
            sum_up("partial_traces", f"{known} traces known: {seconds:.0f} s, {row['verdict']}")


if __name__ == "__main__":
    main()
