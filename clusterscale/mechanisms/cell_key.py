"""The cell-key method: the same people in a cell always get the same perturbation."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, Strict, model_validator

from clusterscale.contracts import (
    CellChange,
    Counts,
    NoiseScope,
    Positive,
    Support,
    UsualSettings,
    Values,
)
from clusterscale.errors import InputError
from clusterscale.mechanisms.base import BaseMechanism, Stage
from clusterscale.mechanisms.law import FiniteDistribution, Law
from clusterscale.validation_messages import exact_number

_DIGITS = 9  # of probabilities, so that all machines draw alike
_SURE = 1e-5  # tolerance of mean and variance, in visits and visits squared


class CellKey(BaseMechanism):
    """Add small whole numbers that depend on who is in a cell (ABS; Eurostat's census).

    Each person has a random record key in [0, 1); the fractional part of the sum of the keys of
    those in a cell is the cell's key. Key and count give the perturbation, from a table of
    probabilities with mean 0 (Fraser and Wooton 2005; Giessing 2016). Zeros stay, no value is
    negative. The same people get the same perturbation in every table, so averaging over tables
    does not remove it, and the difference of two tables has noise.

    The audit draws the key of each cell independently. This is exact for cells with different
    people in them. Where the same people are alone in a place at several times, the published
    perturbation repeats: an attack could notice that, but not average it away.

    Attributes
    ----------
    deviation
        Largest perturbation, in visits, e.g. ``5``.
    variance
        Largest variance of the perturbation, in visits squared, e.g. ``3.0``.
    blocked
        Counts from 1 to this are never published, in visits, e.g. ``2``; by default all can be.
    """

    name: Literal["cell_key"] = "cell_key"
    publish_refusal = (
        "the record keys of people are not kept from one release to the next, so its perturbations "
        "could be averaged away: use round_to_base, or laplace with discrete: true"
    )
    usual = (UsualSettings({"deviation": 5}, {"variance": (1.0, 2.0, 3.0)}, rank=3),)
    deviation: Annotated[int, Strict(), Field(ge=1, le=50)]
    variance: Positive
    blocked: Annotated[int, Strict(), Field(ge=0, le=50)] = 0

    stage: ClassVar[Stage] = "noise"
    noise_scope: ClassVar[NoiseScope] = "cell"
    whole_output: ClassVar[bool] = True
    no_guarantee = "a perturbation is bounded: counts further away than it are excluded"

    @model_validator(mode="after")
    def _has_table(self) -> Self:
        if self.deviation <= self.blocked:
            raise ValueError(
                f"deviation must be above blocked, {self.blocked}: else the count of "
                f"{self.blocked + 1} would be published unchanged"
            )
        try:
            perturbation_table(self.deviation, self.variance, self.blocked)
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def phrase(self) -> str:
        """Short description for display."""
        blocked = f", never 1 to {self.blocked}" if self.blocked else ""
        return (
            f"cell keys, at most ±{self.deviation}, variance {exact_number(self.variance)}{blocked}"
        )

    def law(self, group_size: int) -> Law:
        """Return the output distribution of a count."""
        return FiniteDistribution(self._outcomes)

    def cell_change(self, group_size: int) -> CellChange:
        """Return no bound: who knows the keys of all others knows the perturbation without one."""
        return CellChange()

    def support(self, before: Support, group_size: int) -> Support:
        """Return the whole numbers from 0 that are close enough to ``before``."""
        return Support(max(0.0, before.low - self.deviation), before.high + self.deviation, 1.0)

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return perturbed counts, float64, the same shape (…, roi, epoch).

        Raises InputError if ``counts`` are not those of ``group_size`` members.
        """
        self._check_counts(counts, group_size)
        return self.perturb(counts, rng.random(counts.shape))

    def perturb(self, counts: NDArray[Any], keys: Values) -> Values:
        """Return the perturbed counts, float64, for the keys of the cells, of the same shape.

        ``counts`` are whole numbers of at least 0, ``keys`` the fractional parts of the
        sums of record keys, in [0, 1). The perturbation is the smallest one up to which the
        probabilities exceed the key.
        """
        sums = np.cumsum(perturbation_table(self.deviation, self.variance, self.blocked), axis=1)
        sums[:, -1] = 1.0
        rows = sums[self._rows(counts)]
        n_below = (np.asarray(keys)[..., None] >= rows).sum(axis=-1)
        return np.asarray(counts + n_below - self.deviation, np.float64)

    def _outcomes(self, counts: NDArray[Any]) -> tuple[Values, Values]:
        table = perturbation_table(self.deviation, self.variance, self.blocked)
        values = counts[..., None] + np.arange(-self.deviation, self.deviation + 1.0)
        return values, table[self._rows(counts)]

    def _rows(self, counts: NDArray[Any]) -> NDArray[np.int64]:
        most = self.deviation + self.blocked + 1
        return np.asarray(np.minimum(counts, most), np.int64)


@lru_cache(maxsize=64)
def perturbation_table(deviation: int, variance: float, blocked: int = 0) -> Values:
    """Return the probabilities of perturbations that have the largest entropy.

    float64, shape (count, perturbation): counts from 0, the last for all larger ones;
    perturbations from −``deviation`` to ``deviation`` visits; rows sum to 1. Their mean is 0,
    their variance at most ``variance`` visits squared; no published value is negative or from 1
    to ``blocked``; below the count, probabilities do not decrease towards it (Giessing 2016, as
    in the R package ptable). Zero stays zero. Raises InputError if no probabilities are
    possible, such as where the variance is too small.
    """
    steps = np.arange(-deviation, deviation + 1)
    table = np.zeros((deviation + blocked + 2, len(steps)))
    table[0, deviation] = 1.0
    for count in range(1, len(table)):
        target = count + steps
        allowed = (target >= 0) & ~((target >= 1) & (target <= blocked))
        found = _largest_entropy(steps[allowed].astype(float), variance, count > blocked)
        if found is None:
            raise InputError(
                f"no perturbation of a count of {count} has mean 0, at most ±{deviation} and "
                f"variance {variance:g}: choose a larger deviation or variance"
            )
        table[count, allowed] = found
    return table


def _largest_entropy(steps: Values, variance: float, ordered: bool) -> Values | None:
    """Return the probabilities of ``steps``, (step,), or None if there are none.

    They are exponential in the multipliers of the constraints, which minimise a convex function.
    """
    largest = np.abs(steps).max()
    rows = [steps / largest, (steps**2 - variance) / largest**2]
    if ordered:  # below the count: each probability is at most the next
        rows += list(np.eye(len(steps)) - np.eye(len(steps), k=1))[: int((steps < 0).sum())]
    features = np.array(rows)

    def dual(multipliers: Values) -> tuple[float, Values]:
        exponents = -multipliers @ features
        probabilities = np.asarray(scipy.special.softmax(exponents))
        return float(scipy.special.logsumexp(exponents)), -features @ probabilities

    bounds = [(None, None), *[(0.0, None)] * (len(features) - 1)]
    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 0.0, "gtol": 1e-12, "maxcor": 50}
    found = scipy.optimize.minimize(
        dual, np.zeros(len(features)), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    probabilities = np.round(scipy.special.softmax(-found.x @ features), _DIGITS)
    probabilities[np.argmax(probabilities)] += 1 - probabilities.sum()
    mean, spread = probabilities @ steps, probabilities @ steps**2
    return probabilities if abs(mean) < _SURE and spread < variance + _SURE else None
