"""Small sound cubes, runs and results, which several kinds of cases damage."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numba
import numpy as np
from fuzz.runner import ID

# Imported late by commands: here, so that it is done once and not in each case.
for _module in (
    "clusterscale.reporting.findings",
    "clusterscale.cli.results",
    "clusterscale.reauditing",
    "email.headerregistry",
    "h5netcdf",
    "importlib_metadata",
    "pandas.io.formats.csvs",
    "rich.status",
    "scipy.ndimage",
    "scipy.optimize",
    "scipy.stats",
    "sparse",
    "xarray.backends.zarr",
    "xarray.computation.nanops",
):
    import_module(_module)
numba.njit(lambda number: number + 1)(1)  # loads the rest of numba

N_ROIS, N_EPOCHS = 10, 48

CONFIG = """
cube: {cube}
output: {output}
cluster: {{name: serial}}
audit:
  seed: 1
  targets: {{random: 3}}
  periods: [{{name: all, first: 0, epochs: 48}}]
  group_sizes: [20]
  priors: [{{name: perfect, groups: 20}}]
  mechanisms: [{{name: exact}}]
  attacks: [{{name: projection}}]
  utility: {{measures: [{{name: pearson}}]}}
  verdict: {{trials: 100}}
  screen: {{groups: 40, attacks: [{{name: projection}}]}}
"""


def write_cube(
    uri: Path,
    *,
    n_users: int = 60,
    chunk: int = 1 << 20,
    seed: int = 1,
    pseudonyms: bool = False,
    timezone: str = "UTC",
    change: Callable[[np.ndarray, np.ndarray], None] = lambda sizes, cells: None,
) -> None:
    """Write a cube of users with 4 to 20 events each.

    ``change`` edits the sizes and the cells before they are written, without any check.
    """
    from clusterscale.cube import Calendar, Regions, writer

    rng = np.random.default_rng(seed)
    sizes = rng.integers(4, 20, n_users)
    cells = np.concatenate(
        [np.sort(rng.choice(N_ROIS * N_EPOCHS, size, replace=False)) for size in sizes]
    )
    change(sizes, cells)
    regions = Regions(tuple(f"r{i}" for i in range(N_ROIS)), 50 + np.arange(10.0), np.arange(10.0))
    calendar = Calendar.parse("2024-01-01T00:00", "1h", N_EPOCHS, timezone)
    users = [ID.format(i + 100 * seed) for i in range(n_users)]
    if pseudonyms:
        users = [f"p{i:03}" for i in range(n_users)]
    kept = writer.CHUNK, writer._check_block
    writer.CHUNK, writer._check_block = chunk, lambda *_: None
    try:
        with writer.new_cube(
            str(uri), regions, calendar, provenance={"source": "test"}, pseudonyms=pseudonyms
        ) as cube:
            cube.append(users, sizes, cells)
    finally:
        writer.CHUNK, writer._check_block = kept


def write_config(folder: Path, cube: str, output: str, text: str = CONFIG) -> str:
    """Write a config, and return its path."""
    path = folder / "config.yaml"
    path.write_text(text.format(cube=cube, output=output))
    return str(path)


def without_pages() -> None:
    """Let commands of this process write no page, which takes most of the time of a tiny run."""
    from unittest.mock import MagicMock

    from markupsafe import Markup

    from clusterscale.api import releases
    from clusterscale.cli import running
    from clusterscale.reporting import figures
    from clusterscale.reporting.figures import single

    running.write_page = releases.write_page = lambda folder, **options: None
    for module in (figures, single):  # the trend of releases
        module.plot = lambda model, **options: Markup()
    for name in ("boxes", "draw_time_series", "curves", "distributions", "tradeoff"):
        setattr(figures, name, MagicMock())


def call(*words: object) -> int:
    """Run a command in this process; return its exit code."""
    from clusterscale.cli import main

    sys.argv = ["clusterscale", *map(str, words)]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def chunks_of(store: Path) -> dict[str, bytes]:
    """Return the bytes of every chunk of a Zarr store, by path, without those of measured times."""
    return {
        str(path.relative_to(store)): path.read_bytes()
        for path in store.rglob("*")
        if path.is_file() and path.name[0].isdigit() | (path.name == "c")
        if not path.relative_to(store).parts[0].startswith("seconds")
    }


def differs(store: Path, sound: Path) -> str | None:
    """Return in words what differs between the numbers of two stores of results, None if equal."""
    found, wanted = chunks_of(store), chunks_of(sound)
    names = sorted(
        name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)
    )
    return f"other numbers in {', '.join(names[:5])}" if names else None
