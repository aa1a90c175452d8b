"""What tells the most exposed from the least exposed (POMACS20 §3.2, §3.3, tables 2 and 3).

scikit-learn is imported where it trains: every process that reads a plan comes by here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from clusterscale.contracts import Ints, Labels, Values
from clusterscale.errors import InputError

__all__ = ["LEAST", "MOST", "Importance", "extreme_groups", "importance"]

LEAST = 2
"""Fewer users a side are not compared."""

MOST = 2000
"""Users a side that models are trained on; of more, so many are drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Importance:
    """How two groups of users differ; see :data:`clusterscale.schema.TRAITS`.

    Arrays are float64, shape (characteristic,).
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
    """Return who is most exposed and who is least, as many of either.

    Parameters
    ----------
    auc
        Float, shape (user,): how well each is told.
    share
        Of the users on each side, above 0 and at most ½; rounded up, and no more than half.
    second
        Float, shape (user,): who counts as more exposed among equals, of whom there are many where
        an attack reaches 1. Among equals in this too, the one that comes first.

    Returns
    -------
    int64, shape (side,), twice
        Places in ``auc``: the most exposed first, and the least exposed last.

    Raises
    ------
    InputError
        If fewer than two would be on a side, or one of the numbers is none.
    """
    exposure = np.asarray(auc, np.float64)
    among = np.zeros_like(exposure) if second is None else np.asarray(second, np.float64)
    for each in (exposure, among):
        if each.shape != exposure.shape or each.ndim != 1 or not np.isfinite(each).all():
            raise InputError("exposure is a number for each user, and this is not")
    if not 0 < share <= 0.5:
        raise InputError(f"a share of users on a side is above 0 and at most 0.5, not {share}")
    size = min(int(np.ceil(share * len(exposure) - 1e-9)), len(exposure) // 2)
    if size < LEAST:
        raise InputError(
            f"{len(exposure)} users make {size} on a side, of a share of {share:g}: at least "
            f"{LEAST} are needed on either"
        )
    order = np.lexsort((np.arange(len(exposure)), -among, -exposure))
    return order[:size], order[-size:]


def importance(
    top: ArrayLike, bottom: ArrayLike, *, trees: int = 500, rng: np.random.Generator
) -> Importance:
    """Return what separates two groups of users.

    Parameters
    ----------
    top, bottom
        Float, shape (user, characteristic): of the most exposed, and of the least exposed.
    trees
        Of the random forest, whose accuracy is told on users that a tree did not see.
    rng
        Seeds the forest, and draws on whom models are trained where a side has more than
        :data:`MOST`.

    Returns
    -------
    Importance
        Importances of the forest (Gini), which sum to 1, or are all 0 where no characteristic
        differs; weights of an L2 logistic regression (liblinear, C = 1) on standard scores,
        positive for what the exposed have more of; the chance that one of the top has more than
        one of the bottom, ties counting ½ (Mann and Whitney). What is the same for everybody has
        no importance and no weight.

    Raises
    ------
    InputError
        If the shapes differ but for the number of users, or fewer than two are on a side.
    """
    high, low = (np.asarray(each, np.float64) for each in (top, bottom))
    if high.ndim != 2 or low.ndim != 2 or high.shape[1] != low.shape[1]:
        raise InputError(f"characteristics are (user, characteristic): {high.shape}, {low.shape}")
    if min(len(high), len(low)) < LEAST:
        raise InputError(f"{len(high)} users against {len(low)}: at least {LEAST} are needed")
    drawn = [_draw(each, rng) for each in (high, low)]
    inputs, labels = np.concatenate(drawn), np.repeat([True, False], list(map(len, drawn)))
    shares, accuracy = _grow(inputs, labels, trees, int(rng.integers(1 << 32)))
    return Importance(
        top_mean=high.mean(axis=0),
        top_sd=high.std(axis=0),
        bottom_mean=low.mean(axis=0),
        bottom_sd=low.std(axis=0),
        forest_importance=shares,
        forest_accuracy=accuracy,
        logistic_coefficient=_regress(inputs, labels),
        separation=_separate(high, low),
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


def _separate(high: Values, low: Values) -> Values:
    ranks = scipy.stats.rankdata(np.concatenate([high, low]), axis=0)[: len(high)].sum(axis=0)
    separation: Values = (ranks - len(high) * (len(high) + 1) / 2) / (len(high) * len(low))
    return separation
