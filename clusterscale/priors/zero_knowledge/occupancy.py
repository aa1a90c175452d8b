"""Estimate from a release how likely a person is to be in each cell."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Mechanism, Values
from clusterscale.errors import InputError
from clusterscale.priors.zero_knowledge.marginals import estimate_marginals
from clusterscale.priors.zero_knowledge.moment_matching import ResponseCurve, response_curve
from clusterscale.priors.zero_knowledge.time_factors import mix_rhythms

Floats = NDArray[np.float64]

_RANK = 3  # daily rhythms that are mixed
_FAR = 5.0  # standard deviations of noise and chance beyond which a cell is a case of its own
_MOST = 0.999  # probability of a person being in a cell
_TRIED = 10  # visits a cell, to see whether values are in visits
_APART = 2.0  # ratio of a value to its visits that is not explained by noise


def estimate_occupancy(
    values: Values,
    m: int,
    mechanism: Mechanism,
    days: NDArray[np.int64],
    *,
    rng: np.random.Generator,
) -> Floats:
    """Return the probability of a member being in each cell.

    The marginals of the release, corrected for the mechanism, and its daily rhythms give a model
    of all cells. Where noise or suppression leave something to see, each cell then moves from the
    model towards its own published value: by the share of the variance of the deviations that
    neither noise nor chance explains (empirical Bayes; Efron and Morris 1973). A cell that is far
    from the model, such as a stadium during a match, keeps its own value.

    Parameters
    ----------
    values
        Published values of one group, shape (roi, epoch), without a null ROI; finite.
    m
        Group size.
    mechanism
        The mechanism that published it, bound.
    days
        Number of the day in which each epoch begins, shape (epoch,).
    rng
        Source of draws, for mechanisms whose output distribution is not known.

    Returns
    -------
    Floats
        Float64, shape (roi, epoch), from 0 to .999.

    Raises
    ------
    InputError
        If the values are on a scale of their own, such as shares of a total.
    ConfigError
        If a sensitivity of the mechanism is not known.
    """
    _check_scale(values.shape, m, mechanism, rng)
    curve = response_curve(values, m, mechanism, rng=rng)
    population = estimate_marginals(values, m, mechanism, correction="matched", rng=rng)
    population = mix_rhythms(values, population, days, _RANK, undo=curve.invert)
    model = m * population.occupancy_probabilities
    counts = model if mechanism.noise_scope == "release" else _revise(values, model, curve)
    return np.clip(counts / m, 0.0, _MOST)


def _revise(values: Values, model: Floats, curve: ResponseCurve) -> Floats:
    """Return mean counts between those of the model and those that the values suggest."""
    expected, chance = curve.at(model), np.interp(model, curve.means, curve.variance)
    error = values - expected
    special = np.abs(error) > _FAR * np.sqrt(chance)
    excess = np.where(special, 0.0, error**2 - chance).sum()
    spread = max(excess, 0.0) / max((expected**2).sum(), 1e-300) * expected**2
    share = np.divide(spread, spread + chance, out=np.zeros_like(spread), where=spread > 0)
    share[special] = 1.0
    rises = np.concatenate([[True], np.diff(curve.published) > 0])
    revised = np.interp(expected + share * error, curve.published[rises], curve.means[rises])
    counts: Floats = np.where(share > 0, revised, model)
    return np.asarray(
        counts * (model.sum() / max(counts.sum(), 1e-300))
    )  # the total is the least noisy


def _check_scale(
    shape: tuple[int, ...], m: int, mechanism: Mechanism, rng: np.random.Generator
) -> None:
    """Raise if values of a release-wide mechanism are not in visits."""
    if mechanism.noise_scope != "release":
        return
    n_each = min(_TRIED, m)
    tried = mechanism.release(np.full((1, *shape), n_each, np.int32), group_size=m, rng=rng)
    ratio = float(tried.mean()) / n_each
    if not 1 / _APART < ratio < _APART:
        raise InputError(
            f"{mechanism.label}: published values do not show how many visits there were, so "
            "people cannot be simulated from them"
        )
