"""Random systems of noisy counts, and their dense generalised least squares."""

from itertools import product

import numpy as np

_SMALL = 1e-9  # of singular values of matrices of a few small whole numbers: others are far above


def _null_space(matrix):
    _, sizes, right = np.linalg.svd(matrix)
    return right[int((sizes > _SMALL).sum()) :].T


def dense_least_squares(values, noise, rows):
    """Return the best linear unbiased estimates and their deviations, by the null space of sums.

    Counts are a particular solution plus any vector of the null space of all sums and exact
    values, and noisy values are regressed on it.
    """
    n = len(values)
    sums = np.zeros((len(rows), n))
    for i, (whole, parts, _) in enumerate(rows):
        np.add.at(sums[i], parts, 1.0)
        sums[i, whole] -= 1
    sums = sums[[adds for _, _, adds in rows]]
    exact, noisy = np.flatnonzero(noise == 0), np.flatnonzero((noise > 0) & np.isfinite(noise))
    fixed = np.vstack([sums, np.eye(n)[exact]])
    right = np.append(np.zeros(len(sums)), values[exact])
    start = np.linalg.lstsq(fixed, right, rcond=None)[0]
    free = _null_space(fixed) if len(fixed) else np.eye(n)
    design = free[noisy] / noise[noisy, None]
    unseen = _null_space(design) if len(design) and free.size else np.eye(free.shape[1])
    known = (np.abs(free @ unseen) < _SMALL).all(axis=1)
    left, sizes, right = np.linalg.svd(design, full_matrices=False)
    inverse = right.T @ (
        np.where(sizes > _SMALL, 1 / np.maximum(sizes, _SMALL), 0)[:, None] * left.T
    )
    step = inverse @ ((values[noisy] - start[noisy]) / noise[noisy])
    deviations = np.linalg.norm(free @ inverse, axis=1)
    estimates = start + free @ step
    return np.where(known, estimates, np.nan), np.where(known, deviations, np.inf)


def random_noisy_system(rng):
    """Return values, standard deviations, and rows of a whole, its parts and whether they add."""
    draw = [_random_rows, _crossing_axes, _crossing_axes][int(rng.integers(3))]
    rows, counts = draw(rng)
    if rng.random() < 0.3:  # some of them twice, or in other words
        rows += [rows[int(i)] for i in rng.integers(0, len(rows), 2)]
    rows = [rows[int(i)] for i in rng.permutation(len(rows))]
    n, spread = len(counts), float(rng.choice([0, 1, 3]))
    noise = 10.0 ** rng.uniform(-spread / 2, spread / 2, n)
    noise[rng.random(n) < rng.choice([0, 0.2, 0.6])] = np.inf
    noise[rng.random(n) < rng.choice([0, 0.15])] = 0
    with np.errstate(invalid="ignore"):
        values = counts + np.where(np.isfinite(noise), noise, 0) * rng.normal(size=n)
    return np.where(np.isinf(noise), np.nan, values), noise, rows


def _crossing_axes(rng):
    """Return sums along two or three axes, each with its total, and counts that obey them."""
    sizes = rng.integers(2, 4, int(rng.integers(2, 4)))
    if len(sizes) == 3:
        sizes[0] = 2
    counts = rng.poisson(4, sizes).astype(float)
    for axis in range(len(sizes)):
        counts = np.concatenate([counts, counts.sum(axis=axis, keepdims=True)], axis=axis)
    numbers, rows = np.arange(counts.size).reshape(counts.shape), []
    for axis, size in enumerate(sizes):
        for at in product(*(range(n + 1) for n in np.delete(sizes, axis))):
            line = numbers[(*at[:axis], slice(None), *at[axis:])]
            rows.append((int(line[size]), line[:size].tolist(), True))
    if rng.random() < 0.3:
        some = rng.random(len(rows)) < 0.7
        rows = [row for row, keep in zip(rows, some, strict=True) if keep] or rows[:1]
    if rng.random() < 0.3:  # equal counts of another week
        rows += [(counts.size + i, [i], True) for i in range(counts.size)]
        counts = np.tile(counts.ravel(), 2)
    return rows, counts.ravel()


def _random_rows(rng):
    """Return any sums, also cyclic ones, and counts that obey them."""
    n = int(rng.integers(4, 14))
    rows = []
    for _ in range(int(rng.integers(1, n))):
        cells = rng.choice(n, int(rng.integers(2, min(5, n) + 1)), replace=False).tolist()
        rows.append((cells[0], cells[1:], bool(rng.random() < 0.9)))
    sums = np.zeros((len(rows), n))
    for i, (whole, parts, adds) in enumerate(rows):
        sums[i, parts] = adds
        sums[i, whole] -= adds
    free = _null_space(sums)
    return rows, free @ rng.normal(0, 5, free.shape[1])
