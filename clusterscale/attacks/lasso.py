"""L1 logistic regression on very many features, of which a few hundred rows use few.

The regression is solved on a few candidate features. A pass over all features then checks that it
is optimal, and the worst violators become candidates: a handful of passes, where liblinear takes
dozens. Counts of neighbouring hours are all but collinear, too much so for descent along single
coordinates: the candidates are solved by Newton's method, each of its models by an active set.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.attacks.active_set import minimise
from clusterscale.contracts import Labels
from clusterscale.errors import InputError
from clusterscale.jit import kernel

__all__ = ["fit_lasso"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Inputs = NDArray[np.int32] | Floats

N_PASSES, N_STEPS, N_IDLE = 50, 100, 5  # bounds, far above what is needed
SHARE = 0.03  # with less, Hessians of rows that are all but settled were singular
LEAST_SHARE = 1e-6  # for what does not get there otherwise
N_CANDIDATES = 400  # how many features a pass adds, or as many as are in use
_DIGITS = 9  # in which scaled features that are alike agree
_ALIKE = 1e-3  # how much the slopes of features that are alike can differ, by rounding, at most
N_ENTERING = 16  # of near duplicates, few at a time enter a model: most would have to leave again


@dataclass(frozen=True, slots=True)
class _Features:
    """The inputs, never copied as a whole: each feature less its centre, times its scale."""

    inputs: Inputs
    centre: Floats | None
    scale: Floats | None

    def columns(self, found: Indices) -> Floats:
        """Return some features, float64, shape (feature, row)."""
        columns = self.inputs[:, found].T.astype(np.float64, order="C")
        if self.centre is not None:
            columns -= self.centre[found, None]
        if self.scale is not None:
            columns *= self.scale[found, None]
        return columns

    def multiply(self, slopes: Floats, found: Floats) -> None:
        """Store ``slopes`` times all features in ``found``, shape (feature,)."""
        _multiply(self.inputs, slopes, found)
        if self.centre is not None:
            found -= slopes.sum() * self.centre
        if self.scale is not None:
            found *= self.scale


def fit_lasso(
    inputs: Inputs,
    labels: Labels,
    *,
    cost: float = 1.0,
    tolerance: float = 1e-4,
    centre: Floats | None = None,
    scale: Floats | None = None,
) -> tuple[Indices, Floats, float]:
    """Return the features in use (int64, increasing), their weights (float64) and the intercept.

    They minimise ``‖w‖₁ + |b| + cost · Σᵢ log(1 + exp(−yᵢ (w·xᵢ + b)))``, y = ±1: the objective of
    scikit-learn's ``LogisticRegression(solver="liblinear", l1_ratio=1, C=cost)``, where liblinear
    penalises the intercept b too.

    A weight's violation is the distance of 0 from the objective's subdifferential. The search ends
    once the violations, the intercept's too, sum to at most ``tolerance · min(1, s · V)``: V is
    their sum at zero weights, s the share of the rarer label. ``tolerance · s · V`` is where
    liblinear stops; the 1, the penalty's slope, keeps the objective within ``2 · tolerance`` of the
    optimum, relatively. If fifty passes do not get there, the best weights so far are returned.
    Identical features share their weight; V counts each of them, as liblinear does.

    Objective: Fan et al., "LIBLINEAR", JMLR 2008. Newton steps and stopping rule: Yuan, Ho and Lin,
    "An improved GLMNET", JMLR 2012. Active set: Lee et al., "Efficient sparse coding", NIPS 2006.

    Parameters
    ----------
    inputs
        int32 or float64, C-contiguous, shape (row, feature), unscaled; never copied as a whole.
    labels
        bool, shape (row,).
    cost, tolerance
        Weight of the rows' loss against the penalty (``C``), and the above (``tol``).
    centre, scale
        float64, shape (feature,): what is subtracted from each feature, and what it is then
        multiplied by. The weights are those of the features so changed.

    Raises
    ------
    InputError
        If there is not one label a row, or one centre and scale a feature, or the inputs are not
        finite.
    """
    if inputs.ndim != 2 or labels.shape != inputs.shape[:1]:
        raise InputError(f"labels of shape {labels.shape} do not fit inputs of {inputs.shape}")
    for name, each in (("centre", centre), ("scale", scale)):
        if each is not None and each.shape != inputs.shape[1:]:
            raise InputError(f"{name} of shape {each.shape} does not fit inputs of {inputs.shape}")
    features = _Features(inputs, centre, scale)
    found, weights, gradient = _search(features, np.where(labels, 1.0, -1.0), cost, tolerance)
    intercept, weights = float(weights[0]), weights[1:]
    used = weights != 0
    return *_share(features, found[used], weights[used], gradient), intercept


def _share(
    features: _Features, found: Indices, weights: Floats, gradient: Floats
) -> tuple[Indices, Floats]:
    """Divide each weight equally among all features that are alike, places increasing.

    This costs nothing in the objective, and is its minimiser of least norm: a cell where only the
    target is seen is then as good as another, and who else turns up in one is not missed in all.
    """
    alike = np.union1d(np.flatnonzero(np.abs(gradient) > 1 - _ALIKE), found)
    columns = features.columns(alike)
    if features.scale is not None:  # features of which one is a multiple of the other, but rounded
        columns = np.round(columns, _DIGITS)
    columns += 0.0  # which leaves no −0
    keys = [column.tobytes() for column in columns]
    totals, sizes = dict[bytes, float](), Counter(keys)
    for place, weight in zip(np.searchsorted(alike, found), weights, strict=True):
        totals[keys[place]] = totals.get(keys[place], 0.0) + float(weight)
    shares = np.array([totals.get(key, 0.0) / sizes[key] for key in keys])
    return alike[shares != 0], shares[shares != 0]


def _search(
    features: _Features, signs: Floats, cost: float, tolerance: float
) -> tuple[Indices, Floats, Floats]:
    """Return the candidates, the weights of the intercept and of them, and all slopes."""
    n_rows, n_features = features.inputs.shape
    share = max(1, min((signs > 0).sum(), (signs < 0).sum())) / max(1, n_rows)
    candidates, gradient, goal = np.zeros(0, np.int64), np.empty(n_features), np.inf
    columns, weights = np.ones((1, n_rows)), np.zeros(1)  # the intercept's feature is constant
    for n_passes in range(N_PASSES):
        slopes = -cost * signs * scipy.special.expit(-signs * (weights @ columns))
        features.multiply(slopes, gradient)
        outside = np.maximum(np.abs(gradient) - 1, 0)
        outside[candidates] = 0
        total = outside.sum() + _violations(columns @ slopes, weights).sum()
        if not np.isfinite(total):
            raise InputError("inputs must be finite")
        if n_passes == 0:
            goal = tolerance * min(1.0, share * total)
        if total <= goal:
            break
        found = _largest(outside, max(N_CANDIDATES, int(np.count_nonzero(weights))))
        candidates = np.concatenate([candidates, found])
        columns = np.ascontiguousarray(np.concatenate([columns, features.columns(found)]))
        weights = np.concatenate([weights, np.zeros(len(found))])
        # While features outside are far from optimal, an exact solution inside is of no use.
        inside = max(goal / 3, outside.max(initial=0) / 30)
        weights = _descend(columns, signs, weights, cost, inside)
    return candidates, weights, gradient


def _descend(columns: Floats, signs: Floats, weights: Floats, cost: float, goal: float) -> Floats:
    """Take Newton steps on the candidates until their violations sum to at most ``goal``.

    Rows that are all but settled bend the objective so little that the Hessian of a few hundred
    candidates would be singular. They are taken to bend it by a ``share`` of what the least settled
    one does, which makes steps shorter but keeps them downhill: too short where settled rows have
    large counts and an unsettled one has none, so what is not reached is tried with less.
    """
    for share in (SHARE, LEAST_SHARE):
        weights, reached = _step_down(columns, signs, weights, cost, goal, share)
        if reached:
            break
    return weights


def _step_down(
    columns: Floats, signs: Floats, weights: Floats, cost: float, goal: float, share: float
) -> tuple[Floats, bool]:
    """Return where these steps lead, and whether violations there sum to at most ``goal``."""
    weights, n_idle = weights.copy(), 0
    for _ in range(N_STEPS):
        margins = signs * (weights @ columns)
        doubts = scipy.special.expit(-margins)
        gradient = columns @ (-cost * signs * doubts)
        violations = _violations(gradient, weights)
        if violations.sum() <= goal:
            return weights, True
        if n_idle > N_IDLE:
            break
        entering = _largest(np.where(weights == 0, violations, 0), N_ENTERING)
        live = np.union1d(np.flatnonzero(weights), entering)
        bends = doubts * (1 - doubts)
        rooted = columns[live] * np.sqrt(cost * np.maximum(bends, max(share * bends.max(), 1e-12)))
        hessian = rooted @ rooted.T
        hessian.flat[:: len(live) + 1] *= 1 + 1e-11  # duplicates leave it singular
        start, slopes = weights[live], gradient[live]
        found = minimise(hessian, slopes, start, violations[live].sum() / 10)
        if found is None:
            n_idle, share = n_idle + 1, min(1.0, 10 * share)
            continue
        change = found - start
        turn = signs * (change @ columns[live])
        value = _objective(start, margins, cost)
        promise = slopes @ change + np.abs(found).sum() - np.abs(start).sum()
        n_idle += promise > -1e-13 * value  # lost in rounding, though violations may still shrink
        weights[live] += _shorten(start, change, margins, turn, 0.01 * promise, cost) * change
    return weights, False


def _shorten(
    start: Floats, change: Floats, margins: Floats, turn: Floats, promise: float, cost: float
) -> float:
    """Return the first of 1, ½, ¼, … of the step by which the objective falls as promised."""
    step, value = 1.0, _objective(start, margins, cost)
    bound = value + 1e-14 * value
    while _objective(start + step * change, margins + step * turn, cost) > bound + step * promise:
        step /= 2
    return step


def _objective(weights: Floats, margins: Floats, cost: float) -> float:
    return float(np.abs(weights).sum() + cost * np.logaddexp(0, -margins).sum())


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
