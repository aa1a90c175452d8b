"""Marginals that explain what was published, whatever the mechanism does to counts.

The sum of a row of a release is what the mechanism makes, on average, of the counts of that row.
If the counts of a cell are Poisson with mean λ and ``f(c)`` is what is published of a count c on
average, then g(λ) = Σ f(c) Poisson(c; λ) is published of such a cell. With λ(s, t) = N p(s) q(t)
the sums of rows and columns give N, p and q: clipping, rounding, noise and suppression are undone
by one law, without a table of cases.

A row that is all hidden is not one where nobody was, and a row that noise lifted is not a popular
one. What other rows are like tells which: how many visits rows have is taken to be lognormal, some
having none, with the parameters that make all sums most likely (empirical Bayes, Robbins 1956).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import Mechanism, Values
from clusterscale.mechanisms import respond

__all__ = [
    "ActivityPrior",
    "MarginalRow",
    "ResponseCurve",
    "explain",
    "learn_curve",
    "match",
    "normalise",
    "weigh_up",
]

Floats = NDArray[np.float64]

_EACH = 64  # counts up to here one by one, further ones in steps of a tenth
_POINTS = 400
_ROUNDS, _STEPS, _SETTLED, _HALVINGS = 4, 60, 1e-3, 30


@dataclass(frozen=True, slots=True, eq=False)
class ResponseCurve:
    """What is published of a Poisson count.

    Attributes
    ----------
    means
        Float64, shape (point,): increasing from 0.
    published
        Float64, shape (point,): what is published on average, not decreasing.
    variance
        Float64, shape (point,): of what is published, over counts and noise.
    """

    means: Floats
    published: Floats
    variance: Floats

    @property
    def noise(self) -> float:
        """Variance of what is published of a count of 0."""
        return float(self.variance[0])

    def at(self, means: Floats) -> Floats:
        """Return what is published on average of counts of those means."""
        found: Floats = np.interp(means, self.means, self.published)
        return found

    def row(self, weights: Floats) -> MarginalRow:
        """Return what is published of a row of cells.

        ``weights``, shape (cell,), are the shares of its total that the cells have; sums to 1.
        """
        most = max(self.means[-1] / max(weights.max(), 1e-12), 1.0)
        totals = np.concatenate([[0.0], np.geomspace(1e-3, most, _POINTS)])
        cells = totals[:, None] * weights
        given = np.maximum.accumulate(self.at(cells).sum(axis=1))
        return MarginalRow(totals, given, np.interp(cells, self.means, self.variance).sum(axis=1))

    def invert(self, sums: Floats, weights: Floats) -> Floats:
        """Return :meth:`MarginalRow.invert` of a row with these ``weights``."""
        return self.row(weights).invert(sums)


@dataclass(frozen=True, slots=True, eq=False)
class MarginalRow:
    """The sum of what is published of some Poisson counts.

    Attributes
    ----------
    totals
        Float64, shape (point,): means of all counts together, increasing from 0.
    given
        Float64, shape (point,): the sum on average, not decreasing.
    variance
        Float64, shape (point,): of the sum.
    """

    totals: Floats
    given: Floats
    variance: Floats

    def invert(self, sums: Floats) -> Floats:
        """Return the total mean of each row whose published sum is one of ``sums``.

        What is below what nobody gives is told as 0.
        """
        keep = np.concatenate([[True], np.diff(self.given) > 0])
        found: Floats = np.interp(sums, self.given[keep], self.totals[keep])
        return found


class ActivityPrior(NamedTuple):
    """How many visits rows have: exp of a normal law, and a share ``empty`` that has none."""

    middle: float
    spread: float
    empty: float


def learn_curve(
    mechanism: Mechanism, m: int, most: float, *, rng: np.random.Generator
) -> ResponseCurve:
    """Return what ``mechanism`` publishes of Poisson counts in groups of m, up to ``most``."""
    top = int(min(m, max(_EACH, 2 * most)))
    counts = np.arange(min(_EACH, top) + 1)
    while counts[-1] < top:
        counts = np.append(counts, min(top, int(counts[-1] * 1.1)))
    found = respond(mechanism, counts, group_size=m, rng=rng)
    means = np.concatenate([[0.0], np.geomspace(1e-4, max(top, 1), _POINTS)])
    whole = np.arange(min(int(top), 4 * _EACH) + 1)
    log_law = whole * np.log(np.maximum(means, 1e-300))[:, None] - means[:, None]
    law = np.exp(log_law - scipy.special.gammaln(whole + 1))
    left = np.maximum(1 - law.sum(axis=1), 0.0)  # beyond the table: as of a count of their mean,
    beyond = means * (left + law[:, -1]) / np.maximum(left, 1e-300)  # λ P(c ≥ last) / P(c > last)

    def average(by_count: Floats, tail: Floats) -> Floats:
        return np.asarray(law @ np.interp(whole, counts, by_count) + left * tail)

    far = np.interp(beyond, counts, found.mean)
    published = average(found.mean, far)
    squares = average(
        found.variance + found.mean**2,
        np.interp(beyond, counts, found.variance) + far**2 + beyond,
    )
    variance = np.maximum(squares - published**2, 0.0)
    return ResponseCurve(means, np.maximum.accumulate(published), variance)


def explain(
    release: Values, m: int, mechanism: Mechanism, *, rng: np.random.Generator
) -> ResponseCurve:
    """Return what ``mechanism``, bound, publishes of Poisson counts such as made this release.

    One by which a count changes everything is taken to change nothing on average.
    """
    if mechanism.reach == "release":
        straight = np.array([0.0, max(float(np.abs(release).sum()), 1.0)])
        return ResponseCurve(straight, straight, np.zeros(2))
    return learn_curve(mechanism, m, float(release.max()), rng=rng)


def match(
    release: Values, m: int, mechanism: Mechanism, *, rng: np.random.Generator
) -> tuple[Floats, Floats, float]:
    """Return the marginals and the visits a user makes that explain the sums of a release.

    Parameters
    ----------
    release
        Shape (roi, epoch), of one group of m.
    mechanism
        What published it, bound.

    Returns
    -------
    tuple
        Space, shape (roi,), and time, shape (epoch,), which sum to 1; visits in distinct cells
        that a user makes on average.
    """
    n_rois, n_epochs = release.shape
    curve = explain(release, m, mechanism, rng=rng)
    rows, columns = release.sum(axis=1), release.sum(axis=0)
    space, time = np.full(n_rois, 1 / n_rois), np.full(n_epochs, 1 / n_epochs)
    of_rois = of_epochs = None
    total = 0.0
    for _ in range(_ROUNDS):
        by_roi, of_rois = weigh_up(rows, time, curve, of_rois)
        space = normalise(by_roi)
        by_epoch, of_epochs = weigh_up(columns, space, curve, of_epochs)
        time = normalise(by_epoch)
        total = float(by_epoch.sum())
    if curve.noise > 0:  # of which the sum of all tells most, whatever single rows say
        total = _find_total(float(release.sum()), np.outer(space, time), curve)
    return space, time, total / m


def _find_total(wanted: float, shares: Floats, curve: ResponseCurve) -> float:
    """Return the total mean of all cells whose published sum is the one wanted, by halving."""
    low, high = 0.0, float(curve.means[-1] / max(shares.max(), 1e-12))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        above = curve.at(middle * shares).sum() >= wanted
        low, high = (low, middle) if above else (middle, high)
    return low


def weigh_up(
    sums: Floats, weights: Floats, curve: ResponseCurve, habit: ActivityPrior | None = None
) -> tuple[Floats, ActivityPrior | None]:
    """Return the mean of each row's total given all sums, and what rows are like.

    Parameters
    ----------
    sums
        Published, shape (row,).
    weights
        The share of a row's total that each of its cells has, shape (cell,); sums to 1.
    curve
        What is published of a cell.
    habit
        What rows are like, to start from; None if there is no guess.

    Returns
    -------
    tuple
        Float64, shape (row,); and the habit, None where no sum is above what nobody gives, or sums
        differ by no more than noise does, within two of its standard errors: then all are alike.
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
    habit = habit or ActivityPrior(float(np.log(max(middle, 1e-3))), 1.0, 0.1)
    for _ in range(_STEPS):
        before = habit
        prior = -(((logs - habit.middle) / habit.spread) ** 2) / 2 - np.log(habit.spread)
        prior += np.log((logs[1] - logs[0]) / np.sqrt(2 * np.pi)) + np.log1p(-habit.empty)
        occupancy_probabilities = likely + np.concatenate([[np.log(habit.empty)], prior])
        occupancy_probabilities = np.exp(
            occupancy_probabilities - occupancy_probabilities.max(axis=1, keepdims=True)
        )
        occupancy_probabilities /= occupancy_probabilities.sum(axis=1, keepdims=True)
        lively = occupancy_probabilities[:, 1:].sum(axis=0)
        middle = float(lively @ logs / lively.sum())
        spread = float(np.sqrt(lively @ (logs - middle) ** 2 / lively.sum()))
        empty = float(np.clip(occupancy_probabilities[:, 0].mean(), 1e-6, 1 - 1e-6))
        habit = ActivityPrior(middle, max(spread, 0.01), empty)
        if np.abs(np.subtract(habit, before)).max() < _SETTLED:
            break
    found, squares = occupancy_probabilities @ row.totals, occupancy_probabilities @ row.totals**2
    step = np.exp(logs[1] - logs[0]) - 1
    sure = squares - found**2 < (step * found) ** 2  # the grid would be coarser than the sums
    return np.where(sure, row.invert(sums), found), habit


def _log_likelihood(sums: Floats, row: MarginalRow, *, noisy: bool) -> Floats:
    """Return how likely sums are of each total, shape (row, total).

    Under noise sums are normal. Otherwise they are as good as Poisson counts of several visits
    each (Wedderburn 1974): as many as the variance of such a sum is larger than its mean.
    """
    if noisy:
        spread = np.maximum(row.variance, 1e-300)
        return np.asarray(-((sums[:, None] - row.given) ** 2) / (2 * spread) - np.log(spread) / 2)
    mean = np.maximum(row.given, 1e-300)
    each = np.interp(sums, row.given[1:], np.maximum(row.variance / mean, 1e-3)[1:])
    found = (sums[:, None] * np.log(mean) - mean) / each[:, None]
    found[:, 0] = np.where(sums > row.given[0], -np.inf, 0.0)
    return np.asarray(found)


def normalise(sums: Floats) -> Floats:
    """Return sums as shares; what fell below 0 counts as nothing, and nothing at all as equal."""
    sums = np.maximum(sums, 0.0)
    total = sums.sum()
    return sums / total if total > 0 else np.full(len(sums), 1 / len(sums))
