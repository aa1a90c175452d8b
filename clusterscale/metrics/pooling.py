"""Metrics pooled over many targets with few rows each.

Scores of different targets are on different scales, so one threshold for all of them is
meaningless. Each target's scores are first converted to conformal p-values by its own rows without
the target, and only the counts of these are pooled.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from clusterscale.contracts import Floats, Scores
from clusterscale.errors import InputError
from clusterscale.metrics.clopper_pearson import ThresholdCounts, bound, check_rate
from clusterscale.metrics.roc import check_scores, resolvable_fpr

N_PVALUE_BINS = 25
"""Bins of a p-value, .04 wide."""

Counted = NDArray[np.int64]


Cells = NDArray[np.bool_]

_RISK = 0.01


def off_cells(*controls: Floats) -> list[Cells]:
    """Return the cells where controls differ from .5 by more than sampling error, bool, shape (…).

    ``controls`` are the AUCs of each, shape (…, target), NaN where not known. Two-sided t-tests
    over the targets of each cell, at a total risk of 1 in 100 for all cells of all controls
    (Bonferroni); cells with fewer than two known targets are not tested.
    """
    n_cells = sum(int(is_testable(values).sum()) for values in controls)
    level = _RISK / max(1, n_cells) / 2
    return [np.abs(_excess(values)) > _critical_distance(values, level) for values in controls]


def weak_cells(auc: Floats, naive: Floats) -> Cells:
    """Return the cells where a plain sum beats chance and the attack does no better, bool, (…).

    ``auc`` and ``naive`` are those of the attack and of the sum of all values, shape (…,
    target), NaN where not known. Where even the sum is at chance, an attack at chance is no
    sign of weakness: there may be nothing to find. One-sided t-tests, at a total risk of 1 in
    100, test whether the sum beats chance.
    """
    level = _RISK / max(1, int(is_testable(naive).sum()))
    beats_chance = _excess(naive) > _critical_distance(naive, level)
    return np.asarray(beats_chance & (_means(auc - naive) <= 1e-9))


def is_testable(values: Floats) -> Cells:
    """Return which cells, of values (…, target), have the two known targets that a test needs."""
    return np.asarray(np.isfinite(values).sum(axis=-1) >= 2)


def _means(values: Floats) -> Floats:
    """Return means over known targets, shape (…), NaN where there are none."""
    known = np.isfinite(values)
    n = known.sum(axis=-1)
    return np.where(n > 0, np.where(known, values, 0.0).sum(axis=-1) / np.maximum(n, 1), np.nan)


def _excess(values: Floats) -> Floats:
    return np.asarray(_means(values) - 0.5)


def _critical_distance(values: Floats, level: float) -> Floats:
    """Return the critical distance of means from chance at one-sided ``level``; NaN if untested."""
    n = np.isfinite(values).sum(axis=-1)
    freedom = np.maximum(n - 1, 1)
    deviation = values - _means(values)[..., None]
    squares = np.where(np.isfinite(deviation), deviation, 0.0) ** 2
    variance = squares.sum(axis=-1) / freedom
    distance = np.sqrt(variance / np.maximum(n, 1)) * scipy.stats.t.isf(level, freedom)
    # tolerance, so that rounding does not fail a control that is .5 for every target
    return np.where(n >= 2, distance + 1e-9, np.nan)


def calibrated_counts(
    labels: ArrayLike, scores: ArrayLike, *, levels: int = N_PVALUE_BINS
) -> tuple[Counted, Counted]:
    """Count one target's rows by conformal p-value among its rows without the target.

    Of the rows without the target, 0, 2, 4, … calibrate. All others get the conformal p-value
    (1 + #{calibrating scores ≥ score})/(n_calibrating + 1) (Vovk, Gammerman and Shafer 2005,
    ch. 2). A row without the target that is exchangeable with those has p ≤ u with a
    probability of at most u, whatever the scores are and however they are tied.

    Both results are int64, shape (level,): rows with the target, and rows without it that did
    not calibrate. Level i counts i/levels < p ≤ (i + 1)/levels, so level 0 is the most like
    *inside*. With fewer than ``levels`` possible p-values, some levels are always empty.
    ``labels`` and ``scores`` are those of :func:`auc`. Raises its errors, and InputError if
    there are fewer than 2 rows without the target, or ``levels`` is below 2.
    """
    truth, values = check_scores(labels, scores)
    outside = values[~truth]
    if outside.size < 2:
        raise InputError(
            f"{outside.size} row without the target: 2 are needed, "
            "one to calibrate and one to count"
        )
    if levels < 2:
        raise InputError(f"levels must be at least 2, not {levels}")
    calibrating = np.sort(outside[::2])
    inside_counts, outside_counts = (
        np.bincount(_level(calibrating, counted, levels), minlength=levels).astype(np.int64)
        for counted in (values[truth], outside[1::2])
    )
    return inside_counts, outside_counts


def _level(calibrating: Scores, scores: Scores, levels: int) -> NDArray[np.intp]:
    # In integers, so that a p-value on an edge is never rounded across it.
    rank = 1 + calibrating.size - np.searchsorted(calibrating, scores, side="left")
    return np.asarray((rank * levels - 1) // (calibrating.size + 1))


def pooled_epsilon_lower_bound(
    inside: ArrayLike,
    outside: ArrayLike,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    tries: int = 1,
) -> float:
    """Return a lower confidence bound on ε, from calibrated counts of many targets.

    As :func:`epsilon_lower_bound`, but targets 0, 2, 4, … choose the level, the side and the
    statement, and targets 1, 3, 5, … judge that choice by their summed counts.

    Once a target's calibrating rows are drawn, a level is a threshold on its scores, so each of
    its rows hits with a probability that is the same for its class, and (ε, δ)-privacy holds
    between the two. These probabilities differ between targets, and a sum of unequal Bernoulli
    variables is not binomial. It is less dispersed: beyond a distance of 1 from its mean, each
    tail is at most that of the binomial variable with the same mean (Hoeffding 1956, theorem
    4), so the Clopper–Pearson limits hold for the mean probability. The mean over rows with the
    target and that over rows without satisfy (ε, δ) if both weight targets equally, so every
    target must have the two kinds of rows in the same proportion.

    ``inside`` and ``outside``, int, shape (target, level), count rows with the target and
    without, see :func:`calibrated_counts`. Rows must be independent, given the target. A target
    without any row, such as a failed one, is ignored. The bound is at least 0 and at most the
    :func:`largest_bound` of twice the rows of targets 1, 3, 5, …. Raises InputError if shapes
    differ; if a count is negative or not an integer; if the targets that choose or those that
    judge have no rows of a class; if the proportion of the classes is not the same for all
    targets; or if an option is out of range.
    """
    counts_in, counts_out = _check_counts(inside, outside)
    _check_proportion(counts_in.sum(axis=1), counts_out.sum(axis=1))
    choosing, judging = (_tally(counts_in[half::2], counts_out[half::2]) for half in (0, 1))
    for tally, purpose, first in ((choosing, "choose", 0), (judging, "judge", 1)):
        if not tally.n_inside * tally.n_outside:
            raise InputError(
                f"targets {first}, {first + 2}, {first + 4}, … {purpose}: they have "
                f"{tally.n_inside} rows with the target and {tally.n_outside} without, "
                "and some of each are needed"
            )
    return bound(choosing, judging, delta, confidence, tries)


def _tally(inside: Counted, outside: Counted) -> ThresholdCounts:
    """Sum over targets, and cumulate over levels without the last, which has every row."""
    per_level = inside.sum(axis=0), outside.sum(axis=0)
    hits = [np.cumsum(counts)[:-1] for counts in per_level]
    return ThresholdCounts(hits[0], int(per_level[0].sum()), hits[1], int(per_level[1].sum()))


def pooled_tpr_at_fpr(inside: ArrayLike, outside: ArrayLike, fpr: float) -> float:
    """Return the share of rows with the target that are detected at a false positive rate.

    A row is called *inside* if its p-value is at or below the last level edge that is not above
    ``fpr``. By calibration the false positive rate is then at most ``fpr`` on average over
    targets, whatever their scales; no threshold is fitted to the rows that are counted.
    ``inside`` and ``outside`` are those of :func:`pooled_epsilon_lower_bound`. NaN where
    ``fpr`` is below :func:`pooled_resolvable_fpr`, including 0, because no p-value is 0. Raises
    InputError if shapes differ, a count is negative or not an integer, a class has no rows, or
    ``fpr`` is not between 0 and 1.
    """
    check_rate(fpr)
    per_level, _ = _totals(inside, outside)
    if fpr < pooled_resolvable_fpr(inside, outside):
        return float("nan")
    edges = np.arange(1, per_level.size + 1) / per_level.size
    return float(per_level[edges <= fpr].sum() / per_level.sum())


def pooled_resolvable_fpr(inside: ArrayLike, outside: ArrayLike) -> float:
    """Return the smallest false positive rate that pooled counts can show.

    It is the larger of 1/n_outside and the upper edge of the first level with a row. Three
    things limit it. Levels are 1/n_levels wide. With n calibrating rows per target no p-value
    is below 1/(n + 1), and tied scores give fewer p-values: the first threshold is the end of
    the first level with any row. And a rate below 1/n_outside, one row without the target,
    cannot be checked. ``inside`` and ``outside`` are those of
    :func:`pooled_epsilon_lower_bound`. Raises InputError if shapes differ, a count is negative
    or not an integer, or a class has no rows.
    """
    counts_in, counts_out = _totals(inside, outside)
    first = int(np.flatnonzero(counts_in + counts_out)[0])
    return max(resolvable_fpr(int(counts_out.sum())), (first + 1) / counts_in.size)


def _totals(inside: ArrayLike, outside: ArrayLike) -> tuple[Counted, Counted]:
    """Return the counts of each level over all targets."""
    counts_in, counts_out = (counts.sum(axis=0) for counts in _check_counts(inside, outside))
    if not (counts_in.any() and counts_out.any()):
        raise InputError("both classes are needed: some rows with the target, some without")
    return counts_in, counts_out


def _check_counts(inside: ArrayLike, outside: ArrayLike) -> tuple[Counted, Counted]:
    arrays = np.asarray(inside), np.asarray(outside)
    if arrays[0].ndim != 2 or arrays[0].shape != arrays[1].shape:
        raise InputError(
            f"counts inside {arrays[0].shape} and outside {arrays[1].shape} "
            "must both be (target, level)"
        )
    for counts in arrays:
        if counts.dtype.kind not in "iu":
            raise InputError(f"counts are {counts.dtype}, not integers")
        if (counts < 0).any():
            raise InputError(f"counts must be at least 0, not {counts.min()}")
    return arrays[0].astype(np.int64), arrays[1].astype(np.int64)


def _check_proportion(n_inside: Counted, n_outside: Counted) -> None:
    # Cross-multiplied, because a division would round.
    uneven = n_inside * n_outside.sum() != n_outside * n_inside.sum()
    if uneven.any():
        target = int(uneven.argmax())
        raise InputError(
            f"target {target} has {n_inside[target]} rows with it and {n_outside[target]} without, "
            f"all targets {n_inside.sum()} and {n_outside.sum()}: every target needs "
            "the same proportion, or a common threshold compares different targets"
        )
