"""Rows of a ledger that differ only where a test wants it."""

import json

from clusterscale.reaudit import Verdict

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
