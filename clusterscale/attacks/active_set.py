"""Minimise a quadratic model plus the L1 norm of its weights, by an active-set method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from clusterscale.errors import InputError
from clusterscale.jit import kernel

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

N_SEARCHES, N_TURNS, N_IDLE = 10, 20, 5  # iteration limits, far above what is needed


def minimise(hessian: Floats, gradient: Floats, start: Floats, goal: float) -> Floats | None:
    """Return weights that minimise a quadratic model plus their L1 norm.

    None if the Hessian is so nearly singular that rounding prevents it.

    Parameters
    ----------
    hessian, gradient
        Of the model, the gradient at ``start``; float64, shape (weight, weight) and (weight,).
    start
        Initial weights, preferably near the minimum.
    goal
        Accepted distance of 0 from the subdifferential, summed over weights.

    Raises
    ------
    InputError
        If shapes do not fit each other.
    """
    if start.ndim != 1 or gradient.shape != start.shape or hessian.shape != 2 * start.shape:
        raise InputError(
            f"a Hessian of shape {hessian.shape} and a gradient of {gradient.shape} do not fit "
            f"weights of {start.shape}"
        )
    weights, gradient, n = start.copy(), gradient.copy(), len(start)
    used, inverse = np.empty(n, np.int64), np.empty((n, n))
    for _ in range(N_SEARCHES):
        active = np.flatnonzero(weights)
        k = len(active)
        try:
            used[:k], inverse[:k, :k] = active, np.linalg.inv(hessian[np.ix_(active, active)])
        except np.linalg.LinAlgError:
            return None
        if _walk(hessian, gradient, weights, used, k, inverse, goal):
            return weights
    return None


@kernel
def _walk(
    hessian: Floats,
    gradient: Floats,
    weights: Floats,
    used: Indices,
    n_used: int,
    inverse: Floats,
    goal: float,
) -> bool:
    """Minimise the model, adding or dropping one weight at a time; False if rounding prevents it.

    A step goes to the minimum for the current signs of the weights, or to where the first weight
    becomes 0 and is dropped. At such a minimum the weight of the largest violation is added. The
    inverse Hessian of the weights in use is updated by one outer product each time. The next step
    corrects the rounding errors of this one, because the gradient is that of the actual weights.
    """
    signs, slopes = np.sign(weights), np.empty(len(weights))
    n_idle = 0
    for _ in range(N_TURNS * len(weights)):
        inside = 0.0
        for i in range(n_used):
            slopes[i] = gradient[used[i]] + signs[used[i]]
            inside += abs(slopes[i])
        if inside > goal / 10:
            first = _step(hessian, gradient, weights, used[:n_used], inverse, slopes)
            n_idle = 0 if first >= 0 else n_idle + 1
            if n_idle > N_IDLE:
                return False
            if first >= 0:
                weights[used[first]] = 0
                n_used = _drop(used, n_used, inverse, first)
            for i in range(n_used):
                signs[used[i]] = np.sign(weights[used[i]])
            continue
        outside, worst = 0.0, -1
        for j in range(len(weights)):
            if weights[j] == 0 and abs(gradient[j]) > 1:
                outside += abs(gradient[j]) - 1
                if worst < 0 or abs(gradient[j]) > abs(gradient[worst]):
                    worst = j
        if worst < 0 or inside + outside <= goal:
            return True
        signs[worst], n_idle = -np.sign(gradient[worst]), 0
        n_used = _add(hessian, used, n_used, inverse, worst)
    return False


@kernel
def _step(
    hessian: Floats,
    gradient: Floats,
    weights: Floats,
    used: Indices,
    inverse: Floats,
    slopes: Floats,
) -> int:
    """Move to where all slopes or the first weight become 0; return that weight's index, or −1."""
    n = len(used)
    direction, length, first = np.zeros(n), 1.0, -1
    for i in range(n):
        for k in range(n):
            direction[i] -= inverse[i, k] * slopes[k]
        before = weights[used[i]]
        if before * (before + direction[i]) < 0 and -before / direction[i] < length:
            length, first = -before / direction[i], i
    for i in range(n):
        change, row = length * direction[i], hessian[used[i]]
        weights[used[i]] += change
        for j in range(len(gradient)):
            gradient[j] += change * row[j]
    return first


@kernel
def _drop(used: Indices, n_used: int, inverse: Floats, first: int) -> int:
    """Remove one weight from those in use, replacing it by the last; return their number."""
    last = n_used - 1
    out = inverse[first, :n_used].copy()
    own = out[first]
    out[first], used[first] = out[last], used[last]
    inverse[first, :n_used] = inverse[last, :n_used]
    inverse[:last, first] = inverse[:last, last]
    inverse[first, first] = inverse[last, last]
    for i in range(last):
        for k in range(last):
            inverse[i, k] -= out[i] * out[k] / own
    return last


@kernel
def _add(hessian: Floats, used: Indices, n_used: int, inverse: Floats, new: int) -> int:
    """Add a weight to those in use; return their number."""
    row = hessian[new]
    share, own = np.zeros(n_used), row[new]
    for i in range(n_used):
        for k in range(n_used):
            share[i] += inverse[i, k] * row[used[k]]
        own -= share[i] * row[used[i]]
    own = max(own, 1e-12 * row[new])  # for near duplicates, own is a rounding error
    for i in range(n_used):
        for k in range(n_used):
            inverse[i, k] += share[i] * share[k] / own
        inverse[i, n_used] = inverse[n_used, i] = -share[i] / own
    inverse[n_used, n_used] = 1 / own
    used[n_used] = new
    return n_used + 1
