"""One release of the cabs, published in six ways, with the traces of all, some or none of them.

``python tests/nightly/real/partial_traces.py CUBE [--size 200] [--targets 3]``: for each way and
each share of known traces the verdict of a re-audit, what the consistency checks found, and the AUC
of the strongest attack with its mean over the targets. ``CUBE`` is that of ``configs/cabs.yaml``.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import clusterscale as cs
from clusterscale.config import ReleasesConfig
from clusterscale.contracts import Bounds
from clusterscale.cube import TraceCube
from clusterscale.cube.writer import new_cube
from clusterscale.groups import count_visits
from clusterscale.mechanisms import MECHANISMS
from clusterscale.release import TABLE_FORMATS, RawRelease, ReleaseMetadata
from clusterscale.seeds import stream

WAYS: dict[str, dict[str, Any]] = {
    "raw": {"name": "exact"},
    "k = 5, then expanded": {
        "name": "chain",
        "steps": [{"name": "threshold", "k": 5}, {"name": "expand", "factor": 5.13}],
    },
    "expanded, then k = 5": {
        "name": "chain",
        "steps": [{"name": "expand", "factor": 5.13}, {"name": "threshold", "k": 5}],
    },
    "random rounding to 3": {"name": "round_to_base", "base": 3},
    "cell keys": {"name": "cell_key", "deviation": 5, "variance": 3.0},
    "Laplace, ε 1 a visit": {
        "name": "laplace",
        "epsilon": 1.0,
        "unit": "event",
        "integers": "round",
    },
}
SHARES = (1.0, 0.2, 0.05, 0.0)
FIRST, WEEK = 0, 168


def some_of(cube: TraceCube, users: np.ndarray, uri: str) -> str:
    """Write a cube of some users, and return its address."""
    traces = cube.traces(users)
    names = [f"cab {user}" for user in users]
    with new_cube(uri, cube.regions, cube.calendar, provenance={}, pseudonyms=True) as writer:
        writer.append(names, np.diff(traces.offsets), traces.cells)
    return uri


def publish(cube: TraceCube, members: np.ndarray, folder: str) -> dict[str, dict[str, Any]]:
    """Write the release in each way as a long CSV, and return the entries of a catalogue."""
    counts = count_visits(cube.traces(None, (FIRST, FIRST + WEEK)), members[None])
    times = (cube.calendar.start + cube.calendar.step * np.arange(WEEK)).astype("datetime64[s]")
    entries = {}
    for number, (title, fields) in enumerate(WAYS.items()):
        mechanism = MECHANISMS.create(**fields)
        bound = mechanism.bind(Bounds(1, 1, 1, 1, 1, False))
        values = bound.release(counts, group_size=len(members), rng=stream(7, "publish", number))
        values = np.asarray(values[0], np.float64)
        table = RawRelease(
            values, cube.regions.names, times, metadata=ReleaseMetadata(group_size=len(members))
        )
        uri = f"{folder}/{number}.csv"
        TABLE_FORMATS.create("long").write(uri, table)
        entries[title] = {"counts": uri, "name": f"way {number}", "mechanism": fields}
    return entries


def audit(
    entry: dict[str, Any], cube: str | None, n_people: int, folder: str, n_targets: int
) -> dict[str, Any]:
    """Return the new row of the ledger."""
    zero = {"name": "zero_knowledge", "crowd": "counts", "refit": "shared"}
    config = ReleasesConfig.model_validate(
        {
            "cube": cube,
            "output": folder,
            "releases": [entry | {"population": n_people}],
            "audit": {
                "seed": 1,
                "targets": {"tertiles": n_targets},
                "priors": [
                    {"name": "known_subset", "alpha": 0.5, "training": 200},
                    zero | {"correction": "matched"},
                ],
                "attacks": [{"name": "projection"}, {"name": "likelihood"}],
                "utility": {"groups": 10, "measures": [{"name": "pearson"}]},
                "control": False,
            },
            "everyone": False,
        }
    )
    rows = cs.reaudit(config, progress=False)
    return {name: rows[name].values[0] for name in rows}


def describe(row: dict[str, Any]) -> str:
    """Return the verdict, the mean loss of the targets, and the checks that did not pass."""
    if row["error"]:
        return f"error: {row['error']}"
    low, high = row["mean_privacy_loss_low"], row["mean_privacy_loss_high"]
    reasons = [why for why in json.loads(row["reasons"]) if why["level"] not in ("pass", "unknown")]
    texts = "; ".join(f"{why['check']} ({why['level']})" for why in reasons)
    loss = f"mean loss {row['mean_privacy_loss']:.3f} ({low:.3f} to {high:.3f})"
    return f"{row['verdict']:5} {loss}, {row['n_targets']} targets; {texts}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cube")
    parser.add_argument("--size", type=int, default=200)
    parser.add_argument("--targets", type=int, default=3)
    options = parser.parse_args()
    cube = TraceCube(options.cube)
    rng = stream(7, "members")
    members = np.sort(rng.choice(cube.n_users, options.size, replace=False))
    order = rng.permutation(cube.n_users)
    with tempfile.TemporaryDirectory() as folder:
        entries = publish(cube, members, folder)
        cubes: dict[float, str | None] = {1.0: cube.uri, 0.0: None}
        for share in SHARES[1:-1]:
            users = np.sort(order[: round(share * cube.n_users)])
            cubes[share] = some_of(cube, users, f"{folder}/{share}.zarr")
        for title, entry in entries.items():
            checked = cs.check([entry["counts"]], mechanism=entry["mechanism"])
            found = [one.text for one in checked[0].results if one.level == "inconsistent"]
            print(f"{title}: check alone: {checked[0].verdict} {'; '.join(found)}", flush=True)
            for share in SHARES:
                began = time.perf_counter()
                where = str(Path(folder) / f"{entry['name']} {share}")
                row = audit(entry, cubes[share], cube.n_users, where, options.targets)
                seconds = time.perf_counter() - began
                print(f"  {share:4.0%} {seconds:5.1f} s  {describe(row)}", flush=True)


if __name__ == "__main__":
    main()
