"""Print what the most exposed San Francisco cabs have in common, beside what POMACS20 says.

Without CUBE, the cabs are ingested from the folder CLUSTERSCALE_DATA. Exposure is told as in the
paper: 150 cabs, 50 of each tertile, known subset, spectral attack, first week. Importances of a
forest hang on its seed where characteristics go together: the spread is over forests.

    python tests/real/traits.py --folder runs/cabs-traits
    python tests/real/traits.py runs/cabs.zarr --sizes 100 --sizes 105
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

from oracles.pomacs20 import IMPORTANCE, UNIQUE_HOURS
from real.cabs import ingest_cabs

from clusterscale.audit import AuditPlan, open_results, run, traits
from clusterscale.cube import TraceCube
from clusterscale.runtime import Local
from clusterscale.seeds import stream
from clusterscale.traits import importance, sides

out = Console(width=140, highlight=False)
ATTACKS = ("spectral", "projection")


def explain(cube: TraceCube, folder: str, workers: int, **fields: object) -> xr.Dataset:
    """Audit cabs as the paper does, and return their traits."""
    given: dict[str, object] = {
        "seed": 1,
        "targets": {"tertiles": 50},
        "group_sizes": [100],
        "priors": [{"name": "known_subset", "alpha": 0.2}],
        "mechanisms": [{"name": "exact"}],
        "attacks": [{"name": name} for name in ATTACKS],
        "control": False,
    }
    plan = AuditPlan(**given | fields)
    with Local(workers=workers).open() as executor:
        run(plan, cube, folder, executor)
        return traits(plan, cube, folder, executor)


def forests(found: xr.Dataset, auc: xr.DataArray, second: xr.DataArray, seeds: int) -> np.ndarray:
    """Return importances of many forests, float64, shape (seed, characteristic)."""
    values = found.value.isel(period=0).sel(user=auc.target.values).values
    top, bottom = sides(auc.values, 0.1, second.values)
    return np.array(
        [
            importance(
                values[top], values[bottom], trees=2000, rng=stream(seed, "forest")
            ).forest_importance
            for seed in range(seeds)
        ]
    )


def tell(found: xr.Dataset, auc: xr.DataArray, second: xr.DataArray, seeds: int) -> Table:
    """Return the table of a comparison; ``second`` is the mean AUC of all attacks."""
    title = f"groups of {found.compared_group_size.item()}, {found.compared_attack.item()}"
    title += f": AUC {found.auc_top.item():.4f} {found.auc_bottom.item():.4f}"
    title += f", forest right {found.forest_accuracy.item():.2f}"
    title += f", {int((auc == auc.max()).sum())} of {auc.size} at the highest AUC"
    table = Table(title=title, title_justify="left", box=box.SIMPLE)
    for name in ("characteristic", "top", "bottom", "separation", "logistic", "forest", "paper"):
        table.add_column(name, justify="left" if name == "characteristic" else "right")
    spread = forests(found, auc, second, seeds)
    for i, name in enumerate(map(str, found.characteristic.values)):
        at = found.isel(characteristic=i)
        unit = 168 if name == "unicity" else 1  # hours
        cells = [
            f"{unit * at[f'{side}_mean'].item():.2f} ± {unit * at[f'{side}_sd'].item():.2f}"
            for side in ("top", "bottom")
        ]
        forest = f"{spread[:, i].mean():.2f} ({spread[:, i].min():.2f}–{spread[:, i].max():.2f})"
        numbers = f"{at.separation.item():.2f}", f"{at.logistic_coefficient.item():.2f}", forest
        table.add_row(name, *cells, *numbers, f"{IMPORTANCE[name][1]:.2f}")
    (high, low) = (f"{mean} ± {sd}" for mean, sd in UNIQUE_HOURS)
    table.caption = f"unique hours in the paper: {high} and {low}"
    return table


def main(
    cube: Annotated[str | None, typer.Argument()] = None,
    folder: Annotated[str | None, typer.Option(help="To keep the run in.")] = None,
    sizes: Annotated[list[int] | None, typer.Option(help="Members of a group.")] = None,
    alpha: float = 0.2,
    tertiles: int = 50,
    null_roi: bool = True,
    seeds: int = 10,
    workers: int = 2,
) -> None:
    """Run the audit and print a table for each group size and attack."""
    with tempfile.TemporaryDirectory() as scratch:
        opened = TraceCube(cube) if cube else ingest_cabs(_data(), f"{scratch}/cabs.zarr")
        place = folder or f"{scratch}/run"
        found = explain(
            opened,
            place,
            workers,
            group_sizes=sizes or [100],
            targets={"tertiles": tertiles},
            priors=[{"name": "known_subset", "alpha": alpha}],
            null_roi=null_roi,
        )
        auc = open_results(place).auc.isel(period=0, prior=0, mechanism=0)
        for number in range(found.sizes["comparison"]):
            one = found.isel(comparison=number)
            at = {dim: one[f"compared_{dim}"].item() for dim in ("group_size", "attack")}
            here = auc.sel(group_size=at["group_size"]).load()
            told = here.sel(attack=at["attack"])
            out.print(tell(one, told, here.mean("attack"), seeds))


def _data() -> Path:
    if "CLUSTERSCALE_DATA" not in os.environ:
        raise typer.BadParameter("name a cube, or set CLUSTERSCALE_DATA to the folder of the fixes")
    return Path(os.environ["CLUSTERSCALE_DATA"])


if __name__ == "__main__":
    typer.run(main)
