"""Compare a release with the last ones of its series."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterscale.metrics import Drift, compare_exposure, pool_exposure
from clusterscale.reaudit.ledger import Verdict
from clusterscale.reaudit.release_metrics import Exposures, ReleaseMetrics

__all__ = ["Change", "change_since"]


@dataclass(frozen=True, slots=True)
class Change:
    """Change since the last releases: of exposure, None if there are none, and of utility."""

    drift: Drift | None = None
    utility: dict[str, float] = field(default_factory=dict)


def change_since(
    last: Sequence[tuple[Verdict, Exposures]],
    now: Exposures,
    found: ReleaseMetrics,
    *,
    limit: float,
) -> Change:
    """Compare a release with the last ones.

    Exposure is compared user by user with the mean of those last releases with the same kind of
    users, all or targets only; utility is compared with the last release.

    Parameters
    ----------
    last
        Verdicts and exposures of the last releases, the newest last.
    now, found
        Exposures and metrics of this release.
    limit
        The privacy loss above which a user is exposed.
    """
    if not last:
        return Change()
    before = json.loads(last[-1][0].utility)
    utility = {
        key: measure.value - before[key] for key, measure in found.utility.items() if key in before
    }
    similar = [then for _, then in last if then.everyone == now.everyone]
    if not similar:
        return Change(None, utility)
    users, loss = pool_exposure([(then.users, then.loss) for then in similar])
    _, low = pool_exposure([(then.users, then.low) for then in similar])
    _, high = pool_exposure([(then.users, then.high) for then in similar])
    drift = compare_exposure(
        users,
        loss,
        now.users,
        now.loss,
        limit=limit,
        before_bounds=(low, high),
        after_bounds=(now.low, now.high),
    )
    return Change(drift, utility)
