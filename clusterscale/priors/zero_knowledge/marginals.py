"""Estimate population marginals from a release (POPETS24 §4.3, algorithms 2 to 4).

Moments are matched for any mechanism: if the counts of a cell are Poisson with mean λ and ``f(c)``
is the mean published value of a count c, the mean published value of the cell is
g(λ) = Σ f(c) Poisson(c; λ). With λ(s, t) = N p(s) q(t) the sums of rows and columns determine N, p
and q. This corrects clipping, rounding, noise and suppression in one way, without distinguishing
cases.

A fully suppressed row may still have visits, and a row increased by noise need not be popular. The
other rows provide a prior: the number of visits per row is lognormal, with a share of empty rows,
and its parameters maximise the likelihood of all sums (empirical Bayes, Robbins 1956).
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import scipy

from clusterscale.contracts import NO_NOISE, Counts, Floats, Mechanism, Values
from clusterscale.errors import InputError
from clusterscale.mechanisms import respond
from clusterscale.priors.zero_knowledge import synthesis

_EACH = 64  # counts up to here one by one, larger ones in steps of 10 %
_POINTS = 400
_ROUNDS, _STEPS, _SETTLED, _HALVINGS = 4, 60, 1e-3, 30


@dataclass(frozen=True, slots=True, eq=False)
class ResponseCurve:
    """Mean and variance of the published value of a Poisson count.

    Attributes
    ----------
    means
        Float64, shape (point,): means of the count, increasing from 0.
    published
        Float64, shape (point,): mean published value, not decreasing.
    variance
        Float64, shape (point,): variance of the published value, over counts and noise.
    """

    means: Floats
    published: Floats
    variance: Floats

    @property
    def noise(self) -> float:
        """Variance of the published value of a count of 0."""
        return float(self.variance[0])

    def at(self, means: Floats) -> Floats:
        """Return the mean published value of counts with those means."""
        published: Floats = np.interp(means, self.means, self.published)
        return published

    def row(self, weights: Floats) -> "MarginalRow":
        """Return the response of the sum of a row of cells.

        ``weights``, shape (cell,), are the shares of the cells in the row's total; they sum to 1.
        """
        most = max(self.means[-1] / max(weights.max(), 1e-12), 1.0)
        totals = np.concatenate([[0.0], np.geomspace(1e-3, most, _POINTS)])
        cells = totals[:, None] * weights
        published = np.maximum.accumulate(self.at(cells).sum(axis=1))
        variance = np.interp(cells, self.means, self.variance).sum(axis=1)
        return MarginalRow(totals, published, variance)

    def invert(self, sums: Floats, weights: Floats) -> Floats:
        """Return :meth:`MarginalRow.invert` of a row with these ``weights``."""
        return self.row(weights).invert(sums)


@dataclass(frozen=True, slots=True, eq=False)
class MarginalRow:
    """Mean and variance of the sum of the published values of some Poisson counts.

    Attributes
    ----------
    totals
        Float64, shape (point,): mean of the sum of the counts, increasing from 0.
    given
        Float64, shape (point,): mean published sum, not decreasing.
    variance
        Float64, shape (point,): variance of the published sum.
    """

    totals: Floats
    given: Floats
    variance: Floats

    def invert(self, sums: Floats) -> Floats:
        """Return the mean total of a row for each of the published ``sums``.

        Sums below the published sum of empty rows give 0.
        """
        keep = np.concatenate([[True], np.diff(self.given) > 0])
        totals: Floats = np.interp(sums, self.given[keep], self.totals[keep])
        return totals


class ActivityPrior(NamedTuple):
    """Distribution of visits per row: exp of a normal, and a share ``empty`` of empty rows."""

    middle: float
    spread: float
    empty: float


def compute_curve(
    mechanism: Mechanism, m: int, most: float, *, rng: np.random.Generator
) -> ResponseCurve:
    """Return the response of ``mechanism`` to Poisson counts, up to ``most``, in groups of m."""
    top = int(min(m, max(_EACH, 2 * most)))
    counts = np.arange(min(_EACH, top) + 1)
    while counts[-1] < top:
        counts = np.append(counts, min(top, int(counts[-1] * 1.1)))
    response = respond(mechanism, counts, group_size=m, rng=rng)
    means = np.concatenate([[0.0], np.geomspace(1e-4, max(top, 1), _POINTS)])
    small = np.arange(min(int(top), 4 * _EACH) + 1)
    log_law = small * np.log(np.maximum(means, 1e-300))[:, None] - means[:, None]
    law = np.exp(log_law - scipy.special.gammaln(small + 1))
    # Counts beyond the table are replaced by their mean, λ P(c ≥ last) / P(c > last).
    left = np.maximum(1 - law.sum(axis=1), 0.0)
    beyond = means * (left + law[:, -1]) / np.maximum(left, 1e-300)

    def average(by_count: Floats, tail: Floats) -> Floats:
        return np.asarray(law @ np.interp(small, counts, by_count) + left * tail)

    far = np.interp(beyond, counts, response.mean)
    published = average(response.mean, far)
    squares = average(
        response.variance + response.mean**2,
        np.interp(beyond, counts, response.variance) + far**2 + beyond,
    )
    variance = np.maximum(squares - published**2, 0.0)
    return ResponseCurve(means, np.maximum.accumulate(published), variance)


def response_curve(
    release: Values, m: int, mechanism: Mechanism, *, rng: np.random.Generator
) -> ResponseCurve:
    """Return the response of ``mechanism``, bound, to Poisson counts in the range of this release.

    A mechanism with reach ``release`` is assumed to be unbiased, without variance.
    """
    if mechanism.noise_scope == "release":
        straight = np.array([0.0, max(float(np.abs(release).sum()), 1.0)])
        return ResponseCurve(straight, straight, np.zeros(2))
    return compute_curve(mechanism, m, float(release.max()), rng=rng)


def match_moments(
    release: Values, m: int, mechanism: Mechanism, *, rng: np.random.Generator
) -> tuple[Floats, Floats, float]:
    """Return the marginals and the mean visits per user that match the sums of a release.

    ``release``, shape (roi, epoch), is of one group of ``m`` by the bound mechanism. Space,
    shape (roi,), and time, shape (epoch,), sum to 1; the mean is that of the distinct cells
    that a user visits.
    """
    n_rois, n_epochs = release.shape
    curve = response_curve(release, m, mechanism, rng=rng)
    rows, columns = release.sum(axis=1), release.sum(axis=0)
    space, time = np.full(n_rois, 1 / n_rois), np.full(n_epochs, 1 / n_epochs)
    of_rois = of_epochs = None
    total = 0.0
    for _ in range(_ROUNDS):
        by_roi, of_rois = posterior_totals(rows, time, curve, of_rois)
        space = normalise(by_roi)
        by_epoch, of_epochs = posterior_totals(columns, space, curve, of_epochs)
        time = normalise(by_epoch)
        total = float(by_epoch.sum())
    if curve.noise > 0:  # the sum of all cells is the least noisy
        total = _find_total(float(release.sum()), np.outer(space, time), curve)
    return space, time, total / m


def _find_total(wanted: float, shares: Floats, curve: ResponseCurve) -> float:
    """Return the mean total of all cells for a published sum of ``wanted``, by bisection."""
    low, high = 0.0, float(curve.means[-1] / max(shares.max(), 1e-12))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = curve.at(middle * shares).sum() >= wanted
        low, high = (low, middle) if above else (middle, high)
    return low


def posterior_totals(
    sums: Floats, weights: Floats, curve: ResponseCurve, prior: ActivityPrior | None = None
) -> tuple[Floats, ActivityPrior | None]:
    """Return the posterior mean of each row's total, float64, (row,), and the prior fitted to all.

    ``sums``, shape (row,), are published; ``weights``, shape (cell,), are the share of each
    cell in a row's total and sum to 1; ``prior`` is the initial one, None for a default. The
    fitted prior is None if no sum exceeds that of an empty row, or if the sums vary no more
    than noise does (within two of its standard errors): then all totals are equal.
    """
    row = curve.row(weights)
    if sums.max() <= row.given[0]:
        return np.zeros(len(sums)), None
    middle = float(row.invert(sums.mean(keepdims=True))[0])
    chance = np.interp(middle, row.totals, row.variance) * (
        1 + 2 * np.sqrt(2 / max(len(sums) - 1, 1))
    )
    if curve.noise > 0 and sums.var() <= chance:
        return np.full(len(sums), middle), None
    likely = _log_likelihood(sums, row, noisy=curve.noise > 0)
    logs = np.log(row.totals[1:])
    prior = prior or ActivityPrior(float(np.log(max(middle, 1e-3))), 1.0, 0.1)
    for _ in range(_STEPS):
        before = prior
        log_prior = -(((logs - prior.middle) / prior.spread) ** 2) / 2 - np.log(prior.spread)
        log_prior += np.log((logs[1] - logs[0]) / np.sqrt(2 * np.pi)) + np.log1p(-prior.empty)
        posterior = likely + np.concatenate([[np.log(prior.empty)], log_prior])
        posterior = np.exp(posterior - posterior.max(axis=1, keepdims=True))
        posterior /= posterior.sum(axis=1, keepdims=True)
        nonempty = posterior[:, 1:].sum(axis=0)
        middle = float(nonempty @ logs / nonempty.sum())
        spread = float(np.sqrt(nonempty @ (logs - middle) ** 2 / nonempty.sum()))
        empty = float(np.clip(posterior[:, 0].mean(), 1e-6, 1 - 1e-6))
        prior = ActivityPrior(middle, max(spread, 0.01), empty)
        if np.abs(np.subtract(prior, before)).max() < _SETTLED:
            break
    totals, squares = posterior @ row.totals, posterior @ row.totals**2
    step = np.exp(logs[1] - logs[0]) - 1
    precise = squares - totals**2 < (step * totals) ** 2  # the grid is coarser than the sums
    return np.where(precise, row.invert(sums), totals), prior


def _log_likelihood(sums: Floats, row: MarginalRow, *, noisy: bool) -> Floats:
    """Return the log-likelihood of each total given the sums, shape (row, total).

    With noise, sums are normal. Otherwise they have a quasi-Poisson likelihood with the ratio of
    variance to mean as dispersion (Wedderburn 1974).
    """
    if noisy:
        spread = np.maximum(row.variance, 1e-300)
        return np.asarray(-((sums[:, None] - row.given) ** 2) / (2 * spread) - np.log(spread) / 2)
    mean = np.maximum(row.given, 1e-300)
    dispersion = np.interp(sums, row.given[1:], np.maximum(row.variance / mean, 1e-3)[1:])
    log_likelihood = (sums[:, None] * np.log(mean) - mean) / dispersion[:, None]
    log_likelihood[:, 0] = np.where(sums > row.given[0], -np.inf, 0.0)
    return np.asarray(log_likelihood)


def normalise(sums: Floats) -> Floats:
    """Return sums as shares; negative sums count as 0, and all-zero sums give equal shares."""
    sums = np.maximum(sums, 0.0)
    total = sums.sum()
    return sums / total if total > 0 else np.full(len(sums), 1 / len(sums))


Correction = Literal["paper", "matched", "none"]
"""How the effect of the mechanism on the sums of rows and columns is corrected:

- ``paper`` (algorithm 2): shares of the sums; flattened by :func:`compress` if small counts are
  suppressed, sharpened by :func:`raise_power` if noise was added; and the mean number of visits for
  which synthetic users, published likewise, give the published total.
- ``matched``: the marginals and the mean for which Poisson counts are published with these sums on
  average (:func:`~clusterscale.priors.zero_knowledge.marginals.match_moments`).
- ``none``: shares of the sums, and the published total over the group size.
"""

_STEP, _MOST_POWER = 0.01, 100.0


def estimate_marginals(
    release: Values | Counts,
    m: int,
    mechanism: Mechanism,
    *,
    graph: synthesis.Graph | None = None,
    law: synthesis.ActivityLaw | None = None,
    correction: Correction = "paper",
    rng: np.random.Generator | None = None,
) -> synthesis.SyntheticPopulation:
    """Estimate the marginals in space, time and activity from one release of a group of ``m``.

    ``release`` has shape (roi, epoch), without a null ROI; of the bound mechanism, only its
    public description is used. ``graph`` has the neighbours of the ROIs, for the synthetic
    users of the mean (algorithm 3); ``law`` is the distribution of the number of visits,
    exponential if None. Without ``rng``, a generator has a fixed seed. Raises InputError if the
    release is not a matrix of finite numbers, or m is below 1.
    """
    values = _check(release, m)
    law, rng = law or synthesis.Exponential(), rng or np.random.default_rng(0)
    if correction == "matched":
        space, time, mean = match_moments(values, m, mechanism, rng=rng)
        return synthesis.SyntheticPopulation(space, time, synthesis.VisitCounts(mean, law))
    space, time = (normalise(values.sum(axis=axis)) for axis in (1, 0))
    mean = max(float(values.sum()) / m, 0.0)
    population = synthesis.SyntheticPopulation(space, time, synthesis.VisitCounts(mean, law))
    if correction == "none":
        return population
    kind = treatment(mechanism, values.shape, m, rng=deepcopy(rng))
    if kind == "raw":
        return population
    transform = {"hidden": compress, "noisy": raise_power}.get(kind)
    if transform is not None:
        population = population._replace(space=transform(space), time=transform(time))
    total = partial(_publish_total, population, graph, m, mechanism, rng)
    most = float(min(len(space), synthesis.NEIGHBOURHOOD) * len(time))
    return population.with_mean(_solve_mean(total, float(values.sum()), mean, most))


def treatment(
    mechanism: Mechanism, shape: tuple[int, ...], m: int, *, rng: np.random.Generator
) -> Literal["raw", "hidden", "noisy", "other"]:
    """Classify the effect of a mechanism on marginals, from its description only.

    ``raw``: none; ``noisy``: it publishes nonzero values for counts of 0, as noise clipped at 0
    does, or guarantees a finite ε; ``hidden``: counts of 1 are mostly suppressed; ``other``: none
    of these.
    """
    if mechanism.noise == NO_NOISE:
        return "raw"
    zero, one = (
        mechanism.release(np.full((1, *shape), n, np.int32), group_size=m, rng=rng) for n in (0, 1)
    )
    if np.isfinite(mechanism.guarantee.epsilon) or zero.any():
        return "noisy"
    return "hidden" if np.median(one) == 0 else "other"


def compress(shares: Floats) -> Floats:
    """Flatten shares sharpened by suppression: log(1 + p / p_min), normalised (eqs 7 and 8).

    ``p_min`` is the smallest positive share; zeros stay 0.
    """
    positive = shares[shares > 0]
    return normalise(np.log1p(shares / positive.min())) if len(positive) else shares


def raise_power(shares: Floats) -> Floats:
    """Sharpen shares flattened by noise: p^γ, normalised (eq. 9, algorithm 4).

    γ is the smallest of 1, 1.01, 1.02, … for which the variance reaches that of n normalised
    uniform draws: 1 / 3n² to leading order. Equal shares are unchanged.
    """
    n = len(shares)
    wanted = 1 / (3 * n**2)
    logs = np.log(shares, out=np.full(n, -np.inf), where=shares > 0)
    logs -= logs.max()

    def powered(step: int) -> Floats:
        return normalise(np.exp((1 + _STEP * step) * logs))

    low, high = -1, round((_MOST_POWER - 1) / _STEP)  # the variance grows with the power
    if powered(high).var() < wanted:
        return shares
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if powered(middle).var() >= wanted else (middle, high)
    return powered(high)


def _check(release: Values | Counts, m: int) -> Values:
    values = np.asarray(release, np.float64)
    if values.ndim != 2 or not values.size:
        raise InputError(f"a release has shape (roi, epoch), this one {values.shape}")
    if not np.isfinite(values).all():
        n_bad = int((~np.isfinite(values)).sum())
        raise InputError(f"{n_bad} published values are not finite")
    if m < 1:
        raise InputError(f"the group size is {m}: it must be at least 1")
    return values


def _publish_total(
    population: synthesis.SyntheticPopulation,
    graph: synthesis.Graph | None,
    m: int,
    mechanism: Mechanism,
    rng: np.random.Generator,
    mean: float,
) -> float:
    """Return the published total of m synthetic users, with the same noise for every mean."""
    users_rng = deepcopy(rng)
    # A separate generator, because the number of draws for users depends on the mean.
    noise_rng = np.random.default_rng(users_rng.integers(1 << 62))
    traces = synthesis.synthetic_traces(m, population.with_mean(mean), graph, rng=users_rng)
    counts = np.bincount(traces.cells, minlength=traces.n_cells).astype(np.int32)
    shaped = counts.reshape(1, traces.n_rois, traces.n_epochs)
    return float(mechanism.release(shaped, group_size=m, rng=noise_rng).sum())


def _solve_mean(total: Callable[[float], float], wanted: float, start: float, most: float) -> float:
    """Return the mean for which the published total is ``wanted``: algorithm 3's fixed point.

    The paper repeatedly adds the missing visits per member, which takes hundreds of rounds if most
    counts are suppressed. The total grows with the mean, so the mean is bracketed and bisected
    instead. If the total exceeds ``wanted`` for every mean, e.g. for negative noise in the release,
    0 is returned; if it is always below, about ``most``, the number of cells that a user can visit.
    """
    low, high = 0.0, min(max(start, 1.0), most)
    if total(low) >= wanted:
        return low
    while high < most and total(high) < wanted:
        low, high = high, min(2 * high, most)
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if total(middle) >= wanted else (middle, high)
    return (low + high) / 2
