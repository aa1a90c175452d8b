"""Print how an adversary who knows nobody does beside one who knows thousands (POPETS24 §6, D).

CUBE is what `clusterscale synth milan CUBE`, `clusterscale synth cdr CUBE` or an ingestion wrote.
Figures are mean AUCs over targets with ten events at least, ± their standard error; * marks where
zero knowledge with the attack of the paper is more than .05 from a known subset.

    python tests/real/zero_knowledge.py CUBE --study defences --group-size 1000 --targets 20
"""

import re
import sys
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

from real.zero_knowledge_studies import STUDIES, attack, choose

from clusterscale.cube import TraceCube

out = Console(width=150, highlight=False)
MOST_OFF = 0.05


def tell(found: xr.Dataset, names: Sequence[str]) -> Table:
    """Return the table of a study: a line a setting and prior, a column an attack."""
    auc = found.auc.isel(period=0).assign_coords(prior=list(names))
    auc = auc.transpose("prior", "attack", "group_size", "mechanism", "target")
    mean, error = auc.mean("target"), auc.std("target") / np.sqrt(auc.sizes["target"])
    off = abs(mean - mean.isel(prior=0)) > MOST_OFF
    table = Table(box=box.SIMPLE, pad_edge=False)
    for column in ("m", "mechanism", "adversary", *auc.attack.values):
        table.add_column(column, no_wrap=True)
    for size, mechanism in product(auc.group_size.values, auc.mechanism.values):
        for i, name in enumerate(names):
            at = {"group_size": size, "mechanism": mechanism, "prior": name}
            figures = zip(*(each.sel(at).values for each in (mean, error, off)), strict=True)
            cells = (f"{a:.3f} ± {b:.3f}{' *'[int(c)]}" for a, b, c in figures)
            setting = ("", "") if i else (str(size), shorten(mechanism))
            table.add_row(*setting, name, *cells, end_section=i == len(names) - 1)
    return table


def shorten(label: str) -> str:
    """Return the label of a mechanism without what all of the kind have in common."""
    return re.sub(r",? ?(clip=True|integers='floor'|sensitivity=1\.0)", "", label)


def main(
    cube: Annotated[str, typer.Argument()],
    study: str = "defences",
    group_size: int = 1000,
    targets: int = 20,
    min_events: int = 10,
    reference: int = 2500,
    delta: float = 10,
    workers: int = 2,
    refit: str = "shared",
    challenges: int = 100,
    seed: int = 1,
    output: str | None = None,
) -> None:
    """Run one study and print its table; with an output folder, go on with what is there."""
    opened, began = TraceCube(cube), time.perf_counter()
    made = STUDIES[study](
        group_size=group_size,
        reference=reference,
        share=reference / opened.n_users,
        delta=delta,
        common={"challenges": challenges},
        refit=refit,
    )
    fields = {
        "seed": seed,
        "targets": {"listed": choose(opened, targets, min_events, seed)},
        "periods": [{"name": "all", "first": 0, "epochs": opened.n_epochs}],
    }
    found = attack(opened, made, fields, workers, output)
    out.print(f"{made.title}; {found.sizes['target']} targets, {time.perf_counter() - began:.0f} s")
    out.print(tell(found, made.names))


if __name__ == "__main__":
    typer.run(main)
