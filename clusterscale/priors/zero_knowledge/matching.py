"""Marginals that explain what was published, whatever the mechanism does to counts.

The sum of a row of a release is what the mechanism makes, on average, of the counts of that row.
If the counts of a cell are Poisson with mean λ and ``f(c)`` is what is published of a count c on
average, then g(λ) = Σ f(c) Poisson(c; λ) is published of such a cell. With λ(s, t) = N p(s) q(t)
the sums of rows and columns give N, p and q: clipping, rounding, noise and suppression are undone
by one inversion, without a table of cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from clusterscale.contracts import Mechanism, Values
from clusterscale.mechanisms import respond

__all__ = ["Curve", "explain", "learn_curve", "match", "shrink"]

Floats = NDArray[np.float64]

_EACH = 64  # counts up to here one by one, further ones in steps of a tenth
_ROUNDS = 6
_POINTS = 400


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """What is published of a Poisson count.

    Attributes
    ----------
    means
        Float64, shape (point,): increasing from 0.
    published
        Float64, shape (point,): what is published on average, not decreasing.
    noise
        Variance of what is published of a count of 0.
    """

    means: Floats
    published: Floats
    noise: float

    def at(self, means: Floats) -> Floats:
        """Return what is published on average of counts of those means."""
        found: Floats = np.interp(means, self.means, self.published)
        return found

    def invert(self, sums: Floats, weights: Floats) -> Floats:
        """Return the total mean of each row of cells whose published sum is one of ``sums``.

        ``weights``, shape (cell,), are the shares of a row's mean that its cells have; sums to 1.
        What is below what nobody gives is told as 0.
        """
        most = max(self.means[-1] / max(weights.max(), 1e-12), 1.0)
        totals = np.concatenate([[0.0], np.geomspace(1e-3, most, _POINTS)])
        given = np.array([self.at(total * weights).sum() for total in totals])
        given = np.maximum.accumulate(given)
        keep = np.concatenate([[True], np.diff(given) > 0])
        found: Floats = np.interp(sums, given[keep], totals[keep])
        return found


def learn_curve(mechanism: Mechanism, m: int, most: float, *, rng: np.random.Generator) -> Curve:
    """Return what ``mechanism`` publishes of Poisson counts in groups of m, up to ``most``."""
    top = int(min(m, max(_EACH, 2 * most)))
    counts = np.arange(min(_EACH, top) + 1)
    while counts[-1] < top:
        counts = np.append(counts, min(top, int(counts[-1] * 1.1)))
    found = respond(mechanism, counts, group_size=m, rng=rng)
    means = np.concatenate([[0.0], np.geomspace(1e-4, max(top, 1), _POINTS)])
    whole = np.arange(min(int(top), 4 * _EACH) + 1)
    by_count = np.interp(whole, counts, found.mean)
    log_law = whole * np.log(np.maximum(means, 1e-300))[:, None] - means[:, None]
    law = np.exp(log_law - gammaln(whole + 1))
    left = np.maximum(1 - law.sum(axis=1), 0.0)  # beyond the table: as of a count of their mean,
    beyond = means * (left + law[:, -1]) / np.maximum(left, 1e-300)  # λ P(c ≥ last) / P(c > last)
    published = law @ by_count + left * np.interp(beyond, counts, found.mean)
    return Curve(means, np.maximum.accumulate(published), float(found.variance[0]))


def explain(release: Values, m: int, mechanism: Mechanism, *, rng: np.random.Generator) -> Curve:
    """Return what ``mechanism``, bound, publishes of Poisson counts such as made this release.

    One by which a count changes everything is taken to change nothing on average.
    """
    if mechanism.reach == "release":
        straight = np.array([0.0, max(float(np.abs(release).sum()), 1.0)])
        return Curve(straight, straight, 0.0)
    return learn_curve(mechanism, m, float(release.max()), rng=rng)


def shrink(sums: Floats, noise: float) -> Floats:
    """Draw sums towards their mean by the share of their variance that is ``noise``.

    The linear empirical Bayes rule (James and Stein 1961, towards the mean as Efron and Morris
    1973): where there is nothing but noise, all sums are told as equal.
    """
    spread = float(sums.var())
    kept = max(0.0, 1 - noise / spread) if spread > 0 else 1.0
    return np.asarray(sums.mean() + kept * (sums - sums.mean()))


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
    rows = shrink(release.sum(axis=1), n_epochs * curve.noise)
    columns = shrink(release.sum(axis=0), n_rois * curve.noise)
    space, time = np.full(n_rois, 1 / n_rois), np.full(n_epochs, 1 / n_epochs)
    total = 0.0
    for _ in range(_ROUNDS):
        by_roi = curve.invert(rows, time)
        space = _shares(by_roi, space)
        by_epoch = curve.invert(columns, space)
        time = _shares(by_epoch, time)
        total = float(by_epoch.sum())
    return space, time, total / m


def _shares(means: Floats, otherwise: Floats) -> Floats:
    total = means.sum()
    return means / total if total > 0 else otherwise
