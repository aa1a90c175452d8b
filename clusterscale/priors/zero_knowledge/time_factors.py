"""Daily rhythms of ROIs: each ROI as a mixture of a few common rhythms."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Values
from clusterscale.priors.zero_knowledge.synthesis import SyntheticPopulation

Floats = NDArray[np.float64]
Hours = NDArray[np.int64]

_ROUNDS = 200  # iterations of the factorisation, and of fitting its sums


def hours_of_day(days: NDArray[np.int64]) -> Hours:
    """Return the index of each epoch within its day, from 0, int64, shape (epoch,).

    A shorter first day began before the period: its epochs are aligned to the end of the day.
    """
    starts = np.searchsorted(days, days)
    hours: Hours = np.arange(len(days)) - starts
    hours[starts == 0] += hours.max() - hours[starts == 0].max()
    return hours


def mix_rhythms(
    release: Values,
    population: SyntheticPopulation,
    days: NDArray[np.int64],
    rank: int,
    *,
    undo: Callable[[Floats, Floats], Floats] | None = None,
) -> SyntheticPopulation:
    """Return the population with a separate daily rhythm for each ROI and unchanged marginals.

    The release is summed over days, by ROI and epoch of the day, which averages out noise. A
    non-negative factorisation of low ``rank`` (Lee and Seung 2001, with the Kullback–Leibler loss
    of Poisson counts) keeps what several ROIs have in common, such as homes at night and work by
    day. The product is scaled to the marginals of ROIs and epochs (Deming and Stephan 1940). It is
    weighted by the agreement of odd and even days, so that noise alone leaves the common rhythm.

    Parameters
    ----------
    release
        Shape (roi, epoch).
    population
        Space, time, shape (epoch,), and activity.
    days
        Number of the day in which each epoch begins, not decreasing, shape (epoch,).
    rank
        Number of rhythms to mix.
    undo
        Takes published sums of cells, shape (roi,), and the expected share of each cell in a sum,
        and returns estimates of the raw sums. None leaves sums unchanged.
    """
    hours = hours_of_day(days)
    n_hours = int(hours.max()) + 1
    space = population.space

    def tabulate(chosen: NDArray[np.bool_]) -> Floats:
        table, shares = np.zeros((len(space), n_hours)), population.time + 1e-12
        for hour in np.unique(hours[chosen]):
            cells = chosen & (hours == hour)
            sums = release[:, cells].sum(axis=1)
            if undo is not None:
                sums = undo(sums, shares[cells] / shares[cells].sum())
            table[:, hour] = sums
        return np.maximum(table, 0)

    by_hour = np.bincount(hours, population.time, n_hours).astype(np.float64)
    common = np.outer(space, by_hour)
    odd = (days - days[0]) % 2 == 1
    one, other = (_fit_sums(tabulate(half), space, by_hour) for half in (odd, ~odd))
    agreement = _reliability(one, other, common)
    mixed = _fit_sums(_factorise(tabulate(odd | ~odd), rank), space, by_hour)
    mixed = common + agreement * (mixed - common)
    within = np.divide(
        population.time, by_hour[hours], out=np.zeros(len(hours)), where=by_hour[hours] > 0
    )
    time = mixed[:, hours] * within
    total = time.sum(axis=1, keepdims=True)
    rows = np.divide(time, total, out=np.tile(population.time, (len(time), 1)), where=total > 0)
    return population._replace(time=rows)


def _reliability(one: Floats, other: Floats, common: Floats) -> float:
    """Return the reliability, 0 to 1, of the deviations of two halves from ``common``.

    Their correlation, extrapolated to the full data (Spearman 1910, Brown 1910).
    """
    scale = np.sqrt(np.maximum(common, 1e-300))
    first, second = ((half - common) / scale for half in (one, other))
    norm = float(np.sqrt((first**2).sum() * (second**2).sum()))
    if norm == 0:
        return 0.0
    correlation = max(0.0, float((first * second).sum()) / norm)
    return 2 * correlation / (1 + correlation)


def _factorise(table: Floats, rank: int) -> Floats:
    """Return the product of the factors of a non-negative table."""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning

    rank = min(rank, *table.shape)
    if not table.any():
        return np.ones(table.shape)
    model = NMF(
        rank,
        init="nndsvda",
        solver="mu",
        beta_loss="kullback-leibler",
        max_iter=_ROUNDS,
        tol=1e-4,
        random_state=0,  # for the randomised initial decomposition
    )
    with warnings.catch_warnings(), np.errstate(all="ignore"):  # from an exact initialisation
        warnings.simplefilter("ignore", ConvergenceWarning)  # close enough, as the data are noisy
        product = model.fit_transform(table) @ model.components_
    return np.asarray(product + 1e-9 * table.mean())


def _fit_sums(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """Scale rows and columns alternately until they have these sums."""
    for _ in range(_ROUNDS):
        before = table.sum(axis=1)
        table = table * np.divide(rows, before, out=np.zeros(len(rows)), where=before > 0)[:, None]
        before = table.sum(axis=0)
        if np.allclose(before, columns, rtol=1e-6, atol=1e-12):
            break
        table = table * np.divide(columns, before, out=np.zeros(len(before)), where=before > 0)
    return table
