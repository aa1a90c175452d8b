"""Estimate marginals by matching the sums of a release, for any mechanism.

If the counts of a cell are Poisson with mean λ and ``f(c)`` is the mean published value of a count
c, the mean published value of the cell is g(λ) = Σ f(c) Poisson(c; λ). With λ(s, t) = N p(s) q(t)
the sums of rows and columns determine N, p and q. This corrects clipping, rounding, noise and
suppression in one way, without distinguishing cases.

A fully suppressed row may still have visits, and a row increased by noise need not be popular. The
other rows provide a prior: the number of visits per row is lognormal, with a share of empty rows,
and its parameters maximise the likelihood of all sums (empirical Bayes, Robbins 1956).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import Mechanism, Values
from clusterscale.mechanisms import respond

Floats = NDArray[np.float64]

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
