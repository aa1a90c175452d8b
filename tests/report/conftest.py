import json
import re

import numpy as np
import pytest
import xarray as xr
from report.made import named

from clusterscale import schema
from clusterscale.utility import UTILITIES

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

IDEALS = {
    "mean_relative_error(floor=0.1)": 0.0,
    "busiest_relative_error": 0.0,
    "hotspot_f1": 1.0,
    "hotspot_tau": 1.0,
    "hotspot_tau_listwise": 1.0,
    "jensen_shannon": 0.0,
    "jensen_shannon_distance": 0.0,
    "pearson": 1.0,
    "events_kept": 1.0,
    "total_variation": 0.0,
    "suppressed_share": 0.0,
}


def _gains(auc, mechanisms):
    """What each mechanism saves of the edge on bare counts; unknown where these are absent."""
    if "exact" not in mechanisms:
        return np.full_like(auc, np.nan)
    raw = auc[:, :, :, :, [list(mechanisms).index("exact")]]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(raw > 0.5, np.clip((raw - auc) / (raw - 0.5), 0, 1), 0.0)
    return np.where(np.isnan(raw) | np.isnan(auc), np.nan, gain)


def _price(periods, sizes, mechanisms, rng):
    """Utility that is lost step by step from the first mechanism to the last."""
    ideal = np.array(list(IDEALS.values()))
    wear = np.linspace(0, 0.9, len(mechanisms)) ** 2
    wear = wear * [mechanism != "exact" for mechanism in mechanisms]
    far = np.array([40.0 if "relative_error" in name else 0.9 for name in IDEALS])
    noise = rng.uniform(0.8, 1.2, (len(periods), len(sizes), len(mechanisms), len(ideal)))
    loss = wear[:, None] * far * noise
    guess = np.broadcast_to(np.abs(ideal - 0.7 * far), (len(periods), len(sizes), len(ideal)))
    share = np.broadcast_to(1 - wear, loss.shape[:-1])
    return np.abs(ideal - loss), 0.05 * loss, guess.copy(), share.copy()


def _promises(periods, mechanisms):
    """A guarantee of an event for every mechanism that names an epsilon, else none."""
    named = [re.search(r"epsilon=([0-9.]+)", mechanism) for mechanism in mechanisms]
    rank = np.array([float(found[1]) if found else np.inf for found in named])
    made = np.isfinite(rank)

    def words(kept, none):
        return np.where(made, kept, none)

    def numbers(kept, none):
        return np.where(made, kept, none).astype(float)

    each = {
        "guarantee_unit": words("event", "none"),
        "guarantee_epsilon": rank,
        "guarantee_delta": numbers(0.0, np.nan),
        "guarantee_neighbours": np.full(len(made), "add_remove"),
        "guarantee_reason": words(
            "Laplace noise of scale sensitivity / epsilon on every count",
            "counts are published as they are",
        ),
        "float_noise": np.full(len(made), "no"),
        "sensitivity": numbers(1.0, np.nan),
        "sensitivity_needed": numbers(np.where(np.arange(len(made)) % 3 == 2, 2.0, 1.0), np.nan),
        "user_epsilon": 168 * rank,
        "user_delta": numbers(0.0, np.nan),
        "composed_epsilon": 40 * rank,
        "composed_delta": numbers(1e-5, np.nan),
        "auc_ceiling": 1 - 1 / (1 + np.exp(np.minimum(80 * rank, 700))),
    }
    dims = ("period", "mechanism")
    return {name: (dims, np.tile(value, (len(periods), 1))) for name, value in each.items()}


def _verdicts(periods, sizes, mechanisms):
    """A promise that is kept wherever one is made."""
    unit = _promises(periods, mechanisms)["guarantee_unit"][1]
    epsilon = _promises(periods, mechanisms)["guarantee_epsilon"][1]
    made = unit != "none"
    each = {
        "epsilon_seen": np.where(made, 0.75 * epsilon, np.nan),
        "verdict_trials": np.where(made, 20_000.0, 0.0),
        "verdict": np.where(made, "consistent", "nothing promised"),
    }
    dims = ("period", "group_size", "mechanism")
    return {
        name: (dims, np.repeat(value[:, None], len(sizes), axis=1)) for name, value in each.items()
    }


def _sure(auc, control, seed):
    """What goes with an AUC over 100 challenges; sound controls, and an adversary who adds up."""
    rng = np.random.default_rng([seed, 1])
    known = np.isfinite(auc)

    def spread(mean):
        return np.where(known, np.clip(rng.normal(mean, 0.05, auc.shape), 0, 1), np.nan)

    case, pooled = schema.RESULTS["auc"].dims, schema.RESULTS["pooled_tpr"].dims
    levels = np.where(known[..., None], 2, 0) * np.ones(25, int)
    lead = np.clip(np.nan_to_num(auc).mean(axis=0) - 0.5, 0, 0.5)
    return {
        "auc_low": (case, np.clip(auc - 0.1, 0, 1)),
        "auc_high": (case, np.clip(auc + 0.1, 0, 1)),
        "auc_degrees": (case, np.full(auc.shape, np.inf)),
        "tpr": (case, np.clip(2 * auc - 0.9, 0, 1)),
        "epsilon_lower": (case, np.maximum(0, 2 * auc - 1)),
        "control_auc": (case, control),
        "absent_auc": (case, spread(0.5)),
        "naive_auc": (case, spread(0.52)),
        "n_challenges": (case, np.where(known, 100, 0)),
        "level_inside": ((*case, "level"), levels),
        "level_outside": ((*case, "level"), levels // 2),
        "pooled_epsilon_lower": (pooled, 2 * lead),
        "pooled_tpr": (pooled, 0.1 + lead),
        "resolvable_fpr": (pooled, np.full(lead.shape, 0.04)),
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
        plan = json.loads(attrs.get("plan", json.dumps(_PLAN)))
        shape = (n_targets, len(periods), len(priors), len(sizes), len(mechanisms), len(attacks))
        auc, control = _numbers(shape, np.array(sizes), attacks, mechanisms, seed)
        status, error = np.full(shape, "done", dtype=object), np.full(shape, "", dtype=object)
        if failed is not None:
            status[failed] = "failed"
            error[failed] = "PoolError: the pool 'known' has 106 users, 100 fit"
            auc[failed] = control[failed] = np.nan
        accuracy = np.where(np.isnan(auc), np.nan, np.round(auc - 0.03, 3))
        utility, spread, guess, share = _price(
            periods, sizes, mechanisms, np.random.default_rng(seed)
        )
        price = schema.RESULTS["utility"].dims
        names = pseudonyms or [f"u{7919 * (i + 1) % 65536:04x}" for i in range(n_targets)]
        made = xr.Dataset(
            {
                "auc": (dims, auc),
                "privacy_loss": (dims, np.maximum(0, 2 * auc - 1)),
                "privacy_gain": (dims, _gains(auc, mechanisms)),
                "accuracy": (dims, accuracy),
                **_sure(auc, control, seed),
                "seconds": (dims, np.where(np.isnan(auc), np.nan, 1.5)),
                "status": (dims, status.astype(str)),
                "error": (dims, error.astype(str)),
                "utility": (price, utility),
                "utility_sd": (price, spread),
                "released_share": (price[:-1], share),
                "random_guess": (schema.RESULTS["random_guess"].dims, guess),
                **_promises(periods, mechanisms),
                **_verdicts(periods, sizes, mechanisms),
            },
            coords={
                "target": np.arange(n_targets),
                "pseudonym": ("target", np.array(names, dtype=str)),
                "tertile": ("target", np.resize(["high", "mild", "some"], n_targets)),
                "n_events": ("target", 3800 - 11 * np.arange(n_targets)),
                "period": list(periods),
                "n_seen": ("period", np.full(len(periods), _CUBE["n_users"])),
                "prior": list(priors),
                "group_size": list(sizes),
                "mechanism": list(mechanisms),
                "attack": list(attacks),
                "level": np.arange(1, 26) / 25,
                "measure": list(IDEALS),
                "measure_title": ("measure", [name.replace("_", " ") for name in IDEALS]),
                "measure_kind": (
                    "measure",
                    [UTILITIES[name.partition("(")[0]].kind for name in IDEALS],
                ),
                **named("mechanism", mechanisms, plan.get("mechanisms", ())),
                **named("prior", priors, plan.get("priors", ())),
                "ideal": ("measure", list(IDEALS.values())),
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
        return schema.validate(made)

    return make
