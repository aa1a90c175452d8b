"""Time and memory to read a table of trips between places, beside a plain group-by of others.

``python tests/benchmarks/tables.py [--rows 10_000_000] [--zones 2_500]`` makes a Parquet file of
one day, and reads it: with this package, and with DuckDB and Polars where they are installed, each
in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def make(path: Path, n_rows: int, n_zones: int) -> None:
    """Write distinct rows of origin, destination, hour and count; near pairs are more common."""
    rng = np.random.default_rng(1)
    n_pairs = min(n_zones**2, n_rows // 12)
    pairs = np.sort(rng.choice(n_zones**2, n_pairs, replace=False))
    cells = np.sort(rng.choice(n_pairs * 24, n_rows, replace=False))
    origins, destinations = np.divmod(pairs[cells // 24], n_zones)
    names = pa.array([f"{i:05}" for i in range(n_zones)])
    hours = 1_772_409_600 + (cells % 24) * 3600
    table = pa.table(
        {
            "origin": pa.DictionaryArray.from_arrays(origins.astype(np.int32), names),
            "destination": pa.DictionaryArray.from_arrays(destinations.astype(np.int32), names),
            "datetime": pa.array(hours, pa.int64()),
            "flow": rng.geometric(0.2, n_rows),
        }
    )
    pq.write_table(table, path, row_group_size=1 << 20)


def ours(path: str) -> int:
    """Read the table over (pair, hour)."""
    from clusterscale.tables import create

    return int(create("flow_data_frame", absent="zero").read(path).values.shape[0])


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


def measure(function: Callable[[str], int], path: str) -> None:
    """Run a function, and print its seconds, rows per second and peak memory."""
    began = time.perf_counter()
    n = function(path)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = pq.read_metadata(path).num_rows
    print(f"{function.__name__:8} {seconds:7.1f} s {rows / seconds:12,.0f} rows/s "
          f"{peak:8,.0f} MiB  {n:,} results")  # fmt: skip


def main() -> None:
    """Make the table, and measure each reader in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--zones", type=int, default=2_500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day.parquet"
        make(path, options.rows, options.zones)
        print(f"{options.rows:,} rows, {path.stat().st_size / 2**20:,.0f} MiB of Parquet")
        for function in (ours, duckdb, polars):
            if function is ours or importlib.util.find_spec(function.__name__):
                process = multiprocessing.get_context("spawn").Process(
                    target=measure, args=(function, str(path))
                )
                process.start()
                process.join()


if __name__ == "__main__":
    main()
