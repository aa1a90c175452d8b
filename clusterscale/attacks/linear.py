"""L2 logistic regression and recursive feature elimination, on the Gram matrix of the rows.

The optimum of a ridge-like model is in the span of the rows, and so is every step of the
trust-region Newton method that finds it. A vector of that span is Xᵀa with one coefficient per row;
its product with the rows is Ka and inner products are aᵀKb, where K = XXᵀ. The whole method runs on
K (rows × rows); features are used only to form K and to compute the weights from the solution.
The steps are those of liblinear's solver (Lin, Weng and Keerthi 2008, "Trust region Newton method
for logistic regression"; Fan et al. 2008), with its constants and stopping rule, so the model is
the same as scikit-learn's up to rounding. liblinear itself, on a Cholesky factor of K, takes 5 to
10 times as long for 400 rows, most of it in its loops over sparse rows.
"""

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import Floats, Labels
from clusterscale.jit import kernel


def fit_logistic(inputs: Floats, labels: Labels, *, cost: float = 1.0) -> tuple[Floats, float]:
    """Return weights, shape (feature,), and intercept of scikit-learn's liblinear regression.

    ``inputs`` are float64, shape (row, feature), unscaled as in the papers; ``labels`` bool,
    shape (row,); ``cost`` is the weight C of the loss against the penalty.
    """
    duals = solve(inputs @ inputs.T, labels, cost=cost)
    return inputs.T @ duals, float(duals.sum())


def eliminate(inputs: Floats, labels: Labels, *, n_keep: int, step: float) -> NDArray[np.int64]:
    """Return the features, increasing, that recursive elimination keeps (Guyon et al. 2002).

    Each round drops ``step`` times the number of all features, at least one, those of smallest
    squared weight, as scikit-learn's ``RFE`` with liblinear does, up to rounding; all are kept
    if there are no more than ``n_keep``. ``inputs`` and ``labels`` are those of
    :func:`fit_logistic`.
    """
    kept = np.arange(inputs.shape[1])
    n_step = max(1, int(step * len(kept)))
    while len(kept) > n_keep:
        weights, _ = fit_logistic(inputs, labels)
        n_drop = min(n_step, len(kept) - n_keep)
        chosen = np.sort(np.argsort(weights**2)[n_drop:])
        kept, inputs = kept[chosen], inputs[:, chosen]
    return kept


def solve(products: Floats, labels: Labels, *, cost: float = 1.0) -> Floats:
    """Return coefficients a, shape (row,): Xᵀa are the weights, and the sum of a the intercept.

    Minimises ½‖w‖² + ½b² + C·Σ log(1 + exp(−y(wᵀx + b))) as liblinear does, which treats the
    intercept as the weight of a feature that is always 1. ``products``, float64, shape (row,
    row), are the inner products of the rows, ``labels`` bool, shape (row,), and ``cost`` is C.
    """
    signs = np.where(labels, 1.0, -1.0)
    rarer = min(labels.sum(), len(labels) - labels.sum())
    tolerance = 1e-4 * max(rarer, 1) / len(labels)  # scikit-learn's tol
    # 100: scikit-learn's max_iter
    return np.asarray(_newton(products + 1.0, signs, cost, tolerance, 100))


@kernel
def _newton(products: Floats, signs: Floats, cost: float, tolerance: float, n_steps: int) -> Floats:
    """Trust-region Newton; a vector is stored as row coefficients and their image under K."""
    point, image = np.zeros_like(signs), np.zeros_like(signs)
    loss = _loss(0.0, image, signs, cost)
    slope, curve = _derivatives(point, image, signs, cost)
    slope_image = products @ slope
    first = size = _length(slope, slope_image)
    radius = size
    taken = 0
    while taken < n_steps and size > tolerance * first:
        step, step_image, residual_image = _step(products, slope, slope_image, curve, radius)
        along = np.dot(step, slope_image)
        predicted = -0.5 * (along - np.dot(step, residual_image))
        length = _length(step, step_image)
        trial, trial_image = point + step, image + step_image
        new_loss = _loss(np.dot(trial, trial_image), trial_image, signs, cost)
        actual = loss - new_loss
        if taken == 0:
            radius = min(radius, length)
        radius = _resize(radius, length, along, actual, predicted)
        if actual > 1e-4 * predicted:
            taken += 1
            point, image, loss = trial, trial_image, new_loss
            slope, curve = _derivatives(point, image, signs, cost)
            slope_image = products @ slope
            size = _length(slope, slope_image)
        elif max(abs(actual), abs(predicted)) <= 1e-12 * abs(loss):
            break
    return point


@kernel
def _loss(penalty: float, image: Floats, signs: Floats, cost: float) -> float:
    total = 0.0
    for margin in signs * image:
        if margin >= 0:
            total += np.log1p(np.exp(-margin))
        else:
            total += np.log1p(np.exp(margin)) - margin
    return 0.5 * penalty + cost * total


@kernel
def _derivatives(point: Floats, image: Floats, signs: Floats, cost: float) -> tuple[Floats, Floats]:
    """Return the gradient's row coefficients, and the second derivative of the loss per row."""
    right = 1.0 / (1.0 + np.exp(-signs * image))
    return point + cost * (right - 1.0) * signs, cost * right * (1.0 - right)


@kernel
def _step(
    products: Floats, slope: Floats, slope_image: Floats, curve: Floats, radius: float
) -> tuple[Floats, Floats, Floats]:
    """Return the step, its image and that of the residual, by conjugate gradients."""
    step, step_image = np.zeros_like(slope), np.zeros_like(slope)
    residual, residual_image = -slope, -slope_image
    direction, direction_image = residual.copy(), residual_image.copy()
    left = np.dot(residual, residual_image)
    enough = 0.01 * left
    for _ in range(2 * len(slope)):
        if left <= enough:
            break
        curved = direction + curve * direction_image
        curved_image = products @ curved
        alpha = left / np.dot(direction, curved_image)
        step = step + alpha * direction
        step_image = step_image + alpha * direction_image
        if np.dot(step, step_image) > radius * radius:
            step = step - alpha * direction
            step_image = step_image - alpha * direction_image
            across, inner = np.dot(step, direction_image), np.dot(step, step_image)
            outer, room = np.dot(direction, direction_image), radius * radius - inner
            root = np.sqrt(max(across * across + outer * room, 0.0))
            alpha = room / (across + root) if across >= 0 else (root - across) / outer
            step = step + alpha * direction
            step_image = step_image + alpha * direction_image
            residual_image = residual_image - alpha * curved_image
            break
        residual = residual - alpha * curved
        residual_image = residual_image - alpha * curved_image
        now = np.dot(residual, residual_image)
        direction = residual + (now / left) * direction
        direction_image = residual_image + (now / left) * direction_image
        left = now
    return step, step_image, residual_image


@kernel
def _resize(radius: float, length: float, along: float, actual: float, predicted: float) -> float:
    """Return the new trust-region radius, from the actual and the predicted decrease."""
    over = -actual - along
    reach = 4.0 if over <= 0 else max(0.25, -0.5 * along / over)
    if actual < 1e-4 * predicted:
        return min(max(reach, 0.25) * length, 0.5 * radius)
    if actual < 0.25 * predicted:
        return max(0.25 * radius, min(reach * length, 0.5 * radius))
    if actual < 0.75 * predicted:
        return max(0.25 * radius, min(reach * length, 4.0 * radius))
    return max(radius, min(reach * length, 4.0 * radius))


@kernel
def _length(numbers: Floats, image: Floats) -> float:
    return float(np.sqrt(max(np.dot(numbers, image), 0.0)))
