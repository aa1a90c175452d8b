"""A small catalogue of releases, and releases to put into it."""

import json

import numpy as np
import xarray as xr
import yaml

from clusterscale.groups import count_visits

MEMBERS = np.arange(0, 40, 2)


def write_release(cube, path, *, first=0, fault=0.0, **attributes):
    """Write the bare counts of a group over a day; ``fault`` is added to one value."""
    traces = cube.traces(None, (first, first + 24))
    values = count_visits(traces, MEMBERS[None])[0].astype(float)
    values[0, 0] += fault
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"group_size": len(MEMBERS), "mechanism": json.dumps({"name": "exact"}), "first": first}
    dataset = xr.Dataset({"counts": (("roi", "epoch"), values)}, attrs=told | attributes)
    dataset.to_netcdf(path, engine="h5netcdf")


def write_catalogue(cube, folder, **changes):
    """Write the config of a catalogue of what is in ``releases``, and return where it is."""
    content = {
        "cube": cube.uri,
        "output": str(folder / "ledger"),
        "releases": str(folder / "releases"),
        "audit": {
            "seed": 3,
            "targets": {"random": 3},
            "priors": [{"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 20}],
            "attacks": [{"name": "projection"}],
            "screen": {"groups": 40, "attacks": [{"name": "projection"}]},
            "verdict": {"trials": 100},
        },
        "cluster": {"name": "serial"},
    }
    path = folder / "releases.yaml"
    path.write_text(yaml.safe_dump(content | changes))
    return path
