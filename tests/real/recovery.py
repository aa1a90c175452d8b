"""Print how well the whereabouts of everybody are recovered, beside what PETS17 says.

Without CUBE, the San Francisco cabs are ingested from the folder CLUSTERSCALE_DATA: two weeks are
observed, the third is inferred. Each cell is the mean over users, ours/theirs where the paper
states one, then the mean privacy loss, ours/theirs; * marks more than .03 between errors.

    python tests/real/recovery.py --gains
    python tests/real/recovery.py commuters.zarr --observed 504
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
import xarray as xr
from rich import box
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # as pytest does

from oracles.recovered import LOSSES, PAPER
from real.cabs import ingest_cabs

from clusterscale.cube import TraceCube
from clusterscale.recovery import RecoveryPlan, run
from clusterscale.runtime import Local

out = Console(width=170, highlight=False)
MOST_OFF = 0.03
STRATEGIES = ("bayes", "max_roi", "max_user", "joint")
SINGLE = ("release", "max_roi", "max_user", "joint")  # one reading is as the other


def tell(found: xr.Dataset, goal: str, paper: bool) -> Table:
    """Return the table of a goal: a line a prior, a column a strategy."""
    error = found[f"{goal}_error"].sel(mechanism="exact").mean("user")
    loss = found[f"{goal}_loss"].sel(mechanism="exact").mean("user")
    columns = [("prior", None), *((str(name), None) for name in found.strategy.values[1:])]
    if goal == "localization":
        columns = [
            (str(name), reading)
            for name in found.strategy.values
            for reading in (("every",) if name in SINGLE else ("popular", "every"))
        ]
    table = Table(title=f"{goal} error, loss", title_justify="left", box=box.SIMPLE)
    table.add_column("prior")
    for name, reading in columns:
        table.add_column(" ".join(filter(None, [name, reading])), justify="right", no_wrap=True)
    for prior in map(str, found.prior.values):
        cells = []
        for name, reading in columns:
            at = {"prior": prior, "strategy": name} | ({"reading": reading} if reading else {})
            key = goal, prior, reading if name == "prior" and reading else name
            cells.append(beside(error.sel(at).item(), PAPER.get(key) if paper else None, MOST_OFF))
            if name != "prior":
                cells[-1] += " " + beside(
                    loss.sel(at).item(), LOSSES.get(key) if paper else None, 1
                )
        table.add_row(prior, *cells)
    return table


def beside(ours: float, theirs: float | None, most_off: float) -> str:
    """Return ours, or ours/theirs and a star if these are too far apart."""
    text = f"{ours:.3f}".lstrip("0")
    if theirs is None:
        return text
    star = "*" if abs(ours - theirs) > most_off else ""
    return f"{text}/{theirs:.2f}{star}".replace("/0.", "/.")


def noise(n_epochs: int, coefficients: int) -> list[dict[str, object]]:
    """Return the mechanisms of PETS17 §5: SCM by what it protects, FPA, SpotMe."""
    made: list[dict[str, object]] = []
    for epsilon in (0.001, 0.01, 0.1, 1.0):
        laplace = {"name": "laplace", "epsilon": epsilon}
        made.append(laplace | {"unit": "event", "sensitivity": 1.0})
        made.append(laplace | {"sensitivity": float(n_epochs)})
        made.append(laplace)
        made.append({"name": "fourier", "epsilon": epsilon, "coefficients": coefficients})
    return made + [{"name": "randomized_response", "p": p} for p in (0.1, 0.3, 0.5, 0.7, 0.9)]


def gains(found: xr.Dataset) -> Table:
    """Return what defences buy and cost (Figs 7 to 9, tables 3 to 5)."""
    table = Table(title="mean privacy gain in profiling", title_justify="left", box=box.SIMPLE)
    strategies = [str(name) for name in found.strategy.values[2:]]
    for column in ("mechanism", "MRE", *strategies):
        table.add_column(column, justify="left" if column == "mechanism" else "right")
    gain = found.profiling_gain.isel(prior=0).mean("user")
    for mechanism, price in zip(found.mechanism.values, found.relative_error.values, strict=True):
        cells = (gain.sel(mechanism=mechanism, strategy=name).item() for name in strategies)
        table.add_row(str(mechanism), f"{price:.3g}", *(f"{cell:.3f}" for cell in cells))
    return table


def main(
    cube: Annotated[str | None, typer.Argument()] = None,
    observed: int = 336,
    epochs: int = 168,
    defended: Annotated[bool, typer.Option("--gains", help="Defences, freq_roi only.")] = False,
    joint: bool = False,
    coefficients: int = 20,
    workers: int = 2,
) -> None:
    """Run a recovery and print its tables."""
    with tempfile.TemporaryDirectory() as folder:
        opened = TraceCube(cube) if cube else ingest_cabs(_data(), f"{folder}/cabs.zarr")
        began = time.perf_counter()
        fields: dict[str, object] = {"observed": observed, "epochs": epochs, "base": "e"}
        fields["strategies"] = [{"name": name} for name in STRATEGIES[: 3 + joint]]
        if defended:
            fields["priors"] = [{"name": "freq_roi"}]
            fields["mechanisms"] = noise(epochs, coefficients)
        with Local(workers=workers).open() as executor:
            found = run(RecoveryPlan(**fields), opened, folder, executor, memory=3 * 10**9).load()
    out.print(f"{opened.n_users:,} users, {time.perf_counter() - began:.0f} s")
    if defended:
        out.print(gains(found))
        return
    for goal in ("profiling", "localization"):
        out.print(tell(found, goal, paper=cube is None))


def _data() -> Path:
    if "CLUSTERSCALE_DATA" not in os.environ:
        raise typer.BadParameter("name a cube, or set CLUSTERSCALE_DATA to the folder of the fixes")
    return Path(os.environ["CLUSTERSCALE_DATA"])


if __name__ == "__main__":
    typer.run(main)
