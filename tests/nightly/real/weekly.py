"""Eight weekly releases of riders and cabs as a publisher would make them, three of them wrong."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
import yaml

from clusterscale.contracts import Bounds
from clusterscale.cube import TraceCube
from clusterscale.cube.bounds import measure_bounds
from clusterscale.groups import count_visits
from clusterscale.mechanisms import create

WEEK = 168
SIZES = {"cabs": 100, "riders": 250}

NOISE = {"name": "laplace", "epsilon": 2.0, "unit": "event", "integers": "round"}
HIDDEN = {"name": "suppress_small", "up_to": 5}
BOTH = {
    "name": "chain",
    "steps": [{**NOISE, "integers": "round"}, {"name": "suppress_small", "up_to": 2}],
}


@dataclass(frozen=True)
class Weekly:
    """A release: of which cube and week, declared how, and what is wrong with it."""

    name: str
    cube: str
    week: int
    group_size: int
    declared: dict
    fault: str = ""
    check: str = ""


RELEASES = (
    Weekly("cabs-1", "cabs", 0, 100, HIDDEN),
    Weekly("cabs-2", "cabs", 1, 100, HIDDEN),
    Weekly("cabs-3", "cabs", 2, 100, HIDDEN),
    Weekly("riders-1", "riders", 0, 250, NOISE),
    Weekly("riders-2", "riders", 1, 250, NOISE, "truncated", "noise_law"),
    Weekly("riders-3", "riders", 2, 250, BOTH),
    Weekly("cabs-3-revised", "cabs", 2, 99, HIDDEN, "one less", "differencing"),
    Weekly("riders-4", "riders", 3, 250, BOTH, "bare", "possible_values"),
)
"""In the order in which they appear: three, three, two."""

BAD = {each.name: each.check for each in RELEASES if each.fault}


def write(release: Weekly, cube: TraceCube, folder: Path) -> Path:
    """Write one release as NetCDF or Zarr, with who is in it beside it, and return where it is."""
    span = release.week * WEEK, (release.week + 1) * WEEK
    traces = cube.traces(None, span)
    rng = np.random.default_rng([7, release.week, len(release.cube)])
    members = np.sort(
        rng.choice(cube.n_users, 100 if release.cube == "cabs" else 250, replace=False)
    )
    members = members[: release.group_size]
    counts = count_visits(traces, members[None])[0]
    bounds = measure_bounds(traces, cube.frame(span).days)
    values = publish(release, counts, bounds, np.random.default_rng([8, release.week]))
    known = folder / "members" / f"{release.name}.csv"
    known.parent.mkdir(parents=True, exist_ok=True)
    inside = np.isin(np.arange(cube.n_users), members)
    pd.DataFrame({"user": cube.user_ids(), "inside": inside}).to_csv(known, index=False)
    dataset = xr.Dataset(
        {"counts": (("roi", "epoch"), values)},
        {"roi": np.array(cube.regions.names, object), "epoch": np.arange(*span)},
        {
            "group_size": release.group_size,
            "mechanism": json.dumps(release.declared),
            "series": release.cube,
        },
    )
    place = folder / "releases"
    place.mkdir(exist_ok=True)
    if release.week % 2:
        path = place / f"{release.name}.zarr"
        dataset.to_zarr(path, consolidated=False)
    else:
        path = place / f"{release.name}.nc"
        dataset.to_netcdf(path, engine="h5netcdf")
    return path


def publish(release: Weekly, counts, bounds: Bounds, rng) -> np.ndarray:
    """Return what is published of ``counts``: as declared, or not."""
    if release.fault == "truncated":
        return counts + np.trunc(rng.laplace(0.0, 1 / release.declared["epsilon"], counts.shape))
    declared = release.declared["steps"][0] if release.fault == "bare" else release.declared
    name = {key: value for key, value in declared.items() if key != "name"}
    mechanism = create(declared["name"], **name).bind(bounds)
    return mechanism.release(counts[None], group_size=release.group_size, rng=rng)[0]


def write_config(cubes: dict[str, TraceCube], folder: Path, listed: Sequence[Path] = ()) -> Path:
    """Write the config of the catalogue: of what is ``listed``, or of all that will be there."""
    places = {name: listed or [folder / "releases" / f"{name}-*"] for name in cubes}
    content = {
        "cube": cubes["cabs"].uri,
        "members": str(folder / "members" / "{name}.csv"),
        "output": str(folder / "ledger"),
        "releases": [
            {"counts": str(path), "cube": cubes[name].uri}
            for name, paths in places.items()
            for path in paths
            if path.name.startswith(name)
        ],
        "audit": {
            "seed": 1,
            "targets": {"tertiles": 2},
            "priors": [{"name": "known_subset", "alpha": 0.5, "training": 100, "challenges": 60}],
            "attacks": [{"name": "projection"}],
            "screen": {"groups": 40, "attacks": [{"name": "projection"}]},
            "verdict": {"trials": 2000},
            "control": False,
        },
        "policy": {
            # cabs are exposed, whatever is wrong with a release
            "exposure": {"exposed": "pass", "partly_exposed": "pass"},
            "change": 0.2,
            "newly_exposed": 0.25,
            "utility": {"hotspot_f1": 0.2},
        },
        "cluster": {"name": "serial"},
    }
    path = folder / "releases.yaml"
    path.write_text(yaml.safe_dump(content))
    return path
