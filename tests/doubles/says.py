"""Mechanisms of somebody else: each says what its guarantee and its noise are, truly or not."""

from typing import Literal

import numpy as np

from clusterscale.contracts import Guarantee, Mechanism
from clusterscale.mechanisms.noise import DiscreteLaplaceNoise, LaplaceNoise

TABLE = (-2, -1)


def geometric(rng, shape, scale):
    success = -np.expm1(-1 / scale)
    return (rng.geometric(success, shape) - rng.geometric(success, shape)).astype(float)


def pairs(counts, rng, scale, sign):
    noise = geometric(rng, counts.shape, scale)
    half = noise.shape[-1] // 2
    noise[..., 1 : 2 * half : 2] = sign * noise[..., 0 : 2 * half : 2]
    return counts + noise


def last(counts, rng, scale):
    noise = rng.laplace(0, scale, counts.shape)
    noise[..., -1, :] = -noise[..., 0, :]
    return counts + noise


def exact_total(counts, rng, scale):
    values = counts + geometric(rng, counts.shape, scale)
    values[..., -1, -1] += counts.sum(TABLE) - values.sum(TABLE)
    return values


def total_beside(counts, rng, scale):
    values = counts + rng.laplace(0, scale, counts.shape)
    values[..., 0, 0] = counts.sum(TABLE)
    return values


def raw(share):
    def release(counts, rng, scale):
        is_raw = rng.random((*counts.shape[:-2], 1, 1)) < share
        return np.where(is_raw, counts, counts + geometric(rng, counts.shape, scale))

    return release


def smoothed(counts, rng, scale):
    values = np.clip(np.rint(counts + rng.laplace(0, scale, counts.shape)), 0, None)
    values = np.where(values < 2, 0, values)
    return values + 0.5 * np.roll(values, 1, -1)


def consistent(counts, rng, scale):
    """Noise on cells and on a total of its own; cells are then moved to have that total."""
    values = counts + rng.laplace(0, 2 * scale, counts.shape)
    total = counts.sum(TABLE) + rng.laplace(0, 2 * scale, counts.shape[:-2])
    n_cells = counts.shape[-1] * counts.shape[-2]
    return values + ((total - values.sum(TABLE)) / n_cells)[..., None, None]


def shared(shape_of, draw=geometric):
    return lambda counts, rng, scale: counts + draw(rng, shape_of(counts.shape), scale)


def fixed(counts, rng, scale):
    return counts + geometric(np.random.default_rng(3), counts.shape, scale)


FALSE = {
    "in all cells": shared(lambda shape: (*shape[:-2], 1, 1)),
    "in series": shared(lambda shape: (*shape[:-1], 1)),
    "in pairs": lambda *drawn: pairs(*drawn, 1),
    "in opposite pairs": lambda *drawn: pairs(*drawn, -1),
    "in the last place": last,
    "in a batch": shared(lambda shape: shape[-2:]),
    "even": lambda counts, rng, scale: counts + 2 * geometric(rng, counts.shape, scale / 2),
    "total": exact_total,
    "fixed": fixed,
    "raw": raw(0.02),
}
OTHERS = {
    "smaller": lambda counts, rng, scale: counts + rng.laplace(0, scale / 2, counts.shape),
    "zeros": lambda counts, rng, scale: (
        (counts > 0) * (counts + rng.laplace(0, scale, counts.shape))
    ),
    "total beside": total_beside,
    "doubled": lambda counts, rng, scale: 2 * counts + rng.laplace(0, scale, counts.shape),
    "sums": lambda counts, rng, scale: (
        counts.sum(-1, keepdims=True) + rng.laplace(0, scale, counts.shape)
    ),
}
HONEST = {
    "geometric": lambda counts, rng, scale: counts + geometric(rng, counts.shape, scale),
    "laplace": lambda counts, rng, scale: counts + rng.laplace(0, scale, counts.shape),
    "clipped": lambda counts, rng, scale: np.clip(
        counts + geometric(rng, counts.shape, scale), 0, 9
    ),
    "rounded": lambda counts, rng, scale: np.rint(counts + rng.laplace(0, scale, counts.shape)),
    "smoothed": smoothed,
    "consistent": consistent,
    "no data": lambda counts, rng, scale: rng.laplace(0, scale, counts.shape),
    "constant": lambda counts, rng, scale: np.zeros(counts.shape),
}
RELEASES = FALSE | OTHERS | HONEST


class Says(Mechanism):
    """Releases counts in one of several ways, and says that this is Laplace noise."""

    name: Literal["says"] = "says"
    how: str
    unit: str = "event"
    epsilon: float = 1.0
    delta: float = 0.0
    neighbours: str = "add_remove"
    scale: float = 1.0
    scope: str = "release"
    stated: Literal["", "whole", "real"] = ""

    @property
    def guarantee(self):
        said = "as its author says"
        return Guarantee(self.unit, self.epsilon, self.delta, self.neighbours, said)

    @property
    def noise_scope(self):
        return self.scope

    @property
    def noise(self):
        known = {"whole": DiscreteLaplaceNoise, "real": LaplaceNoise}
        return known[self.stated](self.scale) if self.stated else None

    def release(self, counts, *, group_size, rng):
        return RELEASES[self.how](counts, rng, self.scale).astype(np.float64)
