"""Characteristics that separate the most from the least exposed (POMACS20 §3.2, §3.3, tables 2, 3).

scikit-learn is imported only where models are trained, since every process imports this module.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.attacks.blocked_linalg import Rows, blocks, centre, gram
from clusterscale.attacks.linear import solve
from clusterscale.contracts import Ints, Labels, Values
from clusterscale.errors import InputError

LEAST = 2
"""Minimal number of users in each group."""

MOST = 2000
"""Maximal number of users per group that models are trained on; larger groups are sampled."""


_LEAST = 1e-10  # of the largest component's variance: smaller ones are rounding errors


def loading(rows: Rows, labels: Labels, *, components: int = 5) -> Values:
    """Return the correlation of each cell with the decisive components (POMACS20 §3.1, Figs 2, 3).

    A logistic regression (liblinear, C = 1) is trained on the principal components of the releases,
    as in the attack ``spectral``. For the components with the largest absolute weights, the
    absolute Pearson correlation with the values of each cell is computed over the releases. This
    needs only the inner products of the releases and one pass over them.

    Parameters
    ----------
    rows
        Real, shape (group, cell): releases to train on.
    labels
        Bool, shape (group,): whether the target is a member.
    components
        Number of components to use, at most all. The paper takes 2 (TFL) and 5 (SFC).

    Returns
    -------
    float64, shape (cell,)
        Mean over these components, from 0 to 1; 0 for cells with the same value in all groups.

    Raises
    ------
    InputError
        If the number of labels is not that of the releases, or all labels are equal.
    """
    if rows.ndim != 2 or labels.shape != (len(rows),):
        raise InputError(f"{rows.shape} releases and {labels.shape} labels: give one for each row")
    if labels.all() or not labels.any():
        raise InputError("the labels are all equal: give releases with and without the target")
    scores = _decisive(rows, labels, components)
    total = np.zeros(rows.shape[1])
    for columns, block in blocks(rows):
        total[columns] = _correlate(scores, block)
    return np.asarray(total / max(1, scores.shape[1]))


def _decisive(rows: Rows, labels: Labels, components: int) -> Values:
    """Return the standardised scores of the decisive components, shape (group, component)."""
    centred = centre(gram(rows))
    size, vectors = np.linalg.eigh((centred + centred.T) / 2)
    real = size > _LEAST * max(size[-1], 0.0)
    size, vectors = size[real], vectors[:, real]
    duals = solve((vectors * size) @ vectors.T, labels)
    weights = np.abs(np.sqrt(size) * (vectors.T @ duals))
    chosen = vectors[:, np.argsort(-weights, kind="stable")[:components]]
    chosen = chosen - chosen.mean(axis=0)
    return np.asarray(chosen / np.linalg.norm(chosen, axis=0))


def _correlate(scores: Values, block: NDArray[np.float64]) -> Values:
    """Return the sum over components of absolute correlations, shape (cell,)."""
    varied = block.min(axis=0) < block.max(axis=0)
    deviations = block - block.mean(axis=0)
    norm = np.where(varied, np.linalg.norm(deviations, axis=0), 1.0)
    return np.asarray(np.abs(scores.T @ deviations).sum(axis=0) / norm * varied)


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """How the most exposed users, the top, differ from the least exposed, the bottom.

    Arrays are float64, shape (characteristic,); ``TRAITS`` describes all.

    Attributes
    ----------
    top_mean, top_sd, bottom_mean, bottom_sd
        Mean and standard deviation of each group.
    forest_importance, forest_accuracy
        Importance in a random forest, and the share of users that it classifies correctly.
    logistic_coefficient
        Weight in a logistic regression on standard scores; positive: exposed.
    separation
        Probability that one of the top has more than one of the bottom.
    """

    top_mean: Values
    top_sd: Values
    bottom_mean: Values
    bottom_sd: Values
    forest_importance: Values
    forest_accuracy: float
    logistic_coefficient: Values
    separation: Values


def extreme_groups(
    auc: ArrayLike, share: float, second: ArrayLike | None = None
) -> tuple[Ints, Ints]:
    """Return the most and the least exposed users, in groups of equal size.

    Parameters
    ----------
    auc
        Float, shape (user,): AUC of each user.
    share
        Share of the users in each group, above 0 and at most ½; rounded up, at most half.
    second
        Float, shape (user,): breaks ties of ``auc``, which are frequent if an attack reaches 1.
        Users equal in both are ordered by index.

    Returns
    -------
    int64, shape (side,), twice
        Indices into ``auc``: the most exposed first, and the least exposed last.

    Raises
    ------
    InputError
        If a group would have fewer than two users, or a value is not finite.
    """
    exposure = np.asarray(auc, np.float64)
    tie_break = np.zeros_like(exposure) if second is None else np.asarray(second, np.float64)
    for values in (exposure, tie_break):
        if values.shape != exposure.shape or values.ndim != 1 or not np.isfinite(values).all():
            raise InputError("auc and second must be one finite number for each user")
    if not 0 < share <= 0.5:
        raise InputError(f"share must be above 0 and at most 0.5, not {share}")
    size = min(int(np.ceil(share * len(exposure) - 1e-9)), len(exposure) // 2)
    if size < LEAST:
        raise InputError(
            f"a share of {share:g} of {len(exposure)} users is {size}: each group needs at least "
            f"{LEAST}"
        )
    order = np.lexsort((np.arange(len(exposure)), -tie_break, -exposure))
    return order[:size], order[-size:]


def importance(
    top: ArrayLike, bottom: ArrayLike, *, trees: int = 500, rng: np.random.Generator
) -> Importance:
    """Return how well each characteristic separates two groups of users.

    Parameters
    ----------
    top, bottom
        Float, shape (user, characteristic): characteristics of the most and the least exposed.
    trees
        Trees of the random forest, whose accuracy is out-of-bag.
    rng
        Seeds the forest, and draws the users to train on if a group has more than :data:`MOST`.

    Returns
    -------
    Importance
        Gini importances of the forest, which sum to 1, or are all 0 if no characteristic differs;
        weights of an L2 logistic regression (liblinear, C = 1) on standard scores, positive where
        the most exposed have more; the probability that a user of the top has more than one of the
        bottom, ties counting ½ (Mann and Whitney). Constant characteristics have no importance and
        no weight.

    Raises
    ------
    InputError
        If the numbers of characteristics differ, or a group has fewer than two users.
    """
    high, low = (np.asarray(values, np.float64) for values in (top, bottom))
    if high.ndim != 2 or low.ndim != 2 or high.shape[1] != low.shape[1]:
        raise InputError(
            f"characteristics must be (user, characteristic), not {high.shape} and {low.shape}"
        )
    if min(len(high), len(low)) < LEAST:
        raise InputError(f"{len(high)} users against {len(low)}: at least {LEAST} are needed")
    drawn = [_draw(values, rng) for values in (high, low)]
    inputs, labels = np.concatenate(drawn), np.repeat([True, False], list(map(len, drawn)))
    shares, accuracy = _grow(inputs, labels, trees, int(rng.integers(1 << 32)))
    wins = scipy.stats.mannwhitneyu(high, low, method="asymptotic").statistic
    return Importance(
        top_mean=high.mean(axis=0),
        top_sd=high.std(axis=0),
        bottom_mean=low.mean(axis=0),
        bottom_sd=low.std(axis=0),
        forest_importance=shares,
        forest_accuracy=accuracy,
        logistic_coefficient=_regress(inputs, labels),
        separation=np.asarray(wins / (len(high) * len(low))),
    )


def _draw(rows: Values, rng: np.random.Generator) -> Values:
    if len(rows) <= MOST:
        return rows
    return rows[np.sort(rng.choice(len(rows), MOST, replace=False))]


def _grow(inputs: Values, labels: Labels, trees: int, seed: int) -> tuple[Values, float]:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(trees, oob_score=True, random_state=seed)
    forest.fit(inputs, labels)
    return np.asarray(forest.feature_importances_, np.float64), float(forest.oob_score_)


def _regress(inputs: Values, labels: Labels) -> Values:
    from sklearn.linear_model import LogisticRegression

    spread = inputs.std(axis=0)
    constant = inputs.min(axis=0) == inputs.max(axis=0)
    scores = (inputs - inputs.mean(axis=0)) / np.where(constant, 1.0, spread)
    scores[:, constant] = 0.0
    model = LogisticRegression(solver="liblinear", random_state=0).fit(scores, labels)
    return np.asarray(model.coef_[0], np.float64)
