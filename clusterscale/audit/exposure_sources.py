"""Find the exposure of users in the folder of a run: its audit, its screen, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.results import open_results
from clusterscale.cube import TraceCube
from clusterscale.errors import ExistsError, MissingError
from clusterscale.screening import open_screen
from clusterscale.storage import exists
from clusterscale.traits import TargetAUCs, list_exposures

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["find_exposures"]


def find_exposures(plan: AuditPlan, cube: TraceCube, output: str) -> list[TargetAUCs]:
    """Return where the AUCs of every case are: first of a finished audit, then of a screen.

    Parameters
    ----------
    plan, cube
        The plan of the run, and the traces.
    output
        Folder of the run.

    Raises
    ------
    MissingError
        If neither has finished.
    ExistsError
        If one of them is of another plan or cube.
    """
    exposures: list[TargetAUCs] = []
    audited, screened = f"{output}/results.zarr", f"{output}/screen/results.zarr"
    if exists(f"{audited}/zarr.json"):
        results = open_results(output)
        _compare(results, cube, output, results.attrs["plan_digest"] == plan.digest, "audit")
        exposures += list_exposures(results, audited, "audit")
    if (screen := _open_screen(f"{output}/screen")) is not None:
        same = screen.attrs["plan_digest"] == plan.whole_screen.digest
        _compare(screen, cube, output, same, "screen")
        exposures += list_exposures(screen, screened, "screen")
    if not exposures:
        raise MissingError(
            f"{output}: neither an audit nor a screen has finished there; "
            "run `clusterscale audit` or `clusterscale screen` with this config first"
        )
    return exposures


def _open_screen(uri: str) -> xr.Dataset | None:
    try:
        return open_screen(uri)
    except MissingError:
        return None


def _compare(results: xr.Dataset, cube: TraceCube, output: str, same: bool, what: str) -> None:
    other = [] if same else ["plan"]
    other += [] if results.attrs["cube_fingerprint"] == cube.fingerprint else ["cube"]
    if other:
        raise ExistsError(
            f"{output} holds a{'n' * (what == 'audit')} {what} of another {' and '.join(other)}: "
            f"run `clusterscale {what}` with this config first, or choose another output"
        )
