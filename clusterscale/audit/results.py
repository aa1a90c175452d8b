"""The dataset of an audit: every outcome on labelled dimensions."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from clusterscale.audit.cases import LONGEST_ERROR, lay_out_cases
from clusterscale.audit.journal import Entry
from clusterscale.audit.layout import (
    Coordinates,
    lay_out_promises,
    lay_out_utility,
    lay_out_verdicts,
)
from clusterscale.audit.plan import AuditPlan
from clusterscale.audit.price import Price, PriceKey
from clusterscale.audit.targets import Chosen
from clusterscale.audit.task import Key
from clusterscale.cube import TraceCube
from clusterscale.cube.storage import exists, staged
from clusterscale.errors import FormatError, MissingError
from clusterscale.metrics import LEVELS
from clusterscale.schema import RESULTS, RESULTS_FORMAT, validate

__all__ = ["assemble", "open_results", "save_results"]

_PACKAGES = ["bokeh", "clusterscale", "dp-accounting", "numba", "numpy"]
_PACKAGES += ["scikit-learn", "scipy", "xarray", "zarr"]


def assemble(
    plan: AuditPlan,
    cube: TraceCube,
    chosen: Chosen,
    entries: dict[Key, Entry],
    prices: dict[PriceKey, Price],
) -> xr.Dataset:
    """Lay out the entries of a run as a dataset that keeps :data:`clusterscale.schema.RESULTS`.

    What did not run or failed has no numbers, nor have mechanisms without a price.
    """
    coords = _coordinates(plan, cube, chosen)
    variables = {
        **lay_out_cases(coords, entries, plan.false_positive_rate),
        **lay_out_promises(coords, prices),
        **lay_out_verdicts(coords, prices),
        **lay_out_utility(coords, prices),
    }
    dataset = xr.Dataset(
        {name: (RESULTS[name].dims, values, _describe(name)) for name, values in variables.items()},
        {name: (*pair, _describe(name)) for name, pair in coords.items()},
        _attributes(plan, cube) | {"price_errors": _errors(prices)},
    )
    return validate(dataset)


def _errors(prices: dict[PriceKey, Price]) -> str:
    wrong = sorted({price.error[:LONGEST_ERROR] for price in prices.values() if price.error})
    return json.dumps(wrong)


def save_results(dataset: xr.Dataset, uri: str) -> None:
    """Write ``dataset`` to a Zarr store at ``uri``, atomically replacing one that may be there."""
    with staged(uri, force=True) as staging:
        dataset.to_zarr(staging, mode="w", consolidated=False)


def open_results(uri: str | Path) -> xr.Dataset:
    """Load the dataset of a run, from the run's folder or from the store itself.

    Raises
    ------
    MissingError
        If there is none.
    FormatError
        If what is there is not a dataset of an audit.
    """
    uri = str(uri).rstrip("/")
    inner = f"{uri}/results.zarr"
    place = inner if exists(inner) else uri
    if not exists(f"{place}/zarr.json"):
        raise MissingError(f"{uri}: there are no results; has its audit finished?")
    dataset = xr.open_zarr(place, consolidated=False, chunks=None).load()
    if dataset.attrs.get("format") != RESULTS_FORMAT:
        raise FormatError(f"{place} does not hold the results of an audit")
    return validate(dataset)


def _coordinates(plan: AuditPlan, cube: TraceCube, chosen: Chosen) -> Coordinates:
    measures = plan.utility.measures
    return {
        "target": ("target", np.asarray(chosen.users, np.int64)),
        "pseudonym": ("target", cube.pseudonyms(chosen.users)),
        "tertile": ("target", np.array(chosen.tertiles, dtype=object)),
        "n_events": ("target", np.diff(cube.offsets)[chosen.users]),
        "period": ("period", _labels(plan.periods)),
        "prior": ("prior", _labels(plan.priors)),
        "group_size": ("group_size", np.array(plan.group_sizes, np.int64)),
        "mechanism": ("mechanism", _labels(plan.mechanisms)),
        "attack": ("attack", _labels(plan.attacks)),
        "level": ("level", np.arange(1, LEVELS + 1) / LEVELS),
        "measure": ("measure", _labels(measures)),
        "measure_title": ("measure", np.array([each.title for each in measures], dtype=object)),
        "ideal": ("measure", np.array([each.ideal for each in measures], np.float64)),
    }


def _labels(items: tuple[Any, ...]) -> NDArray[Any]:
    return np.array([item.label for item in items], dtype=object)


def _describe(name: str) -> dict[str, str]:
    variable = RESULTS[name]
    units = {"units": variable.units} if variable.units else {}
    return {"long_name": variable.long_name, **units}


def _source(provenance: dict[str, Any]) -> str:
    preset = provenance.get("preset")
    return f"synthetic {preset}" if preset else str(provenance.get("source", "unknown"))


def _attributes(plan: AuditPlan, cube: TraceCube) -> dict[str, Any]:
    size = {name: getattr(cube, name) for name in ("n_users", "n_rois", "n_epochs", "n_events")}
    about = {
        **size,
        "null_roi": plan.null_roi,
        "when": cube.calendar.describe(),
        "source": _source(cube.attributes["provenance"]),
    }
    return {
        "format": RESULTS_FORMAT,
        "plan": json.dumps(plan.describe()),
        "plan_digest": plan.digest,
        "cube_fingerprint": cube.fingerprint,
        "cube": json.dumps(about, sort_keys=True),
        "seed": plan.seed,
        "versions": json.dumps({name: version(name) for name in _PACKAGES}, sort_keys=True),
    }
