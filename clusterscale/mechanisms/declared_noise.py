"""Whether a mechanism draws the noise that it declares, and as far apart as it declares."""

from functools import lru_cache

import numpy as np
import scipy

from clusterscale.contracts import Mechanism, Noise, NoiseScope, Values
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.seeds import stream

_SEED = 1
_CALLS, _ROIS, _EPOCHS = 400, 5, 12
_CHANGED = 0, 2, 3  # release, ROI and epoch of the count that is larger in every other call
_DEVIATIONS = 6.5  # of about 20,000 statistics, all are within these, but for one in 500,000


def noise_fault(mechanism: Mechanism) -> str:
    """Return what a bound mechanism declares falsely of its noise; empty if nothing is found.

    Two releases are published in each of many calls, each call with an ``rng`` of its own; a count
    of the first release is larger in every other call. Compared are values with ``noise`` and
    ``law``, for the smallest, a middle and the largest count; values outside of the ``noise_scope``
    of the changed count, also in the second release; and values whose noise must be independent.
    Values may be clipped and rounded. A mechanism that does what it declares is found false with a
    probability of less than 1e-5.
    """
    try:
        return _fault(mechanism)
    except Exception as error:  # whatever code of others raises, and of another kind next time
        text = f"{type(error).__name__}: {error}"
        return f"it cannot be compared with releases of {_ROIS} ROIs and {_EPOCHS} epochs: {text}"


@lru_cache(maxsize=256)
def _fault(mechanism: Mechanism) -> str:
    """Return what is declared falsely; raises what the mechanism raises."""
    noise, scope, law = mechanism.noise, mechanism.noise_scope, mechanism.law(1)
    if mechanism.uses_weights or mechanism.n_tables > 1:
        return ""
    if isinstance(law, OutputDistribution) and not law.revised:
        noise = law.noise
    known = noise if noise is not None and np.isfinite(noise.scale) and noise.scale > 0 else None
    size = min(20 + 80 * int(np.ceil(known.scale)), 1 << 30) if known else 20
    same = np.resize(np.array([0, size // 2, size], np.int32), (2, _ROIS, _EPOCHS))
    other = same.copy()
    other[_CHANGED] += size // 2
    calls = [(counts, stream(_SEED, "noise", i)) for i, counts in enumerate([same, other] * _CALLS)]
    values = np.stack([mechanism.release(n, group_size=size, rng=rng) for n, rng in calls])
    for count in (0, size // 2, size) if known else ():
        drawn = np.sort(values[:, (same == count) & (other == count)].ravel() - count)
        if known and (wrong := _unlike(drawn, known, values, count)):
            return f"noise is {wrong}: declare the noise that release adds, or none"
    bare = (values[:, 1] == same[1]).reshape(len(values), -1)
    if known and bare.all(axis=1).sum() > 5 + 10 * len(values) * bare.mean(axis=0).prod():
        return "noise is declared, but some releases have none: declare no noise"
    scope = "cell" if known else scope
    return _out_of_scope(values, scope) or _dependent(values, scope)


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
    if not noise.whole or drawn[0] <= -count or drawn[-1] >= high:
        return ""
    far = np.arange(np.floor(drawn[0]), drawn[-1] + 1)
    chances = noise.density(far)
    for what, which in (("0", far == 0), ("even", far % 2 == 0)):
        found, stated = np.isin(drawn, far[which]).mean(), float(chances[which].sum())
        if abs(found - stated) > _DEVIATIONS * np.sqrt(stated / len(drawn)) + 1e-3:
            return f"{name}, of which {stated:.3f} is {what}, but {found:.3f} of what is drawn"
    return ""


def _out_of_scope(values: Values, scope: NoiseScope) -> str:
    """Return which value changes with a count that is farther away than the scope."""
    reached = {"cell": _CHANGED, "series": _CHANGED[:2], "release": _CHANGED[:1]}[scope]
    spread = _CALLS * np.sqrt((2 * _CALLS + 1) / 12)  # of the sum of half of all ranks
    for sizes in (values, np.abs(values - np.median(values, axis=0))):
        sums = scipy.stats.rankdata(sizes, axis=0)[::2].sum(axis=0)
        away = np.abs(sums - _CALLS * (2 * _CALLS + 1) / 2) / spread
        away[reached] = 0
        if away.max() > _DEVIATIONS:
            return (
                f"noise_scope is {scope}, but the value of {_name(int(away.argmax()))} changes "
                "with the count of another one: declare a scope that has both"
            )
    return ""


def _name(cell: int) -> str:
    release, roi, epoch = np.unravel_index(cell, (2, _ROIS, _EPOCHS))
    return f"ROI {roi}, epoch {epoch} in {('one', 'another')[release]} release of a call"


def _dependent(values: Values, scope: NoiseScope) -> str:
    """Return which two values of a call depend on each other, or that all of them do."""
    halves = [half.reshape(_CALLS, -1) for half in (values[::2], values[1::2])]
    noise = np.concatenate([half - half.mean(axis=0) for half in halves])
    ranks = np.concatenate([scipy.stats.rankdata(half, axis=0) for half in halves])
    ranks -= ranks.mean(axis=0)
    ranks /= np.maximum(ranks.std(axis=0), 1e-9)
    release, roi, epoch = np.unravel_index(np.arange(len(ranks.T)), (2, _ROIS, _EPOCHS))
    apart = release[:, None] != release
    if scope != "release":
        apart = apart | (roi[:, None] != roi)
    if scope == "cell":
        apart = apart | (epoch[:, None] != epoch)
    related = np.abs(ranks.T @ ranks / len(ranks)) * apart
    remedy = "draw it for each value, or declare a wider scope"
    if related.max() * np.sqrt(len(ranks)) > _DEVIATIONS:
        first, second = divmod(int(related.argmax()), len(related))
        return (
            f"noise_scope is {scope}, but the noise of {_name(first)} and of {_name(second)} is "
            f"correlated: {remedy}"
        )
    own = noise[:, : _ROIS * _EPOCHS]
    ratio = float(own.sum(axis=1).var() / (own.var(axis=0).sum() or 1.0)) if own.any() else 1.0
    if scope == "cell" and abs(ratio - 1) > _DEVIATIONS * np.sqrt(2 / len(own)):
        return (
            f"noise_scope is {scope}, but the sum of all noise varies {ratio:.2f} times as much as "
            f"that of independent noise: {remedy}"
        )
    return ""
