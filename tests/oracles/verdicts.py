"""Rows of a ledger, and what was measured of a release, that differ only where a test wants it."""

import json

from clusterscale.reauditing import Verdict
from clusterscale.reauditing.release_metrics import IntervalEstimate, ReleaseMetrics, UtilityValue
from clusterscale.reporting.findings import Finding

REASON = {"check": "promise", "level": "pass", "measured": None, "limit": None, "text": "nothing"}


def verdict(number=0, **fields):
    reasons = fields.pop("reasons", [REASON])
    plain = {
        "series": "daily", "release": f"day-{number}", "period": "monday", "first": 24 * number,
        "epochs": 24, "group_size": 50, "mechanism": "exact", "verdict": "pass", "n_targets": 10,
        "mean_privacy_loss": 0.25, "mean_privacy_loss_low": 0.125, "mean_privacy_loss_high": 0.5,
        "worst_privacy_loss": 0.75, "share_above": 0.25, "loss_above": 0.5,
        "epsilon_lower": 0.5, "epsilon_declared": float("inf"), "published_auc": float("nan"),
        "published_auc_low": float("nan"), "published_auc_high": float("nan"),
        "utility": '{"pearson": 0.5}', "change": float("nan"), "change_low": float("nan"),
        "change_high": float("nan"), "change_p": float("nan"), "n_common": 0,
        "n_newly_exposed": 0, "n_no_longer_exposed": 0, "utility_change": "{}",
        "run": f"runs/{number:04x}", "content": f"c{number}", "audit": f"a{number}",
        "question": "q", "policy": "p", "version": "1",
    }  # fmt: skip
    return Verdict(number=number, reasons=json.dumps(reasons), **(plain | fields))


FINDING = Finding(
    period="a week",
    prior="known",
    group_size=50,
    mechanism="laplace",
    attacks=("forest",),
    n_targets=20,
    n_done=20,
    mean=0.625,
    low=0.5625,
    high=0.75,
    n_above=0,
    n_certain=0,
    exposure="not seen to be exposed",
    reason="so it is",
)
FOUND = ReleaseMetrics(
    finding=FINDING,
    n_targets=20,
    attack="forest · known",
    mean_loss=IntervalEstimate(0.25, 0.125, 0.5),
    worst_loss=IntervalEstimate(0.75, 0.5, 0.75),
    share_exposed=IntervalEstimate.exact(0.0625),
    n_screened=1000,
    exposed_above=0.5,
    epsilon_seen=0.5,
    epsilon_declared=1.0,
    verdict="consistent",
    unit="user_day",
    utility={
        "pearson": UtilityValue(0.75, 1.0, "pearson", "pearson"),
        "mean_relative_error-0123456789ab": UtilityValue(
            0.5, 0.0, "mean_relative_error", "mean_relative_error(floor=1.0)"
        ),
    },
    float_noise="no",
)
