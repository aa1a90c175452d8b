"""Time and memory for a table of trips between places: reading it, checking it, and a screen.

    python tests/nightly/benchmarks/tables.py [--rows 10_000_000] [--zones 2_500] [--screen]

makes Parquet files of one day and prints, each in a process of its own,

- reading: the table, and one of twice the rows over the same pairs and hours; beside them, DuckDB
  and Polars, where they are installed, add up the flow of each pair and hour;
- ``clusterscale check`` of unchanged, noisy and suppressed counts, beside the next day and beside
  a table of the same hours;
- with ``--screen``, ``clusterscale ingest`` of trips between these pairs and ``clusterscale
  screen`` of all people, with the memory of all processes together.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray
from show import sum_up

HOURS = 24
START = 1_772_409_600  # 2026-03-02
GROUP_SIZE = 10_000
METHODS = {
    "exact": "exact",
    "laplace": "laplace(epsilon=1.0, sensitivity=1.0, integers='round')",
    "threshold": "threshold(k=5, shown='hidden')",
}


def pairs_of(n_zones: int, n_pairs: int) -> NDArray[np.int64]:
    """Return the pairs of zones that have trips, increasing."""
    return np.sort(np.random.default_rng(1).choice(n_zones**2, n_pairs, replace=False))


def write(
    path: Path, pairs: NDArray[np.int64], cells: NDArray[np.int64], flow: NDArray[np.int64],
    n_zones: int, day: int = 0,
) -> None:  # fmt: skip
    """Write rows of origin, destination, hour and count, of cells over (pair, hour)."""
    origins, destinations = np.divmod(pairs[cells // HOURS], n_zones)
    names = pa.array([f"{i:05}" for i in range(n_zones)])
    table = pa.table(
        {
            "origin": pa.DictionaryArray.from_arrays(origins.astype(np.int32), names),
            "destination": pa.DictionaryArray.from_arrays(destinations.astype(np.int32), names),
            "datetime": pa.array(START + (cells % HOURS + HOURS * day) * 3600, pa.int64()),
            "flow": flow,
        }
    )
    pq.write_table(table, path, row_group_size=1 << 20)


def make(path: Path, n_rows: int, n_zones: int, n_pairs: int) -> None:
    """Write distinct rows over all pairs and hours."""
    rng = np.random.default_rng(1)
    cells = np.sort(rng.choice(n_pairs * HOURS, n_rows, replace=False))
    write(path, pairs_of(n_zones, n_pairs), cells, rng.geometric(0.2, n_rows), n_zones)


def publish(folder: Path, n_rows: int, n_zones: int, n_pairs: int) -> None:
    """Write a table by each method, that of the next day, and one of most people of the first."""
    pairs, noise_of = pairs_of(n_zones, n_pairs), np.random.default_rng(7)
    for name, seed, day in (("day", 5, 0), ("next", 6, 1), ("part", 5, 0)):
        rng = np.random.default_rng(seed)
        counts = np.zeros(n_pairs * HOURS, np.int64)
        counts[rng.choice(len(counts), n_rows, replace=False)] = rng.geometric(0.2, n_rows)
        if name == "part":
            counts = np.random.default_rng(9).binomial(counts, 0.9)
        noise = np.rint(noise_of.laplace(0, 1, len(counts))).astype(np.int64)
        for method, values, shown in (
            ("exact", counts, counts > 0),
            ("laplace", counts + noise, np.ones(len(counts), np.bool_)),
            ("threshold", counts, counts >= 5),
        ):
            cells = np.flatnonzero(shown)
            uri = folder / f"{method}-{name}.parquet"
            write(uri, pairs, cells, values[cells], n_zones, day)


def trips(path: Path, n_people: int, n_zones: int, n_pairs: int) -> None:
    """Write two to four trips of each person; all pairs occur if there are enough trips."""
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(n_people), rng.integers(2, 5, n_people))
    pair = pairs_of(n_zones, n_pairs)[rng.permutation(len(user)) % n_pairs]
    starts, ends = np.divmod(pair, n_zones)
    names = np.array([f"{i:05}" for i in range(n_zones)])
    seconds = START + rng.integers(0, HOURS * 3600, len(user))
    times = {
        name: pa.array(1_000_000 * (seconds + later), pa.timestamp("us", "UTC"))
        for name, later in (("start_time", 0), ("end_time", 900))
    }
    stations = {"start_station": names[starts], "end_station": names[ends]}
    pq.write_table(pa.table({"user": user, **stations, **times}), path)


def ours(path: str) -> int:
    """Read the table over (pair, hour)."""
    from clusterscale.release import TABLE_FORMATS

    return int(TABLE_FORMATS.create("flow_data_frame", absent="zero").read(path).values.shape[0])


def duckdb(path: str) -> int:
    """Add up the flow of each pair and hour."""
    import duckdb as library

    query = f"select origin, destination, datetime, sum(flow) as flow from '{path}' group by all"
    return len(library.sql(query).fetchnumpy()["flow"])


def polars(path: str) -> int:
    """Add up the flow of each pair and hour."""
    import polars as library

    keys = ["origin", "destination", "datetime"]
    return len(library.scan_parquet(path).group_by(keys).agg(library.sum("flow")).collect())


def measure(function: Callable[[str], int], path: str, rates: Any) -> None:
    """Run a function; print its seconds, rows per second and peak memory, and keep the rate."""
    began = time.perf_counter()
    n = function(path)
    seconds = time.perf_counter() - began
    status = Path("/proc/self/status").read_text()  # getrusage counts the parent, too
    peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
    rows = pq.read_metadata(path).num_rows
    rates[function.__name__] = rows / seconds
    print(f"{function.__name__:8} {seconds:7.1f} s {rows / seconds:12,.0f} rows/s "
          f"{peak:8,.0f} MiB  {n:,} results")  # fmt: skip


def compare(folder: Path, n_rows: int, n_zones: int, n_pairs: int) -> dict[str, float]:
    """Measure each reader in a process of its own, on a table and on one of twice the rows.

    Returns the rows a second of each reader, of the larger table.
    """
    context = multiprocessing.get_context("spawn")
    rates = context.Manager().dict()
    path = folder / "day.parquet"
    make(path, 1000, n_zones, 1000)
    ours(str(path))  # compiles functions, where that was not done before
    for n in (n_rows, min(2 * n_rows, n_pairs * HOURS)):
        make(path, n, n_zones, n_pairs)
        print(f"{n:,} rows, {path.stat().st_size / 2**20:,.0f} MiB of Parquet")
        for function in (ours, duckdb, polars):
            if function is ours or importlib.util.find_spec(function.__name__):
                process = context.Process(target=measure, args=(function, str(path), rates))
                process.start()
                process.join()
    return dict(rates)


def memory_of(pid: int) -> float:
    """Return the MiB of a process and all below it; what they share counts once (Linux)."""
    try:
        shares = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total = sum(int(line.split()[1]) for line in shares if line.startswith("Pss:")) / 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(memory_of(int(child)) for child in (task / "children").read_text().split())
    except OSError:  # it has ended
        return 0.0
    return total


def run(what: str, *arguments: str) -> None:
    """Run ``clusterscale``, and print its seconds and the peak memory of all its processes."""
    began, peak, ended = time.perf_counter(), [0.0], Event()
    process = subprocess.Popen(
        [sys.executable, "-m", "clusterscale", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def watch() -> None:
        while not ended.wait(0.1):
            peak.append(memory_of(process.pid))

    watcher = Thread(target=watch)
    watcher.start()
    code = process.wait()
    seconds = time.perf_counter() - began
    ended.set()
    watcher.join()
    print(f"{what:32} {seconds:7.1f} s {max(peak):8,.0f} MiB  exit {code}")


def check(folder: Path) -> None:
    """Measure checks of a table alone, beside that of the next day, and beside one of its hours."""
    for method, declared in METHODS.items():
        absent = "hidden" if method == "threshold" else "zero"
        options = ["--method", declared, "--group-size", "300000"]
        options += ["--format", f"flow_data_frame(absent='{absent}')"]
        table = f"{folder}/{method}-day.parquet"
        run(f"check {method}", "check", table, *options)
        for name in ("next", "part"):
            beside = ("--beside", f"{folder}/{method}-{name}.parquet")
            run(f"check {method} beside {name}", "check", table, *options, *beside)


def screen(folder: Path, options: argparse.Namespace, n_pairs: int) -> None:
    """Measure a screen of people over the pairs, under two mechanisms."""
    source, cube, config = folder / "trips.parquet", folder / "trips.zarr", folder / "screen.yaml"
    trips(source, options.people, options.zones, n_pairs)
    days = ("--start", "2026-03-02", "--epochs", str(HOURS))
    run("ingest", "ingest", str(source), str(cube), "--reader", "trip_pairs", *days)
    plan = {
        "cube": str(cube),
        "output": str(folder / "run"),
        "audit": {
            "seed": 1,
            "null_roi": False,
            "periods": [{"name": "day", "first": 0, "epochs": HOURS}],
            "targets": {"random": 1},
            "group_sizes": [GROUP_SIZE],
            "priors": [{"name": "perfect"}],
            "mechanisms": [
                {"name": "exact"}, {"name": "laplace", "epsilon": 1.0, "unit": "event"}
            ],
            "attacks": [{"name": "projection"}],
            "screen": {"groups": options.groups, "attacks": [{"name": "projection"}]},
        },
    }  # fmt: skip
    config.write_text(yaml.safe_dump(plan))
    workers = ("--workers", "2", "--memory", options.memory)
    run(f"screen, {options.groups} groups", "screen", str(config), *workers)


def main() -> None:
    """Make the tables, and measure each step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--zones", type=int, default=2_500)
    parser.add_argument("--screen", action="store_true", help="also ingest trips, and screen them")
    parser.add_argument("--people", type=int, default=300_000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--memory", default="5GB", help="of each of two workers")
    options = parser.parse_args()
    n_pairs = min(options.zones**2, options.rows // 12)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rates = compare(folder, options.rows, options.zones, n_pairs)
        publish(folder, options.rows, options.zones, n_pairs)
        check(folder)
        if options.screen:
            screen(folder, options, n_pairs)
    peers = [
        f"{peer} / ours {rate / rates['ours']:.1f}"
        for peer, rate in rates.items()
        if peer != "ours"
    ]
    sum_up("tables", f"{rates['ours']:,.0f} rows/s", *peers)


if __name__ == "__main__":
    main()
