"""The share of exposed users against the size of the group, and what `gate` says at each size.

``python tests/nightly/real/exposure_by_size.py DATA riders|cabs [--release 900] [--groups 60]``:
the share of users with an AUC above .75, by a screen, under eight mechanisms; and, for a release of
one size, the verdict of the audit at each size: first by its exposure alone, as if the size did not
matter, then the verdict of `gate`. ``DATA`` is the folder that CLUSTERSCALE_DATA names.
"""

import argparse
import tempfile
from pathlib import Path

from cabs import ingest_cabs

import clusterscale as cs
from clusterscale.cube import Calendar, Grid, TraceCube
from clusterscale.ingestion import READERS, IngestOptions, ingest
from clusterscale.reauditing import Policy
from clusterscale.reporting import Run
from clusterscale.reporting.screening import read_cases, shares_by_size
from clusterscale.schema import with_labels

MECHANISMS = (
    {"name": "exact"},
    {"name": "laplace", "epsilon": 1.0, "unit": "event", "discrete": True},
    {"name": "threshold", "k": 5},
    {"name": "threshold", "k": 15},
    {"name": "round_to_base", "base": 5},
    {"name": "fixed_ranges", "size": 10},
    {"name": "cell_key", "deviation": 5, "variance": 3.0},
    {"name": "laplace", "epsilon": 1.0, "unit": "event", "discrete": True, "clip": True},
)
SIZES = {"riders": (20, 100, 250, 500, 900, 1300), "cabs": (20, 50, 100, 180, 260)}
POLICY = Policy(share_exposed=0.05, promise="pass", float_noise="pass")


def read(data: Path, name: str, uri: str) -> TraceCube:
    """Ingest the riders or the cabs."""
    if name == "cabs":
        return ingest_cabs(data, uri)
    options = IngestOptions(
        reader=READERS.create("events"),
        locator=Grid.parse("42.05,-72.72,42.45,-72.48/20x12"),
        calendar=Calendar.parse("2018-08-20T00:00", "1h", 28 * 24, "America/New_York"),
    )
    ingest(str(data / "valleybike_1min.parquet"), uri, options)
    return TraceCube(uri)


def plan(sizes: tuple[int, ...], n_groups: int) -> cs.AuditPlan:
    """Return an audit of a few targets, with a screen of everyone."""
    return cs.AuditPlan(
        seed=1,
        null_roi=False,
        targets={"random": 4},
        priors=[{"name": "perfect", "groups": 100}],
        group_sizes=sizes,
        periods=[{"name": "first week", "first": 0, "epochs": 168}],
        mechanisms=MECHANISMS,
        attacks=[{"name": "projection"}],
        control=False,
        utility={"measures": [{"name": "pearson"}], "groups": 2},
        verdict={"trials": 1000},
        screen={"groups": n_groups, "reference": 40, "attacks": [{"name": "projection"}]},
    )


def show(title: str, sizes: tuple[int, ...], rows: dict[str, list[str]]) -> None:
    """Print a table."""
    print(f"\n{title}\n{'':52}" + "".join(f"{size:>12,}" for size in sizes))
    for name, cells in rows.items():
        print(f"{name[:51]:52}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def verdicts(run: Run, mechanism: str, size: int, release: int) -> str:
    """Return the verdict of the audit at a size by exposure alone, and that of `gate`."""
    one = Run.of(part.sel(group_size=[size]) for part in (run.audit, run.screen))
    found = cs.gate(one, POLICY, mechanism, group_size=release)
    exposure = [reason for reason in found.reasons if reason["check"] == "share_exposed"]
    return f"{exposure[0]['level']}, {found.verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("name", choices=SIZES)
    parser.add_argument("--release", type=int)
    parser.add_argument("--groups", type=int, default=60)
    options = parser.parse_args()
    sizes = SIZES[options.name]
    release = options.release or sizes[-2]
    with tempfile.TemporaryDirectory() as folder:
        cube = read(options.data, options.name, f"{folder}/cube.zarr")
        chosen, run = plan(sizes, options.groups), f"{folder}/run"
        executor = cs.SerialExecutor()
        screen = cs.screen(chosen, cube, run, executor, progress=False)
        ((_, _, shares),) = shares_by_size(list(read_cases(with_labels(screen))))
        title = f"{cube.n_users:,} {options.name}: share of users with an AUC above .75, by size"
        rows = {name: [f"{share:.1%}" for share in each] for name, each in shares.items()}
        show(title, sizes, rows)
        audit = cs.audit(chosen, cube, run, executor, progress=False)
        both = Run.of([audit, screen])
        rows = {
            name: [verdicts(both, name, size, release) for size in sizes]
            for name in map(str, both.audit.mechanism.values)
        }
        show(f"limit 5 %, release of {release:,}: exposure alone, then gate", sizes, rows)
        for name in rows:
            found = cs.gate(both, POLICY, name, group_size=release)
            for reason in found.reasons:
                if reason["level"] != "pass":
                    print(f"  {name}: {reason['level']}: {reason['text']}", flush=True)


if __name__ == "__main__":
    main()
