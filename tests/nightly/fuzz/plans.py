"""Valid configs of every kind, whole or small, which cases damage."""

from __future__ import annotations

import random
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

__all__ = ["CONFIGS", "draw_plan"]

CONFIGS = Path(__file__).parents[3] / "configs"

MECHANISMS: tuple[dict[str, Any], ...] = (
    {"name": "exact"},
    {"name": "laplace", "epsilon": 1.0, "unit": "event"},
    {"name": "gaussian", "epsilon": 1.0, "delta": 0.1},
    {"name": "suppress_small", "below": 5},
    {"name": "coarsen_time", "factor": 2},
    {"name": "fixed_ranges", "size": 3},
    {"name": "fourier", "epsilon": 1.0, "coefficients": 8},
    {"name": "sample_traces", "remove": 0.4},
    {
        "name": "chain",
        "steps": [
            {"name": "cap_contributions", "per_day": 3},
            {"name": "laplace", "epsilon": 1.0, "unit": "user_day", "clip": True},
        ],
    },
)
PRIORS: tuple[dict[str, Any], ...] = (
    {"name": "known_subset", "alpha": 0.5, "training": 40, "challenges": 20},
    {"name": "perfect", "groups": 20},
    {"name": "same_groups", "beta": 10},
)
ATTACKS = ("logistic", "projection", "nearest", "forest", "perceptron")
CLUSTERS: tuple[dict[str, Any], ...] = (
    {"name": "serial"},
    {"name": "local", "workers": 2, "memory": "1GB"},
    {"name": "slurm", "workers": 2},
    {"name": "address", "address": "tls://127.0.0.1:8786"},
)


def draw_plan(rng: random.Random, cube: str) -> tuple[str, Any]:
    """Return the kind and the content of a valid config."""
    kind = rng.choice(("run", "run", "run", "catalogue", "policy", "file", "study"))
    if kind in ("file", "study"):
        paths = sorted(CONFIGS.glob("papers/*/*.yaml" if kind == "study" else "*.yaml"))
        return kind, yaml.safe_load(rng.choice(paths).read_text())
    if kind == "policy":
        return kind, deepcopy(_policy())
    return kind, _run(rng, cube) if kind == "run" else _catalogue(rng, cube)


def _run(rng: random.Random, cube: str) -> dict[str, Any]:
    audit = {
        **_template(rng),
        "group_sizes": [3, 6],
        "periods": [{"name": "all", "first": 0, "epochs": 48}],
        "mechanisms": deepcopy(rng.sample(MECHANISMS, 2)),
    }
    recovery = {
        "seed": 1, "first": 0, "observed": 24, "epochs": 24,
        "priors": [{"name": "freq_roi"}], "strategies": [{"name": "bayes"}],
    }  # fmt: skip
    plan = {"cube": cube, "output": "run", "cluster": deepcopy(rng.choice(CLUSTERS))}
    chosen = rng.choice(({"audit": audit}, {"recovery": recovery}, {"audit": audit} | {
        "recovery": recovery, "traits": {}}))  # fmt: skip
    return plan | chosen


def _template(rng: random.Random) -> dict[str, Any]:
    return {
        "seed": 3,
        "targets": rng.choice(({"random": 4}, {"tertiles": 2}, {"most_exposed": 5}, {"all": True})),
        "priors": deepcopy(rng.sample(PRIORS, 1)),
        "attacks": [{"name": name} for name in rng.sample(ATTACKS, 2)],
    }


def _catalogue(rng: random.Random, cube: str) -> dict[str, Any]:
    entry = {
        "counts": "week-1.zarr", "series": "stations", "group_size": 30, "first": 0,
        "mechanism": deepcopy(rng.choice(MECHANISMS)),
    }  # fmt: skip
    return {
        "cube": {"path": cube},
        "output": "releases",
        "releases": [entry, {**entry, "counts": "week-2.zarr"}],
        "audit": _template(rng),
        "published": 20,
        "policy": _policy(),
        "cluster": {"name": "serial"},
    }


def _policy() -> dict[str, Any]:
    return {
        "mean_privacy_loss": {"warn": 0.3, "fail": 0.5},
        "share_exposed": {"warn": 0.1, "fail": 0.25},
        "exposed_above": 0.5,
        "newly_exposed": 0.1,
        "utility": {"hotspot_f1": 0.3},
        "promise": "fail",
        "consistency": "fail",
    }
