"""Print what defences leave of the San Francisco cabs' counts, beside what the papers tabulate.

Each cell is ours/theirs; * marks more than 10 % (and .005) between them. Lines "as found" are ours
by the convention that the paper seems to have used where it is not the stated one; the package
keeps to the stated one. Without CUBE the cabs are ingested from the folder CLUSTERSCALE_DATA.

    python tests/real/defences.py --help
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

from oracles import ndss18, pets17, pomacs20
from real.cabs import ingest_cabs
from real.defence_notes import NOTES
from real.defence_tables import Row, pomacs_rows
from real.noise_tables import inversions, ndss_rows, order, pets_rows, with_sensitivity

from clusterscale.cube import TraceCube

out = Console(width=110, highlight=False)


def differs(ours: float, paper: float) -> bool:
    """Tell whether ours is more than 10 %, and more than .005, from the paper's."""
    return abs(ours - paper) > max(0.1 * abs(paper), 0.005)


def number(value: float) -> str:
    """Write three digits or so, without a leading zero."""
    if np.isnan(value):
        return ""
    digits = 3 if abs(value) < 10 else 2 if abs(value) < 100 else 1
    return f"{value:.{digits}f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.{digits}f}"


def _cells(ours: Sequence[float], paper: Sequence[float]) -> Iterator[str]:
    for mine, theirs in zip(ours, paper, strict=True):
        mark = "*" if differs(mine, theirs) else " "
        yield "" if np.isnan(mine) else f"{number(mine)}/{number(theirs)}{mark}"


def print_rows(title: str, columns: Sequence[str], rows: Sequence[Row], notes: str) -> None:
    """Print a table, the errors of ours, and what explains the differences."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(row.setting, *_cells(row.ours, row.paper))
        if len(row.found):
            table.add_row("  as found", *_cells(row.found, row.paper), style="dim")
        if len(row.shrink):
            table.add_row("  noise ÷", *(f"{factor:.1f} " for factor in row.shrink), style="dim")
    out.print(Text(title, "bold"))
    out.print(table)
    relative = [row.error[0] / row.ours[0] for row in rows if row.ours[0] > 0]
    spread = f"Standard error of ours: first column up to {100 * max(relative):.1f} %"
    if len(rows[0].error) > len(ndss18.EPSILONS):
        others = max(error for row in rows for error in row.error[1:])
        spread += f", others up to {others:.3f}"
    out.print(Text(f"{spread}. {notes}".strip(), "dim"))
    out.print()


def print_orders(rows: Sequence[Row], epsilons: Sequence[float]) -> None:
    """Print which mechanism errs most at each ε, by us and by the paper."""
    for i, epsilon in enumerate(epsilons):
        wrong = inversions(rows, i)
        ours, paper = (order(rows, i, paper=which) for which in (False, True))
        verdict = "agree" if ours == paper else "agree but for what is within 10 % in either"
        if wrong:
            verdict = "differ: " + ", ".join(f"{b} above {a}" for a, b in wrong)
        out.print(f"ε {epsilon:g}  ours   {' > '.join(ours)}")
        out.print(f"{'':{len(f'ε {epsilon:g}')}}  paper  {' > '.join(paper)}")
        out.print(f"{'':{len(f'ε {epsilon:g}')}}  {verdict}")
    out.print()


def show(cube: TraceCube, groups: int, seed: int) -> None:
    """Print all tables."""
    columns = ("", *pomacs20.COLUMNS)
    rows = pomacs_rows(cube, n_groups=groups, seed=seed)
    for title, some in groupby(rows, lambda row: row.table):
        note = NOTES.get(title.split(":")[0], "")
        print_rows(f"POMACS20 Table {title}", columns, list(some), note)

    rows = ndss_rows(cube, n_groups=groups, seed=seed)
    columns = ("", *(f"ε {epsilon:g}" for epsilon in ndss18.EPSILONS))
    print_rows("NDSS18 Table III: groups of 500, first week", columns, rows, NOTES["III"])
    for sensitivity in ("√Δ", "a series"):
        out.print(f"Order by error, Fourier noise for Δ₂ of {sensitivity}:")
        print_orders(with_sensitivity(rows, sensitivity), ndss18.EPSILONS)

    rows = pets_rows(cube, n_draws=groups, seed=seed)
    columns = ("", *(f"ε {epsilon:g}" for epsilon in pets17.EPSILONS))
    noise = [row for row in rows if row.table == "4"]
    print_rows("PETS17 Table 4: all cabs, third week", columns, noise, NOTES["pets"])
    print_orders(noise, pets17.EPSILONS)
    spotme = [row for row in rows if row.table == "5"]
    print_rows("PETS17 Table 5", ("", "MRE"), spotme, NOTES["pets"])


def main(
    cube: Annotated[str | None, typer.Argument(help="Cube of the cabs.")] = None,
    groups: Annotated[int, typer.Option(min=2, help="Random groups to average over.")] = 20,
    seed: Annotated[int, typer.Option(help="Root seed.")] = 0,
) -> None:
    """Print what defences leave of the cabs' counts, beside what the papers tabulate."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        if cube is None:
            data = Path(os.environ.get("CLUSTERSCALE_DATA", ""))
            if not (data / "sfcabs.parquet").is_file():
                raise SystemExit("give a CUBE, or set CLUSTERSCALE_DATA to the folder of the data")
            opened = ingest_cabs(data, f"{folder}/cube")
        else:
            opened = TraceCube(cube)
        show(opened, groups, seed)
    out.print(f"{groups} groups, seed {seed}: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    typer.run(main)
