"""Small systems of counts, and all counts that they allow."""

import numpy as np


def possible(low, high, rows):
    """Return all counts within bounds for which the rows hold, shape (case, cell)."""
    ranges = [np.arange(least, most + 1) for least, most in zip(low, high, strict=True)]
    cases = np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(low))
    for whole, parts, adds in rows:
        each, total = cases[:, parts], cases[:, whole]
        most = each.sum(axis=1)
        least = most if adds else each.max(axis=1)
        cases = cases[(least <= total) & (total <= most)]
    return cases


def random_system(rng, n_most=7):
    """Return bounds and relations of few counts; nine in ten are met by some counts."""
    n = int(rng.integers(3, n_most + 1))
    rows = []
    for _ in range(int(rng.integers(1, 5))):
        cells = rng.choice(n, int(rng.integers(2, min(4, n - 1) + 1)) + 1, replace=False).tolist()
        rows.append((cells[0], cells[1:], bool(rng.random() < 0.75)))
    met = possible([0] * n, [4] * n, rows)
    if not len(met) or rng.random() < 0.1:
        low = rng.integers(0, 4, n)
        return low, low + rng.integers(0, 4, n), rows
    true = met[rng.integers(len(met))]
    return np.maximum(0, true - rng.integers(0, 4, n)), true + rng.integers(0, 4, n), rows
