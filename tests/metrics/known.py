"""Mechanisms whose ε is known: functions of labels and a generator that return scores."""

import numpy as np
from scipy.stats import norm

__all__ = ["coin", "gaussian", "gaussian_delta", "laplace", "randomized_response", "reversed_sign"]


def coin(labels, rng):
    return rng.random(labels.size)


def randomized_response(epsilon):
    def scores(labels, rng):
        return (labels ^ (rng.random(labels.size) < 1 / (1 + np.exp(epsilon)))).astype(float)

    return scores


def laplace(epsilon):
    return lambda labels, rng: labels + rng.laplace(scale=1 / epsilon, size=labels.size)


def gaussian(sigma):
    return lambda labels, rng: labels + rng.normal(scale=sigma, size=labels.size)


def gaussian_delta(epsilon, sigma):
    """δ of the Gaussian mechanism with sensitivity 1, exactly (Balle and Wang 2018, theorem 8)."""
    half, shift = 1 / (2 * sigma), epsilon * sigma
    return norm.cdf(half - shift) - np.exp(epsilon) * norm.cdf(-half - shift)


def reversed_sign(scores):
    return lambda labels, rng: -scores(labels, rng)
