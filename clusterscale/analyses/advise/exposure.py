"""Exposure of users in a screen and of targets under attack, with intervals, and its limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.analyses.advise.goal import AttackedLimit, Finding, ScreenedLimit
from clusterscale.analyses.advise.plan import CONFIDENCE
from clusterscale.analyses.screening import is_counted
from clusterscale.contracts import Floats, Ints
from clusterscale.metrics import mean_interval, worst_interval
from clusterscale.phrases import at_most

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, slots=True)
class Screened:
    """Exposure of some users in a screen, where it is highest over periods and group sizes.

    Attributes
    ----------
    mean
        Mean privacy loss over users, of the strongest attack.
    share, low, high
        Share of users above the limit, and its interval; NaN without a limit.
    """

    mean: float
    share: float = np.nan
    low: float = np.nan
    high: float = np.nan


@dataclass(frozen=True, slots=True)
class Attacked:
    """AUCs of targets, where they are highest over periods, priors, group sizes and attacks.

    Attributes
    ----------
    mean, low, high
        Largest mean over targets, and the largest ends of its intervals.
    worst, worst_low, worst_high
        Largest AUC of a target, and the largest ends of its intervals; the lower ones are widened
        (Bonferroni), so that the largest of many is above the true AUC as rarely as one.
    n_targets
        Number of targets.
    ceiling
        Certified AUC that none of them exceeds; 1 if nothing less is certified for their game.
    """

    mean: float
    low: float
    high: float
    worst: float
    worst_low: float
    worst_high: float
    n_targets: int
    ceiling: float = 1.0


def read_screened(
    screened: xr.Dataset, users: Ints, limit: ScreenedLimit | None
) -> dict[str, Screened]:
    """Return the exposure of some users by the id of the mechanism.

    A user who could not be compared counts as fully exposed.

    Parameters
    ----------
    screened
        Dataset of a screen.
    users
        Indices of users, int64, shape (user,).
    limit
        The limit whose share is wanted; None for the mean only.
    """
    order = "period", "group_size", "attack", "user"
    users = np.sort(users)
    counted = is_counted(screened).values.T[:, users]
    found = {}
    for name in screened.mechanism.values.tolist():  # one by one: users may be many
        by_period = screened.privacy_loss.sel(mechanism=name).transpose(*order).values[..., users]
        settings = [
            np.nan_to_num(loss[counts].astype(np.float64), nan=1.0)
            for by_size, counts in zip(by_period, counted, strict=True)
            for by_attack in by_size
            for loss in by_attack
            if counts.any()
        ]
        found[str(name)] = _strongest(settings, limit)
    return found


def _strongest(settings: list[Floats], limit: ScreenedLimit | None) -> Screened:
    """Return the highest mean and share over settings; full exposure if there is none."""
    mean = max((float(losses.mean()) for losses in settings), default=1.0)
    if limit is None:
        return Screened(mean)
    flags = [losses > limit.loss for losses in settings]
    shares = [float(above.mean()) for above in flags]
    ends = [_share_interval(above) for above in flags]
    lows, highs = zip(*ends, strict=True) if ends else ((0.0,), (1.0,))
    return Screened(mean, max(shares, default=1.0), max(lows), max(highs))


def _share_interval(flags: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson, which takes no longer for many users."""
    counted = scipy.stats.binomtest(int(flags.sum()), len(flags))
    low, high = counted.proportion_ci(CONFIDENCE, method="exact")
    return float(low), float(high)


def screened_findings(
    screened: Screened | None, limit: ScreenedLimit | None, ceiling: float = 1.0
) -> Iterator[Finding]:
    """Yield whether the limit on screened exposure holds, as a certified AUC can show, too."""
    if limit is None:
        return
    if 2 * ceiling - 1 <= limit.loss:
        most = f"no user has a privacy loss above {at_most(2 * ceiling - 1)}"
        yield Finding("holds", f"{most} (limit {limit.loss:g}: the certificate decides)")
        return
    if screened is None:
        text = "a screen cannot score its releases, so the limit cannot be shown to hold"
        yield Finding("unclear", f"{text}; {_interval_by(ceiling)}")
        return
    text = (
        f"{screened.share:.1%} of users above a privacy loss of {limit.loss:g} "
        f"({screened.low:.1%} to {screened.high:.1%}; limit {limit.share:.1%}: "
        f"{_interval_by(ceiling)})"
    )
    yield Finding.of(screened.low, screened.share, screened.high, limit.share, text, "users")


def read_attacked(results: xr.Dataset, mechanism: str, ceiling: float = 1.0) -> Attacked:
    """Return the exposure of the targets of an audit under one mechanism.

    Parameters
    ----------
    results
        Dataset of an audit.
    mechanism
        Id of the mechanism.
    ceiling
        Certified AUC of its releases if somebody else takes the place of a user. It is not used
        for adversaries who train on the challenge groups: they recognise groups, and not only the
        target.
    """
    order = "period", "prior", "group_size", "attack", "target"
    chosen = results.sel(mechanism=mechanism)
    auc, low, high, degrees = (
        chosen[name].transpose(*order).values.reshape(-1, results.sizes["target"])
        for name in ("auc", "auc_low", "auc_high", "auc_degrees")
    )
    settings = [values[np.isfinite(values)] for values in auc]
    settings = [values for values in settings if len(values)]
    if not settings:
        return Attacked(np.nan, 0.0, 1.0, np.nan, 0.0, 1.0, 0)
    ends = [mean_interval(values, confidence=CONFIDENCE) for values in settings]
    recognise_groups = chosen["auc"].notnull() & chosen["epsilon_lower"].isnull()
    worst_low, worst_high = worst_interval(auc, low, high, degrees, confidence=CONFIDENCE)
    return Attacked(
        mean=max(float(values.mean()) for values in settings),
        low=max(end for end, _ in ends),
        high=max(end for _, end in ends),
        worst=float(np.nanmax(auc)),
        worst_low=worst_low,
        worst_high=worst_high,
        n_targets=int(np.isfinite(auc).any(axis=0).sum()),
        ceiling=1.0 if recognise_groups.any() else ceiling,
    )


def attacked_findings(attacked: Attacked, limit: AttackedLimit | None) -> Iterator[Finding]:
    """Yield whether each limit on attacked exposure holds, by the interval or a certified AUC.

    The lower of its upper end and the ceiling counts, unless the whole interval is above the
    limit: then attacks contradict the certificate.
    """
    if limit is None:
        return
    mean = ("mean", attacked.low, attacked.mean, attacked.high, limit.mean_auc)
    worst = ("worst", attacked.worst_low, attacked.worst, attacked.worst_high, limit.worst_auc)
    ceiling = attacked.ceiling
    for (word, low, value, high, most), seen in ((mean, "targets"), (worst, "challenges")):
        if most is not None:
            decides = low <= most and ceiling <= min(most, high)
            certified = f"the certificate, {at_most(ceiling)}, decides"
            by = certified if decides else _interval_by(ceiling)
            text = (
                f"{word} AUC {value:.3f} ({low:.3f} to {high:.3f}) of {attacked.n_targets} "
                f"attacked users (limit {most:g}: {by})"
            )
            end, n = ceiling if decides else high, attacked.n_targets if seen == "targets" else 0
            yield Finding.of(low, value, end, most, text, seen, n)


def _interval_by(ceiling: float) -> str:
    certificate = f"the certificate is {at_most(ceiling)}"
    return f"the interval decides, {certificate if ceiling < 1 else 'no certificate is below 1'}"
