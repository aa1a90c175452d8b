"""Change of users' exposure from earlier releases to a later one.

Measured at 95 % over 1,000 to 8,000 samples of losses clipped at 0, in per cent: how often the
interval of :func:`compare_exposure` contains the true mean change if nothing changes, if all AUCs
fall by up to .05, and if one in ten rises by .4; and how often the test rejects at 5 % if nothing
changes.

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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Floats
from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import check_confidence
from clusterscale.metrics.intervals import mean_interval, student_cdf, student_quantile

Users = NDArray[np.int64]

_DIGITS = 12  # losses are ratios of counts: smaller differences are rounding errors


EXPOSED_AUC = 0.75
"""AUC above which a user counts as exposed: a privacy loss of one half."""


def auc_p_values(
    auc: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    *,
    degrees: ArrayLike = np.inf,
    limit: float = EXPOSED_AUC,
    confidence: float = 0.95,
) -> Floats:
    """Return one-sided p-values of "the true AUC is at most ``limit``", float64, shape of ``auc``.

    ``low`` and ``high`` are the ends of intervals of the given confidence on the log-odds
    scale, as of ``auc_interval(…, scale="odds")``, from which the standard error comes, and
    ``degrees`` its degrees of freedom, as of :func:`auc_degrees`; NaN where not known. An AUC of
    1 has no such error. Without refits, its interval starts at q = (α/2)^(1/n), for n disjoint
    pairs of challenges that are all in order, which has a probability of at most limit^n; where
    refits made it longer, the tail of Student's distribution at its length counts if that is
    larger. 1 where nothing is known, and where the AUC is not above the limit. Raises InputError
    if the shapes differ, or ``limit`` or ``confidence`` is not strictly between 0 and 1.
    """
    areas, lower, upper = (np.asarray(values, dtype=np.float64) for values in (auc, low, high))
    if not areas.shape == lower.shape == upper.shape:
        raise InputError(f"auc {areas.shape}, low {lower.shape} and high {upper.shape} differ")
    if not 0 < limit < 1:
        raise InputError(f"limit must be strictly between 0 and 1, not {limit}")
    check_confidence(confidence)
    tail = (1.0 - confidence) / 2
    p_values = np.ones(areas.shape)
    freedom = np.broadcast_to(np.asarray(degrees, np.float64), areas.shape)
    known = np.isfinite(lower) & np.isfinite(upper) & (areas > limit) & ~np.isnan(freedom)
    perfect = known & (areas >= 1.0) & (lower > 0)
    between = known & (areas < 1.0) & (lower < upper) & (lower > 0) & (upper < 1)
    p_values[perfect] = limit ** (np.log(tail) / np.log(np.minimum(lower[perfect], 1 - 1e-16)))
    reach = -student_quantile(tail, freedom)  # of the interval, in standard errors
    longer = perfect & np.isfinite(freedom)
    away = (areas[longer] - limit) / (areas[longer] - lower[longer]) * reach[longer]
    p_values[longer] = np.maximum(p_values[longer], student_cdf(-away, freedom[longer]))
    odds = scipy.special.logit
    error = (odds(upper[between]) - odds(lower[between])) / (2 * reach[between])
    away = (odds(limit) - odds(areas[between])) / error
    p_values[between] = student_cdf(away, freedom[between])
    return p_values


def worst_interval(
    auc: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    degrees: ArrayLike = np.inf,
    *,
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return a confidence interval of the largest of several true AUCs; NaN if none is known.

    The parameters are those of :func:`auc_p_values`, of any shape. The high end is the largest high
    end: that of the largest true AUC, whichever it is, is below it with a probability of at most
    α/2, so that nothing is to be corrected for the selection. The low end is the largest after each
    interval is widened below for their number (Bonferroni). Raises InputError if ``confidence`` is
    not strictly between 0 and 1.
    """
    check_confidence(confidence)
    areas, lower, upper, freedom = np.broadcast_arrays(
        *(np.asarray(values, np.float64) for values in (auc, low, high, degrees))
    )
    known = np.isfinite(areas)
    if not known.any():
        return float("nan"), float("nan")
    tail = (1.0 - confidence) / 2
    quantiles = (student_quantile(one, freedom[known]) for one in (tail / known.sum(), tail))
    least = areas[known] - next(quantiles) / next(quantiles) * (areas - lower)[known]
    upper = np.where(np.isnan(upper), 1.0, upper)  # where nothing is known of the error
    return max(0.0, float(np.nanmax(least, initial=0.0))), float(upper[known].max())


def reject_holm(p_values: ArrayLike, *, risk: float = 0.05) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected, at a family-wise error rate of ``risk``; bool.

    Holm's step-down procedure (Scandinavian Journal of Statistics 6, 1979), under any
    dependence of all ``p_values`` that were tested, any shape. Raises InputError if a p-value
    is not between 0 and 1, or ``risk`` is not strictly so.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError("p-values must be between 0 and 1")
    if not 0 < risk < 1:
        raise InputError(f"risk must be strictly between 0 and 1, not {risk}")
    order = np.argsort(values, axis=None, kind="stable")
    passed = values.ravel()[order] <= risk / np.arange(values.size, 0, -1)
    n_rejected = values.size if passed.all() else int(np.argmin(passed))
    rejected = np.zeros(values.size, dtype=bool)
    rejected[order[:n_rejected]] = True
    return rejected.reshape(values.shape)


@dataclass(frozen=True, slots=True)
class Drift:
    """Change of privacy loss, after minus before. Unknown values are NaN.

    Attributes
    ----------
    n_common
        Number of users observed on both sides.
    change, low, high
        Mean of their differences, and its confidence interval.
    p_value
        Two-sided, for no change.
    n_newly_exposed, n_no_longer_exposed
        How many of them crossed the limit.
    """

    n_common: int
    change: float
    low: float
    high: float
    p_value: float
    n_newly_exposed: int
    n_no_longer_exposed: int


class UserLosses(NamedTuple):
    """Privacy losses of the users of a release.

    Attributes
    ----------
    users
        int, shape (user,), rows of the cube, each at most once and in any order.
    loss
        float, shape (user,), between 0 and 1; NaN = not observed.
    low, high
        Ends of the interval of each loss, such as those of :func:`auc_interval` converted to
        losses; NaN where not known, None if none is known.
    """

    users: ArrayLike
    loss: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None


def compare_exposure(
    before: UserLosses,
    after: UserLosses,
    *,
    limit: float,
    margin: float = 0.0,
    confidence: float = 0.95,
) -> Drift:
    """Compare the privacy losses of users in a release with those before it.

    Users observed on both sides are compared with themselves, by :func:`mean_interval`
    (Student's interval for fewer than 20 with different differences) and by Wilcoxon's
    signed-rank test with zero differences ranked (Wilcoxon 1945, Pratt 1959), exact for up to
    50 users. With fewer than 6 no paired test reaches 5 %, so all of one side are compared with
    all of the other (Mann and Whitney 1947). Users must not have been chosen by their losses:
    the most exposed of one release look less exposed in any other. :func:`pool_exposure`
    combines several earlier releases.

    A user is newly exposed if its loss was at most ``limit``, is now above it, rose by more
    than ``margin``, and its interval after is entirely above its interval before, where both
    are known; no longer exposed with before and after exchanged. Change and interval are NaN
    without a common user; the p-value if a side has no user. Raises InputError if users are not
    whole numbers or appear twice, lengths differ, or a number is out of range.
    """
    check_confidence(confidence)
    if not 0 <= limit <= 1:
        raise InputError(f"limit must be a privacy loss between 0 and 1, not {limit}")
    if not margin >= 0:
        raise InputError(f"margin must be at least 0, not {margin}")
    old, new = _read(before, "before"), _read(after, "after")
    _, i, j = np.intersect1d(old.users, new.users, assume_unique=True, return_indices=True)
    difference = np.round(new.loss[j] - old.loss[i], _DIGITS)
    low, high = _interval(difference, confidence)
    return Drift(
        n_common=difference.size,
        change=float(difference.mean()) if difference.size else float("nan"),
        low=low,
        high=high,
        p_value=_test(difference, old.loss, new.loss),
        n_newly_exposed=_count_crossed(old, i, new, j, limit, margin),
        n_no_longer_exposed=_count_crossed(new, j, old, i, limit, margin),
    )


def pool_exposure(releases: Sequence[UserLosses]) -> UserLosses:
    """Return the mean loss of each user over the releases in which it was observed.

    Users ascend, int64, with the means of their losses and of both ends, float64, shape
    (user,); an end that is not known in one release is NaN. The means of the low and high ends
    are a conservative interval of the mean loss, because errors of several releases partly
    cancel. The order of releases and users affects at most the last digit. Raises the errors of
    :func:`compare_exposure`, with the index of the release.
    """
    known = [_read(release, f"release {i}") for i, release in enumerate(releases)]
    if not known:
        return UserLosses(np.empty(0, np.int64), *(np.empty(0) for _ in range(3)))
    rows = np.concatenate([release.users for release in known])
    users, index = np.unique(rows, return_inverse=True)
    n_releases = np.bincount(index, minlength=users.size)
    sums = (
        np.bincount(index, np.concatenate(values), users.size)
        for values in zip(*(release[1:] for release in known), strict=True)
    )
    return UserLosses(users, *(total / n_releases for total in sums))


class _KnownLosses(NamedTuple):
    users: Users
    loss: Floats
    low: Floats
    high: Floats


def _read(losses: UserLosses, where: str) -> _KnownLosses:
    """Return the users with a loss."""
    given = UserLosses(*losses)
    rows, loss = np.asarray(given.users), _losses(given.loss, where)
    if rows.size and rows.dtype.kind not in "iu":
        raise InputError(f"{where}: users are row indices, whole numbers, not {rows.dtype}")
    low, high = (
        loss + np.nan if end is None else _losses(end, f"bounds {where}")
        for end in (given.low, given.high)
    )
    shapes = {rows.shape, loss.shape, low.shape, high.shape}
    if len(shapes) > 1 or rows.ndim != 1:
        raise InputError(f"{where}: users and losses must have one length, not {sorted(shapes)}")
    if np.unique(rows).size < rows.size:
        raise InputError(f"{where}: {rows.size - np.unique(rows).size} users appear twice")
    known = np.isfinite(loss)
    return _KnownLosses(rows[known].astype(np.int64), loss[known], low[known], high[known])


def _count_crossed(
    old: _KnownLosses, i: Users, new: _KnownLosses, j: Users, limit: float, margin: float
) -> int:
    """Return how many users rose above ``limit`` from rows ``i`` of ``old`` to ``j`` of ``new``."""
    was, now = old.loss[i], new.loss[j]
    crossed = (was <= limit) & (now > limit) & (np.round(now - was, _DIGITS) > margin)
    # comparisons with NaN are false, so the negation ignores unknown ends
    return int((crossed & ~(new.low[j] <= old.high[i])).sum())


def _losses(values: ArrayLike, where: str) -> Floats:
    losses = np.asarray(values, dtype=np.float64)
    outside = (losses < 0) | (losses > 1)
    if outside.any():
        raise InputError(
            f"{where}: a privacy loss must be between 0 and 1, not {losses[outside][0]}"
        )
    return losses


def _interval(difference: Floats, confidence: float) -> tuple[float, float]:
    n = difference.size
    # 20: differences from which mean_interval replaces Student's interval
    if n < 2 or n >= 20 or np.ptp(difference) == 0:
        return mean_interval(difference, confidence=confidence, bounds=(-1.0, 1.0))
    # for few values the distribution-free interval is too wide to show a change
    reach = float(scipy.stats.t.isf((1 - confidence) / 2, n - 1) * difference.std(ddof=1) / n**0.5)
    mean = float(difference.mean())
    return max(-1.0, mean - reach), min(1.0, mean + reach)


def _test(difference: Floats, before: Floats, after: Floats) -> float:
    """Return the two-sided p-value of no change; NaN if a side is empty."""
    if not (before.size and after.size):
        return float("nan")
    if difference.size < 6:  # common users from which a paired test can reject: 2/2⁵ is above .05
        return float(scipy.stats.mannwhitneyu(before, after).pvalue)
    if not difference.any():
        return 1.0
    if difference.size <= 50:  # common users up to which the test is exact, with or without ties
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
