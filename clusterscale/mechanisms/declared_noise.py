"""Whether a mechanism draws the noise that it declares, and as far apart as it declares."""

from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import Mechanism, Noise, Values
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.seeds import stream

_CALLS, _ROIS, _EPOCHS = 1000, 5, 12
_CHANGED = 2, 3  # the cell that one of the two releases of a call counts differently
_DEVIATIONS = 6.5  # of about 20,000 statistics, all are within these, but for one in 500,000
_Columns = NDArray[np.float64]


@lru_cache(maxsize=256)
def noise_fault(mechanism: Mechanism) -> str:
    """Return what a bound mechanism declares falsely of its noise; empty if nothing is found.

    Two releases are published in each of many calls, each call with an ``rng`` of its own; they
    differ in one count. Compared are the values of the smallest, a middle and the largest count
    with ``noise`` and ``law``, values outside of the ``noise_scope`` of the changed count, and
    values whose noise must be independent. Values may be clipped and rounded. A mechanism that
    does what it declares is found false with a probability of less than 1e-5.
    """
    noise, scope = mechanism.noise, mechanism.noise_scope
    if isinstance(law := mechanism.law(1), OutputDistribution) and not law.revised:
        noise = law.noise
    known = noise is not None and np.isfinite(noise.scale) and noise.scale > 0
    if mechanism.uses_weights or mechanism.n_tables > 1 or not (known or scope != "release"):
        return ""
    size = min(20 + 80 * int(np.ceil(noise.scale)), 1 << 30) if noise and known else 20
    one = np.resize(np.array([0, size // 2, size], np.int32), (_ROIS, _EPOCHS))
    counts = np.stack([one, one])
    counts[1][_CHANGED] = size // 2 + 5
    values = np.stack(
        [
            mechanism.release(counts, group_size=size, rng=stream(1, "declared noise", i))
            for i in range(_CALLS)
        ]
    )
    for count in (0, size // 2, size):
        drawn = np.sort(values[:, counts == count].ravel() - count)
        if noise is not None and known and (wrong := _unlike(drawn, noise, values, count)):
            return f"noise is {wrong}: declare the noise that release adds, or none"
    ranks = scipy.stats.rankdata(values, axis=0)
    return _out_of_scope(values, "cell" if known else scope) or _dependent(
        ranks.reshape(_CALLS, -1), "cell" if known else scope
    )


def _unlike(drawn: Values, noise: Noise, values: Values, count: int) -> str:
    """Return how noise that was drawn, shape (value,), sorted, differs from the declared one."""
    low, high = values.min() - count, values.max() - count  # beyond are values that were clipped
    name = f"{type(noise).__name__} of scale {noise.scale:g}"
    at = np.unique(drawn)
    at = at[(low <= at) & (at < high)]
    share = np.searchsorted(drawn, at, side="right") / len(drawn)
    is_whole = bool((values == np.rint(values)).all())
    # 8: Dvoretzky, Kiefer and Wolfowitz (1956): 3 counts exceed this with 2·3·exp(−16)
    chance = np.sqrt(8 / len(drawn))
    least = noise.cdf(np.floor(at) if noise.whole else at)
    most = noise.cdf(at + 1) if is_whole and not noise.whole else least  # rounded afterwards
    away = np.maximum(least - share, share - most)
    if len(at) and away.max() > chance:
        worst = int(away.argmax())
        return (
            f"{name}, by which {least[worst]:.3f} of all noise is at most {at[worst]:.3g}, but "
            f"{share[worst]:.3f} is at counts of {count}"
        )
    inner = drawn[(low < drawn) & (drawn < high)]
    if not is_whole and not noise.whole and len(inner) - len(np.unique(inner)) > 3:
        return f"{name}, which is never the same twice, but some is, at counts of {count}"
    if not noise.whole or drawn[0] <= -count or drawn[-1] >= high:
        return ""
    far = np.arange(np.floor(drawn[0]), drawn[-1] + 1)
    chances = noise.density(far)
    for what, which in (("0", far == 0), ("even", far % 2 == 0)):
        found, stated = np.isin(drawn, far[which]).mean(), float(chances[which].sum())
        if abs(found - stated) > _DEVIATIONS * np.sqrt(stated / len(drawn)) + 1e-3:
            return f"{name}, of which {stated:.3f} is {what}, but {found:.3f} of what is drawn"
    return ""


def _out_of_scope(values: Values, scope: str) -> str:
    """Return which value changes with the count of another one, farther than the scope."""
    pooled = values.swapaxes(0, 1).reshape(2 * _CALLS, _ROIS, _EPOCHS)
    for sizes in (pooled, np.abs(pooled - np.median(pooled, axis=0))):
        sums = scipy.stats.rankdata(sizes, axis=0)[:_CALLS].sum(axis=0)
        mean, spread = _CALLS * (2 * _CALLS + 1) / 2, _CALLS * np.sqrt((2 * _CALLS + 1) / 12)
        away = np.abs(sums - mean) / spread
        away[_CHANGED if scope == "cell" else _CHANGED[0] if scope == "series" else ...] = 0
        if away.max() > _DEVIATIONS:
            cell = tuple(map(int, np.unravel_index(away.argmax(), away.shape)))
            return (
                f"noise_scope is {scope}, but the value of ROI and epoch {cell} changes with the "
                f"count of {_CHANGED}: declare a scope that has both"
            )
    return ""


def _dependent(ranks: _Columns, scope: str) -> str:
    """Return which two values of a call depend on each other; ``ranks`` have shape (call, cell)."""
    ranks = ranks - ranks.mean(axis=0)
    spread = ranks.std(axis=0)
    ranks = ranks / np.where(spread > 0, spread, 1.0)
    release, roi, epoch = np.unravel_index(np.arange(ranks.shape[1]), (2, _ROIS, _EPOCHS))
    apart = release[:, None] != release
    if scope != "release":
        apart = apart | (roi[:, None] != roi)
    if scope == "cell":
        apart = apart | (epoch[:, None] != epoch)
    related = np.abs(ranks.T @ ranks / _CALLS) * apart
    if related.max() * np.sqrt(_CALLS) > _DEVIATIONS:
        first, second = (
            (int(release[i]), int(roi[i]), int(epoch[i]))
            for i in np.unravel_index(related.argmax(), related.shape)
        )
        return (
            f"noise_scope is {scope}, but the noise of release, ROI and epoch {first} and {second} "
            f"is correlated ({related.max():.2f}): draw it for each, or declare a wider scope"
        )
    own = ranks[:, : ranks.shape[1] // 2]
    free = int((spread[: own.shape[1]] > 0).sum())
    ratio = float(own.sum(axis=1).var()) / max(free, 1)
    if scope == "cell" and free > 1 and abs(ratio - 1) > _DEVIATIONS * np.sqrt(2 / _CALLS):
        return (
            f"noise_scope is {scope}, but the sum of all noise varies {ratio:.2f} times as much as "
            "independent noise does: draw it for each value, or declare a wider scope"
        )
    return ""
