"""Daily rhythms of ROIs, and how likely a person is to be in each cell."""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Floats, Mechanism, Values
from clusterscale.errors import InputError
from clusterscale.priors.zero_knowledge import marginals
from clusterscale.priors.zero_knowledge.synthesis import SyntheticPopulation

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
    """Return the population with a daily rhythm for each ROI and unchanged marginals.

    The release, shape (roi, epoch), is summed over days, by ROI and epoch of the day, which
    averages out noise. A non-negative factorisation of low ``rank`` (Lee and Seung 2001, with
    the Kullback–Leibler loss of Poisson counts) keeps what several ROIs have in common, such as
    homes at night and work by day. The product is scaled to the marginals of ROIs and epochs
    (Deming and Stephan 1940). It is weighted by the agreement of odd and even days, so that
    noise alone leaves the common rhythm.

    ``days``, shape (epoch,), not decreasing, are the numbers of the day in which each epoch
    begins. ``undo`` takes published sums of cells, shape (roi,), and the expected share of each
    cell in a sum, and returns estimates of the raw sums; None leaves sums unchanged.
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


_APART = 2.0  # ratio of a value to its visits that is not explained by noise


def estimate_occupancy(
    values: Values,
    m: int,
    mechanism: Mechanism,
    days: NDArray[np.int64],
    *,
    rng: np.random.Generator,
) -> Floats:
    """Return the probability of a member being in each cell, float64, (roi, epoch), at most .999.

    The marginals of the release, corrected for the mechanism, and its daily rhythms give a
    model of all cells. Where noise or suppression leave something to see, each cell then moves
    from the model towards its own published value: by the share of the variance of the
    deviations that neither noise nor chance explains (empirical Bayes; Efron and Morris 1973).
    A cell that is far from the model, such as a stadium during a match, keeps its own value.

    ``values``, shape (roi, epoch), finite, without a null ROI, are of one group of ``m`` by the
    bound mechanism; ``days``, shape (epoch,), are the numbers of the day in which each epoch
    begins. Raises InputError if the values are on a scale of their own, such as shares of a
    total, and ConfigError if a sensitivity of the mechanism is not known.
    """
    _check_scale(values.shape, m, mechanism, rng)
    curve = marginals.response_curve(values, m, mechanism, rng=rng)
    population = marginals.estimate_marginals(values, m, mechanism, correction="matched", rng=rng)
    # 3: daily rhythms that are mixed
    population = mix_rhythms(values, population, days, 3, undo=curve.invert)
    model = m * population.occupancy_probabilities
    counts = model if mechanism.noise_scope == "release" else _revise(values, model, curve)
    return np.clip(counts / m, 0.0, 0.999)  # probability of a person being in a cell


def _revise(values: Values, model: Floats, curve: marginals.ResponseCurve) -> Floats:
    """Return mean counts between those of the model and those that the values suggest."""
    expected, chance = curve.at(model), np.interp(model, curve.means, curve.variance)
    error = values - expected
    # 5.0: standard deviations of noise and chance beyond which a cell is a case of its own
    special = np.abs(error) > 5.0 * np.sqrt(chance)
    excess = np.where(special, 0.0, error**2 - chance).sum()
    spread = max(excess, 0.0) / max((expected**2).sum(), 1e-300) * expected**2
    share = np.divide(spread, spread + chance, out=np.zeros_like(spread), where=spread > 0)
    share[special] = 1.0
    rises = np.concatenate([[True], np.diff(curve.published) > 0])
    revised = np.interp(expected + share * error, curve.published[rises], curve.means[rises])
    counts: Floats = np.where(share > 0, revised, model)
    # the total is the least noisy
    return np.asarray(counts * (model.sum() / max(counts.sum(), 1e-300)))


def _check_scale(
    shape: tuple[int, ...], m: int, mechanism: Mechanism, rng: np.random.Generator
) -> None:
    """Raise if values of a release-wide mechanism are not in visits."""
    if mechanism.noise_scope != "release":
        return
    n_each = min(10, m)  # visits a cell, to see whether values are in visits
    tried = mechanism.release(np.full((1, *shape), n_each, np.int32), group_size=m, rng=rng)
    if not 1 / _APART < float(tried.mean()) / n_each < _APART:
        raise InputError(
            f"{mechanism.label}: published values do not show how many visits there were, so "
            "people cannot be simulated from them"
        )
