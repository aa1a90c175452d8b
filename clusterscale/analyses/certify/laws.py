"""The privacy loss that follows from how a mechanism publishes a count."""

from __future__ import annotations

import numpy as np

from clusterscale.analyses.certify.loss import (
    CellLoss,
    GaussianShift,
    LaplaceShift,
    Pair,
    PairLoss,
    SampledLoss,
    bounded_loss,
)
from clusterscale.contracts import NO_NOISE, CellChange, Noise
from clusterscale.mechanisms.law import FiniteDistribution
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise, GaussianNoise, LaplaceNoise

_FAR = 1e-16  # probability of noise beyond which a loss is counted as infinite


def loss_of_noise(noise: Noise) -> CellLoss | None:
    """Return the loss of a count with independent noise; None if it is not bounded or not known.

    Parameters
    ----------
    noise
        The noise; NO_NOISE bounds nothing.
    """
    if noise == NO_NOISE or not np.isfinite(noise.scale) or noise.scale <= 0:
        return None
    if isinstance(noise, LaplaceNoise):
        return LaplaceShift(noise.scale)
    if isinstance(noise, GaussianNoise):
        return GaussianShift(1 / noise.scale)
    if isinstance(noise, DiscreteLaplaceNoise):  # only whether the value exceeds the count matters
        return bounded_loss(1 / noise.scale)
    if not noise.whole:
        return None
    far = int(-noise.quantile(np.array([_FAR]))[0]) + 1
    values = np.arange(-far, far + 2.0)
    without, inside = noise.density(values), noise.density(values - 1)
    rest = [max(0.0, 1 - float(side.sum())) for side in (without, inside)]
    pair = (*without.tolist(), rest[0], 0.0), (*inside.tolist(), 0.0, rest[1])
    return PairLoss((pair,))


def loss_of_change(change: CellChange) -> CellLoss | None:
    """Return the loss of a stated change; None if nothing bounds it.

    Parameters
    ----------
    change
        As the mechanism states it.
    """
    if change.inside:
        return PairLoss(((change.without, change.inside),))
    if change.noise is None:
        return None
    return sample_loss(loss_of_noise(change.noise), change.kept)


def sample_loss(loss: CellLoss | None, kept: float) -> CellLoss | None:
    """Return the loss of a visit that is counted with probability ``kept``.

    Parameters
    ----------
    loss
        If it is counted; None: nothing bounds it, and then only that it may not be counted.
    kept
        From 0 to 1.
    """
    if kept == 1:
        return loss
    if kept == 0:
        return PairLoss((((1.0,), (1.0,)),))
    if loss is None:
        return PairLoss((((1.0, 0.0), (1 - kept, kept)),))
    if isinstance(loss, PairLoss):
        return PairLoss(tuple(_sample(pair, kept) for pair in loss.pairs))
    return SampledLoss(loss, kept)


def _sample(pair: Pair, kept: float) -> Pair:
    without, inside = (np.array(side) for side in pair)
    return pair[0], tuple((kept * inside + (1 - kept) * without).tolist())


def losses_of_counts(law: FiniteDistribution, group_size: int) -> PairLoss:
    """Return the loss of the count that a visit changes most, of a finite output distribution.

    Parameters
    ----------
    law
        Possible values of each count.
    group_size
        The largest count.
    """
    counts = np.arange(group_size + 1)
    values, probabilities = law.published(counts)
    shape = (len(counts), -1)
    values = np.round(values.reshape(shape) - counts[:, None], 9)
    next_values = np.round(values[1:] + 1, 9)
    rows = np.hstack(
        [values[:-1], next_values, probabilities[:-1].reshape(group_size, -1),
         probabilities[1:].reshape(group_size, -1)]
    )  # fmt: skip
    n_values = 2 * values.shape[1]
    pairs: dict[Pair, None] = {}
    for row in np.unique(rows, axis=0):
        distinct, which = np.unique(row[:n_values], return_inverse=True)
        own = np.zeros((2, len(distinct)))
        np.add.at(own[0], which[: n_values // 2], row[n_values : n_values * 3 // 2])
        np.add.at(own[1], which[n_values // 2 :], row[n_values * 3 // 2 :])
        own = own[:, own.any(axis=0)]
        pairs[tuple(own[0].tolist()), tuple(own[1].tolist())] = None
    return PairLoss(tuple(pairs))
