"""Best tests computed by other ways: all outcomes, closed forms, and integrals."""

from itertools import pairwise, product
from math import comb

import numpy as np
import scipy


def roc_of_outcomes(without, inside, n):
    """Return the ROC curve of the likelihood ratio over all outcomes of ``n`` cells."""
    losses, own, other = [], [], []
    for outcome in product(range(len(without)), repeat=n):
        p, q = np.prod([inside[i] for i in outcome]), np.prod([without[i] for i in outcome])
        if p or q:
            losses.append(np.inf if q == 0 else -np.inf if p == 0 else np.log(p / q))
            own.append(p)
            other.append(q)
    losses, own, other = map(np.array, (losses, own, other))
    order = np.argsort(-losses, kind="stable")
    rounded = np.round(losses[order], 9)
    last = np.append(rounded[1:] != rounded[:-1], True)  # equal ratios are rejected together
    fpr = np.concatenate([[0.0], np.cumsum(other[order])[last]])
    tpr = np.concatenate([[0.0], np.cumsum(own[order])[last]])
    return fpr, tpr


def area(fpr, tpr):
    return float(np.trapezoid(tpr, fpr))


def geometric_pair(epsilon):
    """Return the probabilities of a two-sided geometric value, of a count and of one more."""
    values = np.arange(-400, 402)
    weight = np.tanh(epsilon / 2)
    return weight * np.exp(-epsilon * abs(values)), weight * np.exp(-epsilon * abs(values - 1))


def geometric_roc(epsilon, n):
    """Return the ROC curve for two-sided geometric noise: each cell is one bit."""
    right = 1 / (1 + np.exp(-epsilon))
    bits = np.arange(n, -1, -1)
    ways = np.array([comb(n, int(k)) for k in bits], float)
    own = ways * right**bits * (1 - right) ** (n - bits)
    other = ways * (1 - right) ** bits * right ** (n - bits)
    return np.append(0.0, np.cumsum(other)), np.append(0.0, np.cumsum(own))


def laplace_delta(epsilon, n, at):
    """Return δ at ``at`` of ``n`` cells with Laplace noise, by an integral over the middle cells.

    A value is at most the smaller mean (loss −ε), at least the larger one (loss ε), or between:
    there its position, from 0 to 1, has the density of a uniform variable, tilted, so that the sum
    of k of them has that of Irwin and Hall.
    """
    total = 0.0
    for low in range(n + 1):
        for high in range(n - low + 1):
            k = n - low - high
            ways = comb(n, low) * comb(n - low, high)
            ends = (0.5 * np.exp(-epsilon)) ** low * 0.5**high
            base = (high - low) * epsilon
            if k == 0:
                total += ways * ends * max(0.0, -np.expm1(at - base))
                continue
            scale = (epsilon / 2) ** k

            def density(s, k=k, scale=scale, base=base):
                gain = max(0.0, -np.expm1(at - base - epsilon * (2 * s - k)))
                return scale * np.exp(-epsilon * (k - s)) * irwin_hall(s, k) * gain

            cut = np.clip((at - base + epsilon * k) / (2 * epsilon), 0, k)
            points = [*range(int(np.ceil(cut)), k + 1)]
            ends_of = [cut, *[point for point in points if point > cut], k]
            parts = [
                scipy.integrate.quad(density, a, b, epsabs=1e-13, epsrel=1e-11)[0]
                for a, b in pairwise(ends_of)
                if b > a
            ]
            total += ways * ends * sum(parts)
    return total


def irwin_hall(s, k):
    """Return the density of the sum of ``k`` uniform variables."""
    if k == 1:
        return 1.0
    terms = [(-1) ** j * comb(k, j) * max(s - j, 0.0) ** (k - 1) for j in range(int(s) + 1)]
    return sum(terms) / scipy.special.factorial(k - 1)
