"""How a release compares with the last ones of its series."""

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
    """The change since the last releases: of exposure, None where there were none; of utility."""

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

    Exposure is compared user by user with the mean of those releases in which the same people were
    looked at, everyone or the targets; utility with the last release.

    Parameters
    ----------
    last
        Verdicts and exposures of the last releases, the newest last.
    now, found
        Exposures and numbers of this one.
    limit
        The privacy loss above which somebody is exposed.
    """
    if not last:
        return Change()
    before = json.loads(last[-1][0].utility)
    utility = {
        key: each.value - before[key] for key, each in found.utility.items() if key in before
    }
    alike = [told for _, told in last if told.everyone == now.everyone]
    if not alike:
        return Change(None, utility)
    users, loss = pool_exposure([(each.users, each.loss) for each in alike])
    _, low = pool_exposure([(each.users, each.low) for each in alike])
    _, high = pool_exposure([(each.users, each.high) for each in alike])
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
