"""Tables of verdicts as a ledger keeps them, with numbers made up, and the pages they make."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
from report.page import Page

from clusterscale.release.verdict import Verdict
from clusterscale.reporting import render_trend

LIMITS = (0.3, 0.4)  # of the mean privacy loss, to warn and to fail


def reason(check, level, measured=None, limit=None, text=""):
    return {"check": check, "level": level, "measured": measured, "limit": limit, "text": text}


def judge(loss, broken):
    """Verdict and reasons of a made-up policy of three checks."""
    if not np.isfinite(loss):
        level, measured = "unknown", None
    else:
        level = "fail" if loss > LIMITS[1] else "warn" if loss > LIMITS[0] else "pass"
        measured = float(loss)
    limit = LIMITS[level == "fail"]
    told = f"the mean privacy loss is {loss:.3f}, and the limit is {limit}"
    reasons = [
        reason("mean_privacy_loss", level, measured, limit, told),
        reason(
            "consistency",
            "fail" if broken else "pass",
            2.0 if broken else 0.0,
            0.0,
            "2 counts are negative" if broken else "all counts are whole and at least 0",
        ),
        reason("published_membership", "unknown", text="no membership is known"),
    ]
    levels = {each["level"] for each in reasons}
    verdict = next((each for each in ("fail", "warn") if each in levels), "pass")
    return verdict, json.dumps(reasons)


def make_trend(n=8, series=("cabs weekly",), seed=0, **columns):
    """A table in which exposure drifts upwards; the fifth release of a series is inconsistent."""
    rng = np.random.default_rng(seed)
    rows = []
    for place in range(n):
        for index, name in enumerate(series):
            rows.append(_row(len(rows), place, n, index, name, rng))
    return pd.DataFrame(rows).assign(**columns)


def _row(number, place, n, index, name, rng):
    loss = 0.12 + 0.3 * place / max(n, 8) + 0.06 * index + rng.normal(0, 0.03)
    loss = max(loss, 0.0)
    verdict, reasons = judge(loss, place == 4)
    first = place == 0
    change = float("nan") if first else rng.normal(0.02, 0.02)
    utility = {"mean_relative_error(floor=0.1)": 0.4 + 0.1 * rng.random(), "pearson": 0.93}
    return {
        "number": number,
        "series": name,
        "release": f"2024-W{place + 1:02}",
        "period": f"week {place + 1}",
        "first": 168 * place,
        "epochs": 168,
        "group_size": 1000,
        "mechanism": "laplace(epsilon=1.0)",
        "verdict": verdict,
        "reasons": reasons,
        "n_targets": 60,
        "mean_privacy_loss": loss,
        "mean_privacy_loss_low": loss - 0.03,
        "mean_privacy_loss_high": loss + 0.03,
        "worst_privacy_loss": min(1.0, 2.4 * loss),
        "share_above": min(1.0, 0.6 * loss),
        "loss_above": 0.5,
        "epsilon_lower": 0.4 * loss,
        "epsilon_declared": 1.0 if index == 0 else float("inf"),
        "published_auc": 0.5 + loss / 2,
        "published_auc_low": 0.45 + loss / 2,
        "published_auc_high": 0.55 + loss / 2,
        "utility": json.dumps(utility),
        "change": change,
        "change_low": change - 0.02,
        "change_high": change + 0.02,
        "change_p": float("nan") if first else 0.04,
        "n_common": 0 if first else 55,
        "n_newly_exposed": 0 if first else int(rng.integers(0, 4)),
        "n_no_longer_exposed": 0 if first else int(rng.integers(0, 3)),
        "utility_change": json.dumps(dict.fromkeys(utility, 0.01)),
        "run": f"runs/{number:08x}",
        "content": f"{number:04x}",
        "question": "aa",
        "policy": "bb",
        "version": "0.1.0",
    }


def render(table, **options):
    """The page of the verdicts that are the rows of a table."""
    rows = table.to_dict("records")
    return render_trend([Verdict(audit="", **row) for row in rows], **options)


def shown(table, **options):
    return Page(render(table, **options))


def said(page):
    """Everything in words, with plain spaces."""
    return " ".join(page.text.split())


def judged(*reasons):
    """One release, with the verdict that its reasons come to."""
    levels = {each["level"] for each in reasons}
    verdict = next((each for each in ("fail", "warn") if each in levels), "pass")
    return make_trend(1, verdict=verdict, reasons=json.dumps(reasons))
