#!/usr/bin/env python3
"""Golden results: every kind of result on small cubes, as the command line computes it.

    python tests/golden/golden.py --compare     # say which arrays differ from those kept
    python tests/golden/golden.py --write       # replace those kept, after a change that is meant

``results.npz`` keeps the arrays. Processors and libraries differ in the last bits of sums, so that
only on the kind of machine that wrote it (``machine`` in the file) all must be equal to the last
bit; elsewhere numbers may differ by 1e-6, as long as no decision turns over.
"""

import argparse
import json
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
import yaml
import zarr
from typer.testing import CliRunner

from clusterscale.cli import app

KEPT = Path(__file__).with_name("results.npz")
MACHINE = "machine"
# run times, words, and the number that says that results changed
IGNORED = {"seconds", "error", "guarantee_reason", "results_revision"}
WORDS = ("_label", "_title")  # endings of variables that hold words

MECHANISMS = [
    {"name": "exact"},
    {"name": "adaptive_ranges", "ranges": 3},
    {"name": "cap_contributions", "per_day": 3},
    {"name": "coarsen_space", "factor": 2},
    {"name": "coarsen_time", "factor": 2},
    {"name": "enhanced_fourier", "epsilon": 1.0, "delta": 0.1},
    {"name": "fixed_ranges", "size": 3},
    {"name": "fourier", "epsilon": 1.0, "coefficients": 8},
    {"name": "gaussian", "epsilon": 1.0, "delta": 0.1},
    {"name": "laplace", "epsilon": 1.0, "unit": "event"},
    {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "integers": "round", "clip": True},
    {"name": "laplace", "epsilon": 0.5, "discrete": True},
    {"name": "perturb_small", "below": 3, "epsilon": 1.0},
    {"name": "randomized_response", "p": 0.29},
    {"name": "sample_events", "remove": 0.4},
    {"name": "sample_traces", "remove": 0.4},
    {"name": "suppress_small", "below": 3},
    {"name": "suppress_small", "up_to": 1},
    {"name": "suppress_unpopular", "fraction": 0.2},
    {"name": "truncated_laplace", "epsilon": 1.0},
    {"name": "unscaled_fourier", "epsilon": 1.0, "coefficients": 8},
    {
        "name": "chain",
        "steps": [
            {"name": "cap_contributions", "per_day": 3},
            {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "clip": True},
            {"name": "suppress_small", "below": 3},
        ],
    },
]
ATTACKS = [
    "cells", "contradiction", "cross_validated", "diagonal", "forest", "likelihood", "logistic",
    "nearest", "perceptron", "projection", "spectral",
]  # fmt: skip
KNOWN = {"name": "known_subset", "alpha": 0.5, "training": 24, "challenges": 16, "validation": 8}
FEW = {"seed": 3, "null_roi": True, "targets": {"random": 3}, "group_sizes": [6]}
FEW |= {"verdict": {"trials": 40}}
DAYS = {"periods": [{"name": "all", "first": 0, "epochs": 48}]}
SECOND = {"periods": [{"name": "second", "first": 24, "epochs": 24, "observed": [0]}]}
PROJECTION = [{"name": "projection"}]
DEFENDED = [MECHANISMS[0], MECHANISMS[9]]


def attacks(*left_out):
    """Return all attacks but some."""
    return [
        {"name": name} | ({"variance": 0.9} if name == "spectral" else {})
        for name in ATTACKS
        if name not in left_out
    ]


AUDITS = {
    "attacks": FEW
    | DAYS
    | {
        "priors": [
            KNOWN | {"sampling": "paired", "known_fraction": 0.7},
            {"name": "perfect", "groups": 24, "adversary": "passive"},
        ],
        "mechanisms": DEFENDED,
        "attacks": attacks(),
        "control": True,
    },
    "mechanisms": FEW
    | DAYS
    | {
        "null_roi": False,
        "priors": [KNOWN],
        "mechanisms": MECHANISMS,
        "attacks": PROJECTION,
    },
    "past groups": FEW
    | SECOND
    | {
        "priors": [{"name": "same_groups", "beta": 24}, {"name": "different_groups", "beta": 32}],
        "mechanisms": DEFENDED,
        "attacks": attacks("contradiction", "diagonal", "likelihood", "projection", "spectral"),
    },
    "zero knowledge": FEW
    | DAYS
    | {
        "priors": [
            {"name": "zero_knowledge", "reference": 200, "training": 24, "challenges": 16,
             "validation": 8}
        ],
        "mechanisms": DEFENDED,
        "attacks": [{"name": "cells"}, {"name": "logistic"}],
    },
    "precision": FEW
    | DAYS
    | {
        "targets": {"tertiles": 2},
        "group_sizes": [3, 6],
        "priors": [KNOWN],
        "mechanisms": DEFENDED,
        "precision": {"width": 0.2, "most": 80},
        "attacks": PROJECTION,
    },
}  # fmt: skip
RECOVERY = {
    "seed": 1,
    "first": 0,
    "observed": 24,
    "epochs": 24,
    "priors": [{"name": name} for name in ("freq_roi", "roi_day", "time_day", "last_day")],
    "strategies": [{"name": name} for name in ("bayes", "max_roi", "max_user")],
    "mechanisms": [{"name": "laplace", "epsilon": 1.0, "unit": "event"}],
}


def compute(case, folder):
    """Return the arrays of a case by ``case/variable``, computed in an empty folder."""
    return _CASES[case](Path(folder))


def command(*words):
    """Run a command of clusterscale in this process."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def make_cube(folder):
    """Write 60 users who keep to a few of 8 ROIs and 48 hours, and return where they are."""
    rng = np.random.default_rng(7)
    place, hour = rng.dirichlet(np.full(8, 0.4), 60), rng.dirichlet(np.full(48, 0.8), 60)
    share = np.minimum(30 * place[:, :, None] * hour[:, None, :], 0.9)
    visits = rng.random(share.shape) < share
    places = {"roi_lat": ("roi", np.arange(8) / 8), "roi_lon": ("roi", np.zeros(8))}
    dense = xr.Dataset({"visits": (("user", "roi", "epoch"), visits)}, places)
    dense.to_zarr(folder / "dense.zarr", consolidated=False)
    public = "--public", "places", "--public", "calendar"
    command("pack", folder / "dense.zarr", folder / "cube.zarr", *public)
    return str(folder / "cube.zarr")


def run(folder, verbs, **content):
    """Write a config and run verbs with it; return the folder of the run."""
    config = folder / "config.yaml"
    common = {"output": str(folder / "run"), "cluster": {"name": "serial"}}
    config.write_text(yaml.safe_dump(common | {"cube": make_cube(folder)} | content))
    for verb in verbs:
        assert command(verb, config).exit_code == 0
    return folder / "run"


def read(case, store):
    """Return the arrays of a store of results by ``case/variable``."""
    group = zarr.open_group(store, mode="r")
    names = sorted(name for name, _ in group.arrays())
    numbers = [name for name in names if name not in IGNORED and not name.endswith(WORDS)]
    arrays = {name: np.asarray(group[name][...]) for name in numbers}
    return {
        f"{case}/{name}": values.astype(object).astype(str) if values.dtype.kind in "OT" else values
        for name, values in arrays.items()
    }


def _audit(case):
    def make(folder):
        return read(f"audit, {case}", run(folder, ["audit"], audit=AUDITS[case]) / "results.zarr")

    return make


def _screen(folder):
    plan = AUDITS["mechanisms"] | {
        "targets": {"most_exposed": 3},
        "mechanisms": [each for each in MECHANISMS if each["name"] not in _NOT_SCREENED],
        "screen": {"groups": 40},
    }
    done = run(folder, ["audit", "traits"], audit=plan)
    return {
        **read("audit, most exposed", done / "results.zarr"),
        **read("screen", done / "screen" / "results.zarr"),
        **read("traits", done / "traits" / "results.zarr"),
    }


_NOT_SCREENED = {"suppress_unpopular", "adaptive_ranges"}


def _recovery(folder):
    done = run(folder, ["recover"], recovery=RECOVERY)
    return read("recovery", done / "recovery" / "results.zarr")


def _reaudit(folder):
    cube = make_cube(folder)
    dense = xr.open_zarr(folder / "dense.zarr", consolidated=False).visits.values
    for day in range(2):
        counts = dense[:40:2, :, 24 * day : 24 * day + 24].sum(axis=0).astype(float)
        told = {"group_size": 20, "mechanism": json.dumps({"name": "exact"}), "first": 24 * day}
        release = xr.Dataset({"counts": (("roi", "epoch"), counts)}, attrs=told)
        release.to_netcdf(folder / f"day-{day}.nc", engine="h5netcdf")
    audit = {"seed": 3, "targets": {"random": 3}, "priors": [KNOWN], "attacks": PROJECTION}
    content = {
        "cube": cube,
        "output": str(folder / "ledger"),
        "releases": str(folder / "day-*.nc"),
        "audit": audit | {"screen": {"groups": 40}, "verdict": {"trials": 40}},
        "everyone": True,
        "cluster": {"name": "serial"},
    }
    (folder / "releases.yaml").write_text(yaml.safe_dump(content))
    assert command("reaudit", folder / "releases.yaml").exit_code in (0, 3, 4)
    table = pd.read_parquet(folder / "ledger" / "verdicts.parquet")
    kept = [name for name in table if table[name].dtype.kind in "fi" and name not in IGNORED]
    kept += ["release", "verdict"]
    return {f"reaudit/{name}": table[name].to_numpy().astype(_kind(table[name])) for name in kept}


def _kind(column):
    return column.dtype if column.dtype.kind in "fi" else str


_CASES = {
    **{f"audit, {case}": _audit(case) for case in AUDITS},
    "screen": _screen,
    "recovery": _recovery,
    "reaudit": _reaudit,
}
CASES = tuple(_CASES)


def differences(kept, found):
    """Return the names of arrays that differ from those kept, or that only one side has.

    To the last bit on the kind of machine that wrote them; elsewhere by more than 1e-6.
    """
    exact = str(kept[MACHINE]) == machine()
    cases = {name.partition("/")[0] for name in found}
    names = {name for name in kept if name.partition("/")[0] in cases} | set(found)
    return sorted(
        name
        for name in names
        if name not in kept or name not in found or not _same(kept[name], found[name], exact)
    )


def _same(kept, found, exact):
    if kept.dtype != found.dtype or kept.shape != found.shape:
        return False
    if found.dtype.kind != "f":
        return np.array_equal(kept, found)
    if exact:
        return kept.tobytes() == found.tobytes()
    return np.allclose(kept, found, rtol=1e-6, atol=1e-6, equal_nan=True)


def machine():
    """Return what decides the last bits of sums: processor and library."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    flags = [word for word in ("avx512f", "avx2", "fma") if word in _processor_flags()]
    return json.dumps([platform.machine(), *flags, np.__version__, blas.get("version", "")])


def _processor_flags():
    try:
        return set(Path("/proc/cpuinfo").read_text().partition("flags")[2].split("\n")[0].split())
    except OSError:
        return set()


def main():
    """Write or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--only", choices=CASES, help="compute this case alone")
    options = parser.parse_args()
    found = {}
    for case in CASES if options.only is None else [options.only]:
        with tempfile.TemporaryDirectory() as folder:
            found |= compute(case, folder)
        print(case, flush=True)
    if options.write:
        np.savez_compressed(KEPT, **found, **{MACHINE: machine()})
    if not options.compare:
        return 0
    with np.load(KEPT) as kept:
        wrong = differences(kept, found)
    print(*wrong, sep="\n")
    print(f"{len(found)} arrays, {len(wrong)} differ")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
