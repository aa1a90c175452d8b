"""Why nothing is advised: what was shown of the candidates, and what was left open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil
from typing import Literal, get_args

import numpy as np

from clusterscale.analyses.advise.candidate import STAGES, Candidate
from clusterscale.analyses.advise.goal import Finding
from clusterscale.analyses.advise.plan import HeldOut
from clusterscale.validation_messages import plural

Cause = Literal["none exists", "too slow to confirm", "too few users", "cannot be shown"]
"""Why no candidate is advised."""

_GROUNDS = (
    "{} not for these cells or groups", "{} by guarantees or certificates", "{} in the screen",
    "{} by utility", "{} under attack", "{} in the confirmation",
)  # fmt: skip
_REMEDIES = {
    "targets": "raise advise.search_targets and confirm_targets",
    "groups": "raise advise.groups and confirm_groups",
    "challenges": "raise challenges of the priors",
    "tries": "relax a limit, or name fewer families",
}


def find_causes(candidates: Sequence[Candidate], users: HeldOut) -> list[tuple[Cause, str]]:
    """Return each cause for which candidates are not advised, with a sentence and its numbers.

    First is that of the candidate which exposes least among those that may keep all limits.

    Parameters
    ----------
    candidates
        All candidates of a search that advises none.
    users
        Users of the search, and of the confirmation.
    """
    doubtful = dict[Cause, list[tuple[Candidate, Finding, int]]]()
    for one in sorted(candidates, key=lambda one: one.exposure):
        n_users = len(users.search if one.confirmed is None else users.confirm)
        if one.doubts:
            hardest = max(one.doubts, key=lambda finding: _rank(finding, n_users))
            cause = get_args(Cause)[_rank(hardest, n_users)[0]]
            doubtful.setdefault(cause, []).append((one, hardest, n_users))
    found = [(cause, _say(cause, some)) for cause, some in doubtful.items()]
    return found or [("none exists", _say_none(candidates))]


def furthest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates in the order of how far they got, of these the least exposed first."""
    return sorted(candidates, key=lambda one: (-STAGES.index(one.reached), one.exposure))


def _rank(finding: Finding, n_users: int) -> tuple[int, float]:
    """Return the position of the cause of a doubt, and how much more it takes.

    A forecast from less than half of the users does not show that all of them are too few.
    """
    too_few = finding.seen == "targets" and finding.times * finding.n > n_users <= 2 * finding.n
    rank = 2 if too_few or finding.seen == "users" else 1 if finding.seen else 3
    return rank, finding.times


def _say(cause: Cause, doubtful: Sequence[tuple[Candidate, Finding, int]]) -> str:
    closest, finding, n_users = doubtful[0]
    text = (
        f"{cause.capitalize()}: {plural(len(doubtful), 'candidate')} may keep all limits and "
        f"bounds. Closest is {closest.mechanism.heading}: {finding.text}"
    )
    if np.isfinite(finding.times):
        n = ceil(finding.times * finding.n)
        many = f"{n:,}" if n else f"{finding.times:.1f} times as many"
        text += f"; about {many} {finding.seen} would tell"
    text += f"; there are {n_users:,} users" * (finding.seen in ("users", "targets"))
    return text + (f": {_REMEDIES[finding.seen]}." if cause == "too slow to confirm" else ".")


def _say_none(candidates: Sequence[Candidate]) -> str:
    counts = Counter(one.reached for one in candidates)
    pairs = zip(STAGES, _GROUNDS, strict=True)
    grounds = [text.format(counts[stage]) for stage, text in pairs if counts[stage]]
    last = furthest(candidates)[0]
    return (
        f"All {plural(len(candidates), 'candidate')} were shown to break a limit or a bound: "
        f"{', '.join(grounds)}. Furthest got {last.mechanism.heading}: {last.reason}."
    )
