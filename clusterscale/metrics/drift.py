"""Change of users' exposure from earlier releases to a later one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import check_confidence
from clusterscale.metrics.intervals import mean_interval

__all__ = ["Drift", "compare_exposure", "pool_exposure"]

Floats = NDArray[np.float64]
Users = NDArray[np.int64]

_MANY = 20  # differences from which mean_interval replaces Student's interval
_PAIRS = 6  # common users from which a paired test can reject: 2/2⁵ is above .05
_EXACT = 50  # common users up to which the test is exact, with or without ties
_DIGITS = 12  # losses are ratios of counts: smaller differences are rounding errors


@dataclass(frozen=True, slots=True)
class Drift:
    """Change of privacy loss, after minus before.

    ``n_common`` users were observed on both sides; ``change`` is the mean of their differences, and
    ``low`` to ``high`` the confidence interval of the mean. ``p_value`` is two-sided, for no
    change. ``n_newly_exposed`` and ``n_no_longer_exposed`` of them crossed the limit. Unknown
    values are NaN.
    """

    n_common: int
    change: float
    low: float
    high: float
    p_value: float
    n_newly_exposed: int
    n_no_longer_exposed: int


def compare_exposure(
    before_users: ArrayLike,
    before_loss: ArrayLike,
    after_users: ArrayLike,
    after_loss: ArrayLike,
    *,
    limit: float,
    margin: float = 0.0,
    before_bounds: tuple[ArrayLike, ArrayLike] | None = None,
    after_bounds: tuple[ArrayLike, ArrayLike] | None = None,
    confidence: float = 0.95,
) -> Drift:
    """Compare the privacy losses of users in a release with those before it.

    Users observed on both sides are compared with themselves. The interval of the mean difference
    is :func:`mean_interval` for 20 users or more, and for any number with equal differences, else
    Student's. The test is Wilcoxon's signed-rank test, where zero differences have a rank but no
    sign (Wilcoxon 1945, Pratt 1959): exact for up to 50 users, over all sign changes, with or
    without ties, and normal with a continuity correction above. With fewer than 6 common users no
    paired test reaches 5 %, so all users of one side are compared with all of the other (Mann and
    Whitney 1947), which is conservative if some of them are the same.

    A user is newly exposed if its loss was at most ``limit``, is now above it, rose by more than
    ``margin``, and its interval after is entirely above its interval before; the last condition is
    skipped where bounds are not given, or NaN. No longer exposed is the same with before and after
    exchanged. Estimates that only fluctuate around the limit are thus not counted.

    Parameters
    ----------
    before_users, after_users
        int, shape (user,), rows of the same cube, each at most once and in any order. Users must
        not have been chosen by their losses on either side: the most exposed of one release look
        less exposed in any other.
    before_loss, after_loss
        float, shape (user,), privacy losses between 0 and 1; users with NaN count as not observed.
        Several earlier releases are combined by :func:`pool_exposure`.
    limit
        Privacy loss above which a user is exposed, between 0 and 1.
    margin
        Amount by which a loss must also change, at least 0.
    before_bounds, after_bounds
        Low and high ends of each user's loss, float, shape (user,), such as those of
        :func:`auc_interval` converted to losses; NaN where not known.
    confidence
        Probability that the interval contains the true mean; strictly between 0 and 1.

    Returns
    -------
    Drift
        The change and its interval are NaN without a common user, and the p-value if a side has
        no user.

    Raises
    ------
    InputError
        If users are not whole numbers or appear twice, if arrays differ in length, or a number is
        out of range.

    Notes
    -----
    Measured at 95 % over 1,000 to 8,000 samples of losses clipped at 0, in per cent: how often the
    interval contains the true mean change if nothing changes, if all AUCs fall by up to .05, and
    if one in ten rises by .4; and how often the test rejects at 5 % if nothing changes.

    ============  =======  ========  ========  ====
    common users  nothing  all fall  few rise  test
    ============  =======  ========  ========  ====
    3             95.4     95.2      94.6      0.0
    6             94.8     95.4      93.5      3.0
    10            95.1     95.1      92.0      4.5
    20            94.7     94.3      92.6      4.9
    50            95.4     94.7      94.1      4.7
    100           94.8     94.7      93.6      4.8
    ============  =======  ========  ========  ====

    Of unchanged users spread evenly around the limit, with AUC errors of .06, 6.8 % count as newly
    exposed by their losses alone, and 0.14 % if 95 % intervals must not overlap.
    """
    check_confidence(confidence)
    _check_share(limit, "limit")
    if not margin >= 0:
        raise InputError(f"margin must be at least 0, not {margin}")
    before, before_low, before_high = _read(before_users, before_loss, before_bounds, "before")
    after, after_low, after_high = _read(after_users, after_loss, after_bounds, "after")
    _, old, new = np.intersect1d(before[0], after[0], assume_unique=True, return_indices=True)
    was, now = before[1][old], after[1][new]
    difference = np.round(now - was, _DIGITS)
    low, high = _interval(difference, confidence)
    rose = (was <= limit) & (now > limit) & (difference > margin)
    fell = (was > limit) & (now <= limit) & (-difference > margin)
    # comparisons with NaN are false, so the negation ignores unknown bounds
    rose &= ~(after_low[new] <= before_high[old])
    fell &= ~(before_low[old] <= after_high[new])
    return Drift(
        n_common=difference.size,
        change=float(difference.mean()) if difference.size else float("nan"),
        low=low,
        high=high,
        p_value=_test(difference, before[1], after[1]),
        n_newly_exposed=int(rose.sum()),
        n_no_longer_exposed=int(fell.sum()),
    )


def pool_exposure(releases: Sequence[tuple[ArrayLike, ArrayLike]]) -> tuple[Users, Floats]:
    """Return the mean loss of each user over the releases in which it was observed.

    Pool low and high ends of losses in the same way. The means of the ends are a conservative
    interval of the mean loss, because errors of several releases partly cancel.

    Parameters
    ----------
    releases
        Of each release, users (int, shape (user,), each at most once) and their losses (float,
        shape (user,), between 0 and 1, NaN = not observed). May be empty.

    Returns
    -------
    tuple of arrays, each of shape (user,)
        Users observed at least once, int64, ascending, and their mean losses, float64. The order
        of releases and users affects at most the last digit.

    Raises
    ------
    InputError
        As :func:`compare_exposure`; the message has the index of the release.
    """
    pairs = [
        _read(users, loss, None, f"release {i}")[0] for i, (users, loss) in enumerate(releases)
    ]
    if not pairs:
        return np.empty(0, np.int64), np.empty(0)
    users, index = np.unique(np.concatenate([rows for rows, _ in pairs]), return_inverse=True)
    losses = np.concatenate([loss for _, loss in pairs])
    return users, np.bincount(index, losses, users.size) / np.bincount(index, minlength=users.size)


def _read(
    users: ArrayLike, loss: ArrayLike, bounds: tuple[ArrayLike, ArrayLike] | None, where: str
) -> tuple[tuple[Users, Floats], Floats, Floats]:
    """Return users with their losses, and low and high ends; users without a loss are left out."""
    rows, losses = np.asarray(users), _losses(loss, where)
    if rows.size and rows.dtype.kind not in "iu":
        raise InputError(f"{where}: users are row indices, whole numbers, not {rows.dtype}")
    low, high = (_losses(end, f"bounds {where}") for end in bounds or (losses + np.nan,) * 2)
    shapes = {rows.shape, losses.shape, low.shape, high.shape}
    if len(shapes) > 1 or rows.ndim != 1:
        raise InputError(f"{where}: users and losses must have one length, not {sorted(shapes)}")
    if np.unique(rows).size < rows.size:
        raise InputError(f"{where}: {rows.size - np.unique(rows).size} users appear twice")
    known = np.isfinite(losses)
    return (rows[known].astype(np.int64), losses[known]), low[known], high[known]


def _losses(values: ArrayLike, where: str) -> Floats:
    losses = np.asarray(values, dtype=np.float64)
    outside = (losses < 0) | (losses > 1)
    if outside.any():
        raise InputError(
            f"{where}: a privacy loss must be between 0 and 1, not {losses[outside][0]}"
        )
    return losses


def _check_share(value: float, name: str) -> None:
    if not 0 <= value <= 1:
        raise InputError(f"{name} must be a privacy loss between 0 and 1, not {value}")


def _interval(difference: Floats, confidence: float) -> tuple[float, float]:
    n = difference.size
    if n < 2 or n >= _MANY or np.ptp(difference) == 0:
        return mean_interval(difference, confidence=confidence, bounds=(-1.0, 1.0))
    # for few values the distribution-free interval is too wide to show a change
    reach = float(scipy.stats.t.isf((1 - confidence) / 2, n - 1) * difference.std(ddof=1) / n**0.5)
    mean = float(difference.mean())
    return max(-1.0, mean - reach), min(1.0, mean + reach)


def _test(difference: Floats, before: Floats, after: Floats) -> float:
    """Return the two-sided p-value of no change; NaN if a side is empty."""
    if not (before.size and after.size):
        return float("nan")
    if difference.size < _PAIRS:
        return float(scipy.stats.mannwhitneyu(before, after).pvalue)
    if not difference.any():
        return 1.0
    if difference.size <= _EXACT:
        return _signed_ranks(difference)
    # sorted, so that sums do not depend on the order of users; normal approximation
    ordered = np.sort(difference)
    return float(scipy.stats.wilcoxon(ordered, zero_method="pratt", correction=True).pvalue)


def _signed_ranks(difference: Floats) -> float:
    """Return the p-value of the signed-rank test over all sign changes (Pratt 1959)."""
    ranks = scipy.stats.rankdata(np.abs(difference))
    moved = difference != 0
    doubled = np.rint(2 * ranks[moved]).astype(np.int64)  # mid-ranks are multiples of ½
    up = int(doubled[difference[moved] > 0].sum())
    chance = np.zeros(int(doubled.sum()) + 1)
    chance[0] = 1.0
    for rank in doubled:
        chance[rank:] = (chance[rank:] + chance[:-rank]) / 2
        chance[:rank] /= 2
    least = min(up, chance.size - 1 - up)
    return min(1.0, 2 * float(chance[: least + 1].sum()))
