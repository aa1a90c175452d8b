"""Made results of an audit, and studies to look for numbers in them."""

from __future__ import annotations

import json

import numpy as np
import xarray as xr

from clusterscale.papers import PaperStudy

SIZES, ATTACKS, MECHANISMS = [10, 100], ["logistic", "nearest"], ["exact", "laplace(epsilon=1.0)"]
N_TARGETS = 40


def audited(seed: int = 0, n_targets: int = N_TARGETS) -> xr.Dataset:
    """Make results: AUC .9 at 10 members and .6 at 100; nearest and noise take .1 each."""
    rng = np.random.default_rng(seed)
    dims = ("target", "period", "prior", "group_size", "mechanism", "attack")
    level = (
        np.array([0.9, 0.6])[:, None, None] - np.array([0.0, 0.1])[:, None] - np.array([0.0, 0.1])
    )
    auc = level + rng.normal(0, 0.02, (n_targets, 1, 1, 2, 2, 2))
    utility = np.array([[[0.5, 0.2], [0.4, 0.1]]])  # group size, mechanism
    return xr.Dataset(
        {
            "auc": (dims, auc),
            "privacy_loss": (dims, np.maximum(0, 2 * auc - 1)),
            "utility": (("period", "group_size", "mechanism", "measure"), utility[..., None]),
            "utility_sd": (
                ("period", "group_size", "mechanism", "measure"),
                np.full((1, 2, 2, 1), 0.05),
            ),
        },
        {
            "target": np.arange(n_targets),
            "period": ["first week"],
            "prior": ["known_subset(alpha=0.2)"],
            "group_size": SIZES,
            "mechanism": MECHANISMS,
            "attack": ATTACKS,
            "measure": ["pearson"],
        },
        {"plan": json.dumps({"utility": {"groups": 25}})},
    )


def study(**fields: object) -> PaperStudy:
    """Return a study of that audit, of the cabs if nothing else is said."""
    given: dict[str, object] = {
        "paper": "NDSS18",
        "title": "Cabs",
        "cube": "cabs",
        "audit": {
            "targets": {"random": 40},
            "priors": [{"name": "known_subset", "alpha": 0.2}],
            "group_sizes": SIZES,
            "mechanisms": [{"name": "exact"}, {"name": "laplace", "epsilon": 1.0}],
            "attacks": [{"name": name} for name in ATTACKS],
        },
    }
    return PaperStudy.model_validate({**given, **fields})


EXACT = {"mechanism": "exact"}


def published(**fields: object) -> dict[str, object]:
    """Return numbers of AUC at 10 and 100 members, logistic, raw counts."""
    given: dict[str, object] = {
        "item": "Figure 4",
        "source": "section VI",
        "at": {**EXACT, "attack": "logistic"},
        "by": {"group_size": SIZES},
        "values": [0.9, 0.6],
    }
    return {**given, **fields}
