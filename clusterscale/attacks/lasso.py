"""L1 logistic regression on very many features, of which a few hundred rows use few.

The regression is solved on a small set of candidate features. One pass over all features then
checks its optimality, and the worst violators become candidates: a handful of passes in all, where
liblinear takes dozens. Counts of neighbouring hours are all but collinear, and descent along single
coordinates hardly gets over that. So the candidates' weights are found by Newton's method, with an
active-set search in each quadratic model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from clusterscale.contracts import Labels
from clusterscale.kernel import kernel

__all__ = ["fit_lasso"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Inputs = NDArray[np.int32] | Floats

N_PASSES = 100
N_STEPS = 200
N_SEARCHES = 100
N_HALVINGS = 60
N_CANDIDATES = 400  # how many features a pass adds, or as many as are in use
N_ENTERING = 16  # of near duplicates, few at a time enter a model: most would have to leave again


def fit_lasso(
    inputs: Inputs, labels: Labels, *, cost: float = 1.0, tolerance: float = 1e-4
) -> tuple[Indices, Floats, float]:
    """Return the features in use (int64, increasing), their weights (float64) and the intercept.

    They minimise ``‖w‖₁ + |b| + cost · Σᵢ log(1 + exp(−yᵢ (w·xᵢ + b)))``, y = ±1: the objective of
    scikit-learn's ``LogisticRegression(solver="liblinear", l1_ratio=1, C=cost)``, where liblinear
    penalises the intercept b too.

    The violation of a weight is the distance of 0 from the objective's subdifferential. The search
    ends once the violations of all features and the intercept sum to at most
    ``tolerance · min(1, s · V)``, with V their sum at zero weights and s the share of the rarer
    label. ``tolerance · s · V`` is where liblinear stops; the 1, the penalty's slope, keeps the
    objective within ``2 · tolerance`` of the optimum, relatively. Should that take over a hundred
    passes, the best weights so far are returned, as liblinear does.

    Parameters
    ----------
    inputs
        int32 or float64, C-contiguous, shape (row, feature), unscaled; never copied as a whole.
    labels
        bool, shape (row,).
    cost
        Weight of the rows' loss against the penalty: scikit-learn's ``C``.
    tolerance
        Liblinear's ``tol``, as above.

    Raises
    ------
    ValueError
        If there is not one label a row, or the inputs are not finite.

    Notes
    -----
    Objective and stopping rule: Fan et al., "LIBLINEAR", JMLR 2008. Newton steps: Yuan, Ho and Lin,
    "An improved GLMNET for L1-regularized logistic regression", JMLR 2012. The search in a
    quadratic model follows Lee et al., "Efficient sparse coding algorithms", NIPS 2006.
    """
    if labels.shape != inputs.shape[:1]:
        raise ValueError(f"labels of shape {labels.shape} do not fit inputs of {inputs.shape}")
    features, weights = _search(inputs, np.where(labels, 1.0, -1.0), cost, tolerance)
    used = np.flatnonzero(weights[1:])
    used = used[np.argsort(features[used])]
    return features[used], weights[1:][used], float(weights[0])


def _search(inputs: Inputs, signs: Floats, cost: float, tolerance: float) -> tuple[Indices, Floats]:
    """Return the candidates, and the weights of the intercept and of them."""
    n_rows, n_features = inputs.shape
    share = max(1, min((signs > 0).sum(), (signs < 0).sum())) / max(1, n_rows)
    candidates, gradient, goal = np.zeros(0, np.int64), np.empty(n_features), np.inf
    columns, weights = np.ones((1, n_rows)), np.zeros(1)  # the intercept's feature is constant
    for n_passes in range(N_PASSES):
        slopes = -cost * signs * expit(-signs * (weights @ columns))
        _multiply(inputs, slopes, gradient)
        outside = np.maximum(np.abs(gradient) - 1, 0)
        outside[candidates] = 0
        total = outside.sum() + _violations(columns @ slopes, weights).sum()
        if not np.isfinite(total):
            raise ValueError("inputs must be finite")
        if n_passes == 0:
            goal = tolerance * min(1.0, share * total)
        if total <= goal:
            break
        found = _largest(outside, max(N_CANDIDATES, int(np.count_nonzero(weights))))
        candidates = np.concatenate([candidates, found])
        columns = np.ascontiguousarray(np.concatenate([columns, inputs[:, found].T]))
        weights = np.concatenate([weights, np.zeros(len(found))])
        # While features outside are far from optimal, an exact solution inside is of no use.
        inside = max(goal / 3, outside.max(initial=0) / 30)
        weights = _descend(columns, signs, weights, cost, inside)
    return candidates, weights


def _descend(columns: Floats, signs: Floats, weights: Floats, cost: float, goal: float) -> Floats:
    """Take Newton steps on the candidates until their violations sum to at most ``goal``."""
    for _ in range(N_STEPS):
        margins = signs * (weights @ columns)
        doubts = expit(-margins)
        gradient = columns @ (-cost * signs * doubts)
        violations = _violations(gradient, weights)
        if violations.sum() <= goal:
            break
        entering = _largest(np.where(weights == 0, violations, 0), N_ENTERING)
        live = np.union1d(np.flatnonzero(weights), entering)
        rooted = columns[live] * np.sqrt(cost * np.maximum(doubts * (1 - doubts), 1e-12))
        hessian = rooted @ rooted.T
        hessian.flat[:: len(live) + 1] *= 1 + 1e-10  # duplicates leave it singular
        start, slopes = weights[live], gradient[live]
        change = _minimise(hessian, slopes, start, violations[live].sum() / 10) - start
        turn = signs * (change @ columns[live])
        norm = np.abs(start).sum()
        value = norm + cost * np.logaddexp(0, -margins).sum()
        promise = slopes @ change + np.abs(start + change).sum() - norm
        step = 1.0
        for _ in range(N_HALVINGS):
            after = start + step * change
            loss = cost * np.logaddexp(0, -margins - step * turn).sum()
            # Near the optimum, what a step gains drowns in the objective's rounding.
            if np.abs(after).sum() + loss <= value * (1 + 1e-14) + 0.01 * step * promise:
                break
            step /= 2
        else:
            break
        weights = weights.copy()
        weights[live] = after
    return weights


def _minimise(hessian: Floats, gradient: Floats, start: Floats, goal: float) -> Floats:
    """Minimise the quadratic model at ``start`` plus the absolute sum of the weights.

    A sweep over the coordinates lets weights in. Steps to the minimum for the signs they then have,
    or to where the first becomes 0 and drops out, do what takes sweeps very long.
    """
    weights, gradient = start.copy(), gradient.copy()
    for _ in range(N_SEARCHES):
        _sweep(hessian, gradient, weights)
        for _ in range(len(weights)):
            used = np.flatnonzero(weights)
            slopes, before = gradient[used] + np.sign(weights[used]), weights[used]
            if np.abs(slopes).sum() <= goal / 10:
                break
            way = -np.linalg.solve(hessian[np.ix_(used, used)], slopes)
            ends = np.divide(-before, way, out=np.ones(len(used)), where=before * way < 0)
            first = ends.argmin()
            step = min(1.0, ends[first])
            weights[used] += step * way
            gradient += step * (way @ hessian[used])
            if step == 1:
                break
            weights[used[first]] = 0
        if _violations(gradient, weights).sum() <= goal:
            break
    return weights


def _violations(gradient: Floats, weights: Floats) -> Floats:
    slopes = np.abs(gradient + np.sign(weights))
    return np.where(weights == 0, np.maximum(slopes - 1, 0), slopes)


def _largest(values: Floats, n: int) -> Indices:
    """Return the places, increasing, of the ``n`` largest of the values that are not 0."""
    found = np.flatnonzero(values)
    if len(found) > n:
        found = np.sort(found[np.argpartition(values[found], -n)[-n:]])
    return found


@kernel
def _multiply(inputs: Inputs, slopes: Floats, found: Floats) -> None:
    """Store ``slopes @ inputs``, four rows at a time: ``found`` is read and written less often."""
    n_rows, n_features = inputs.shape
    n_fours = n_rows - n_rows % 4
    found[:] = 0
    for i in range(0, n_fours, 4):
        first, second, third, fourth = inputs[i], inputs[i + 1], inputs[i + 2], inputs[i + 3]
        a, b, c, d = slopes[i], slopes[i + 1], slopes[i + 2], slopes[i + 3]
        for j in range(n_features):
            found[j] += a * first[j] + b * second[j] + c * third[j] + d * fourth[j]
    for i in range(n_fours, n_rows):
        for j in range(n_features):
            found[j] += slopes[i] * inputs[i, j]


@kernel
def _sweep(hessian: Floats, gradient: Floats, weights: Floats) -> None:
    """Minimise over each weight in turn, and keep the model's gradient up to date."""
    for j in range(len(weights)):
        pull = hessian[j, j] * weights[j] - gradient[j]
        new = np.sign(pull) * max(abs(pull) - 1, 0.0) / hessian[j, j]
        change = new - weights[j]
        if change != 0:
            weights[j] = new
            for k in range(len(weights)):
                gradient[k] += change * hessian[j, k]
