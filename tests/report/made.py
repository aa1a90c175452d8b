"""Datasets of screens and traits as their stores keep them, with numbers made up."""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from clusterscale.analyses.recovery import BELIEFS
from clusterscale.analyses.screening import SCREEN
from clusterscale.analyses.traits import TRAITS
from clusterscale.mechanisms import MECHANISMS as MECHANISMS_OF
from clusterscale.priors import PRIORS

CUBE = json.dumps({"source": "synthetic tfl", "n_users": 40})
MECHANISMS = ("exact", "laplace(epsilon=0.1)")

SERIES = {
    "name": "counts",
    "folder": "runs/counts",
    "budget": {"unit": "user", "epsilon": 2.0, "delta": 0.0},
    "days": ["2026-10-19", "2026-10-25"],
    "spent": (0.0, 1.0),
    "all_days": {"days": 28, "releases": 4, "spent": 4.0, "exceeds": True},
    "releases": {"so far": 0, "with this release": 1, "a year": 52},
    "person": {"so far": (0.0, 0.0), "with this release": (1.0, 0.0), "a year": (52.0, 0.0)},
    "refused": "",
    "others": "",
}
"""What a series of releases spends, as the page to sign takes it."""


def named(dim, labels, entries=(), along=""):
    """Return the coordinates that name ``labels``, with the titles of the ``entries`` of a plan."""
    components = [
        registry.create(**entry)
        for entry in entries
        for registry in (MECHANISMS_OF, PRIORS, BELIEFS)
        if entry["name"] in list(registry)
    ]
    titles = {each.label: each.heading for each in components}
    return {
        f"{dim}_label": (along or dim, np.array(labels, dtype=object)),
        f"{dim}_title": (
            along or dim, np.array([titles.get(each, each) for each in labels], dtype=object)
        ),
    }  # fmt: skip


def make_screen(n_users=40, mechanisms=MECHANISMS, sizes=(100,), periods=("week",), seed=0):
    """A screen in which user 7 is most exposed, and the first mechanism exposes most."""
    rng = np.random.default_rng(seed)
    shape = (n_users, len(periods), len(sizes), len(mechanisms), 2)
    auc = rng.uniform(0.5, 0.9, shape) - 0.1 * np.arange(len(mechanisms))[:, None]
    if n_users > 7:
        auc[7] = 0.99
    numbers = {
        "auc": auc,
        "auc_low": auc - 0.03,
        "auc_high": np.minimum(auc + 0.03, 1),
        "privacy_loss": np.maximum(2 * auc - 1, 0),
        "score_gap": rng.normal(size=shape),
    }
    data = {name: (SCREEN[name].dims, values) for name, values in numbers.items()}
    data["n_groups"] = (SCREEN["n_groups"].dims, np.full(shape[:3], 190))
    n_events = rng.integers(1, 400, (n_users, len(periods)))
    coords = {
        "user": np.arange(n_users),
        "n_events": (("user", "period"), n_events),
        "n_seen": ("period", (n_events > 0).sum(axis=0)),
        "period": np.array(periods, dtype=object),
        "group_size": np.array(sizes),
        "mechanism": np.array(mechanisms, dtype=object),
        **named("mechanism", mechanisms),
        "attack": np.array(["projection", "likelihood"], dtype=object),
    }
    about = {"format": "clusterscale-screen", "cube": CUBE, "plan": '{"groups": 200}', "seed": 1}
    return xr.Dataset(data, coords, about)


def make_traits(comparisons=3, views=1, shapes=None, names=None, seed=0):
    """Traits in which unicity separates, region 2 gives most away, and hours 0 to 23 are told."""
    rng = np.random.default_rng(seed)
    names = names or [f"r{i}" for i in range(6)]
    n_rois, n_epochs, traits = len(names), 48, ["total_events", "unicity"]
    loading = rng.uniform(0, 0.3, (views, 3, n_rois, n_epochs))
    loading[:, :, 2] += 0.5
    loading[..., 24:] = np.nan
    frequency = rng.dirichlet(np.ones(24), (comparisons, 3))
    frequency = np.concatenate([frequency, np.full_like(frequency, np.nan)], axis=-1)

    def texts(*values):
        return np.array([values[i % len(values)] for i in range(comparisons)], dtype=object)

    each = {
        "source": texts("audit", "screen"),
        "compared_period": texts("week"),
        "compared_prior": texts("known_subset(alpha=0.2)", ""),
        "compared_group_size": np.full(comparisons, 100),
        "compared_mechanism": texts("exact"),
        "compared_attack": texts("spectral", "likelihood", "projection"),
        "n_compared": np.full(comparisons, 6),
        "auc_top": 0.99 - 0.01 * np.arange(comparisons),
        "auc_bottom": np.full(comparisons, 0.6),
        "forest_accuracy": np.full(comparisons, 0.875),
        "top_mean": np.tile([310.0, 0.74], (comparisons, 1)),
        "top_sd": np.tile([12.0, 0.04], (comparisons, 1)),
        "bottom_mean": np.tile([290.0, 0.2], (comparisons, 1)),
        "bottom_sd": np.tile([40.0, 0.1], (comparisons, 1)),
        "forest_importance": np.tile([0.3, 0.7], (comparisons, 1)),
        "logistic_coefficient": np.tile([-0.2, 1.5], (comparisons, 1)),
        "separation": np.tile([0.55, 0.95], (comparisons, 1)),
        "frequency": frequency,
        "view_period": np.full(views, "week", dtype=object),
        "view_prior": np.full(views, "known_subset(alpha=0.2)", dtype=object),
        "view_group_size": np.full(views, 100),
        "view_mechanism": np.full(views, "exact", dtype=object),
        "n_viewed": np.tile([30, 3, 3], (views, 1)),
        "loading": loading,
        "value": rng.uniform(size=(40, 1, 2)),
        "n_events": np.arange(40)[:, None],
        "n_seen": np.full(1, 39),
        "characteristic_title": np.array(["events", "unicity"], dtype=object),
        "time": np.datetime64("2024-01-01", "ns") + np.arange(48) * np.timedelta64(1, "h"),
        "roi_name": np.array(names, dtype=object),
        "x": np.linspace(-122.4, -122.3, n_rois),
        "y": np.linspace(37.7, 37.8, n_rois),
        "roi_events": rng.integers(1, 99, (1, n_rois)),
        "epoch_events": rng.integers(1, 99, (1, n_epochs)),
    }
    data = {name: (TRAITS[name].dims, values) for name, values in each.items()}
    known = [{"name": "known_subset", "alpha": 0.2}]
    for name, along in (("compared_prior", "comparison"), ("view_prior", "view")):
        data |= named(name, each[name], known, along)
    coords = {
        "user": np.arange(40),
        "period": np.array(["week"], dtype=object),
        "characteristic": np.array(traits, dtype=object),
        "comparison": np.arange(comparisons),
        "who": np.array(["all", "top", "bottom"], dtype=object),
        "epoch": np.arange(n_epochs),
        "roi": np.arange(n_rois),
        "view": np.arange(views),
    }
    about = {
        "format": "clusterscale-traits",
        "cube": CUBE,
        "plan": json.dumps({"traits": {"share": 0.1, "components": 5}}),
        "roi_shapes": json.dumps(shapes or {"kind": "points"}),
    }
    return xr.Dataset(data, coords, about)
