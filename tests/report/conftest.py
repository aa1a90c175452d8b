import json

import numpy as np
import pytest
import xarray as xr

from clusterscale import schema

_CUBE = {
    "n_users": 534,
    "n_rois": 101,
    "n_epochs": 504,
    "n_events": 2_013_414,
    "null_roi": True,
    "when": "504 epochs of 1 h from 2008-05-19 00:00 America/Los_Angeles",
    "source": "sfc cabs",
}
_PLAN = {
    "cube": "cabs.zarr",
    "seed": 7,
    "targets": {"per_tertile": 4},
    "priors": [{"name": "known_subset", "alpha": 0.2}],
    "attacks": [{"name": "logistic"}, {"name": "spectral", "components": 0.99}],
}


def _numbers(shape, sizes, attacks, mechanisms, seed):
    rng = np.random.default_rng(seed)
    skill = np.linspace(0.42, 0.9, len(attacks))
    size = 1 / (1 + np.log10(np.maximum(sizes, 1)) ** 2 / 2)
    noise = 1 / (1 + np.arange(len(mechanisms)) * 2)
    mean = 0.5 + 0.5 * size[:, None, None] * noise[None, :, None] * skill[None, None, :] ** 0.3
    auc = mean + rng.normal(0, 0.06, shape) + rng.normal(0, 0.03, shape[:1])[..., *[None] * 5]
    return np.clip(np.round(auc, 4), 0, 1), np.clip(rng.normal(0.5, 0.05, shape), 0, 1)


@pytest.fixture
def make_results():
    """Build the results of an audit that keep the schema; numbers are drawn, not measured."""

    def make(
        *,
        n_targets=12,
        sizes=(10, 50, 100),
        attacks=("logistic", "nearest", "spectral"),
        mechanisms=("exact",),
        priors=("known_subset(alpha=0.2)",),
        periods=("0:168",),
        pseudonyms=None,
        failed=None,
        seed=1,
        **attrs,
    ):
        dims = schema.RESULTS["auc"].dims
        shape = (n_targets, len(periods), len(priors), len(sizes), len(mechanisms), len(attacks))
        auc, control = _numbers(shape, np.array(sizes), attacks, mechanisms, seed)
        status, error = np.full(shape, "done", dtype=object), np.full(shape, "", dtype=object)
        if failed is not None:
            status[failed] = "failed"
            error[failed] = "PoolError: the pool 'known' has 106 users, 100 fit"
            auc[failed] = control[failed] = np.nan
        accuracy = np.where(np.isnan(auc), np.nan, np.round(auc - 0.03, 3))
        names = pseudonyms or [f"u{7919 * (i + 1) % 65536:04x}" for i in range(n_targets)]
        return xr.Dataset(
            {
                "auc": (dims, auc),
                "privacy_loss": (dims, np.maximum(0, 2 * auc - 1)),
                "accuracy": (dims, accuracy),
                "control_auc": (dims, control),
                "seconds": (dims, np.where(np.isnan(auc), np.nan, 1.5)),
                "status": (dims, status.astype(str)),
                "error": (dims, error.astype(str)),
            },
            coords={
                "target": np.arange(n_targets),
                "pseudonym": ("target", np.array(names, dtype=str)),
                "tertile": ("target", np.resize(["high", "mild", "some"], n_targets)),
                "n_events": ("target", 3800 - 11 * np.arange(n_targets)),
                "period": list(periods),
                "prior": list(priors),
                "group_size": list(sizes),
                "mechanism": list(mechanisms),
                "attack": list(attacks),
            },
            attrs={
                "format": schema.RESULTS_FORMAT,
                "plan": json.dumps(_PLAN),
                "plan_digest": "0f3a9c51d2",
                "cube": json.dumps(_CUBE),
                "cube_fingerprint": "blake2b:77ab01",
                "seed": 7,
                "versions": json.dumps({"numpy": "2.4.6", "clusterscale": "0.1.0"}),
            }
            | attrs,
        )

    return make
