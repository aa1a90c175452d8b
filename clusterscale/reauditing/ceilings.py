"""Compare what attacks measured with certificates, and limit these by a policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import nan
from typing import Literal

import numpy as np

from clusterscale.analyses.certify.comparison import ERROR_RATE
from clusterscale.analyses.certify.results import ROWS_OF_RECORDS
from clusterscale.contracts import Level, Reason
from clusterscale.reauditing.known_part import KnownPart
from clusterscale.reauditing.metric_types import IntervalEstimate
from clusterscale.reauditing.policy import Policy
from clusterscale.reauditing.policy_evaluation import apply_limit
from clusterscale.reporting.brackets import read_brackets
from clusterscale.reporting.certificates import show_ceiling
from clusterscale.reporting.run import Run

_HELD = "if the number of people counted is fixed"


def evaluate_ceilings(
    policy: Policy, run: Run, mechanism: str, part: KnownPart | None = None
) -> Iterator[Reason]:
    """Yield the reasons that follow from the certificates of a run.

    Parameters
    ----------
    policy
        The limits.
    run
        Audit, screen and certificates of one cube.
    mechanism
        Label of the mechanism.
    part
        What is known of the people, if some are simulated: certificates about these never pass.

    Yields
    ------
    Reason
        ``ceiling``: whether every measured AUC may be below the ceiling of the person. It fails
        otherwise: the mechanism adds less noise than it states, or this software is wrong.
        ``certified_auc``: that limit of the policy, if there is one.
    """
    cases = [case.bracket for case in read_brackets(run) if case.mechanism == mechanism]
    if not cases:
        text = "measured exposure is not compared with ceilings: there are no certificates"
        yield Reason("ceiling", "unknown", nan, nan, text)
    else:
        one = max(cases, key=lambda case: (case.is_violated, case.low))
        simulated = part is not None and not part.n_known
        level: Level | Literal["unknown"] = "unknown" if simulated else "pass"
        level = "fail" if one.is_violated else level
        person = "simulated person" if simulated else "person"
        text = (
            f"attacks reach an AUC of at least {one.low:.3f} against one {person} (an error of at "
            f"most {ERROR_RATE:g}), and no adversary exceeds {show_ceiling(one.certified)}, {_HELD}"
        )
        if one.is_violated:
            text = (
                "attacks did better than any adversary can if the mechanism does what it states; "
                f"by chance this has a probability of at most {one.smallest_p:.1g}"
            )
        yield Reason("ceiling", level, one.low, one.certified, text)
    if policy.certified_auc is not None:
        worst = _worst(run, mechanism, part)
        text = (
            f"no adversary tells with an AUC above {show_ceiling(worst)} whether a user was added, "
            f"{_HELD}"
        )
        limit, estimate = policy.certified_auc, IntervalEstimate.exact(worst)
        reason = apply_limit("certified_auc", limit, estimate, text, ideal=0.5, one_sided=True)
        unknown = []
        if part is not None and reason.level == "pass":
            unknown.append(f"but it is not known how many counts other people change: {part}")
        if run.certify is not None and run.certify.attrs.get("rows") != "public":
            unknown.append(ROWS_OF_RECORDS)
        reason = replace(reason, text="; ".join([reason.text, *unknown]))
        if unknown and reason.level == "pass":
            reason = replace(reason, level=policy.exposure.inconclusive)
        yield reason


def _worst(run: Run, mechanism: str, part: KnownPart | None) -> float:
    """Return the largest ceiling of adding a known user; NaN if there are no certificates."""
    if run.certify is None or mechanism not in run.certify["mechanism"].values:
        return nan
    known = slice(None) if part is None or not part.n_known else slice(part.n_known)
    own = run.certify["auc"].isel(user=known)
    ceilings = own.sel(neighbours="add_remove", mechanism=mechanism).values
    return float(ceilings.max()) if np.isfinite(ceilings).all() else nan
