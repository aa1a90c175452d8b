"""The cell-key method: the same people in a cell always get the same perturbation."""

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
    Values,
    hash_of,
)
from clusterscale.errors import InputError
from clusterscale.mechanisms.base import BaseMechanism, Stage
from clusterscale.mechanisms.law import FiniteDistribution, Law
from clusterscale.validation_messages import exact_number

_SURE = 1e-5  # tolerance of mean and variance, in visits and visits squared
_WRITTEN = 1e-6  # tolerance of sums of probabilities that are written with eight digits
_MOST = 50  # visits: the largest perturbation


class CellKey(BaseMechanism):
    r"""Add small whole numbers that depend on who is in a cell (ABS; Eurostat's census).

    Each person has a random record key in [0, 1); the fractional part of the sum of the keys of
    those in a cell is the cell's key. Key and count give the perturbation, from a table of
    probabilities with mean 0 (Fraser and Wooton 2005; Giessing 2016). Zeros stay, no value is
    negative. The same people get the same perturbation in every table, so averaging over tables
    does not remove it, and the difference of two tables has noise.

    The audit draws the key of each cell independently. This is exact for cells with different
    people in them. Where the same people are alone in a place at several times, the published
    perturbation repeats: an attack could notice that, but not average it away.

    An office's own ``table`` is the content of a file that the R package ptable exports, not its
    name, so that settings decide results wherever they are read. Its key intervals are not used:
    perturbations are in ascending order of the key.

    Attributes
    ----------
    deviation
        Largest perturbation, in visits, e.g. ``5``; give this and ``variance``, or ``table``.
    variance
        Largest variance of the perturbation, in visits squared, e.g. ``3.0``.
    blocked
        Counts from 1 to this are never published, in visits, e.g. ``2``; by default all can be.
    table
        CSV with the probability ``p`` that a count ``i`` is published as ``j``, both in visits; the
        largest count stands for all above it, e.g. ``"i;j;p\n0;0;1\n1;0;0.5\n1;2;0.5"``.
    """

    name: Literal["cell_key"] = "cell_key"
    publish_refusal = (
        "the record keys of people are not kept from one release to the next, so its perturbations "
        "could be averaged away: use round_to_base, or laplace with discrete: true"
    )
    deviation: Annotated[int, Strict(), Field(ge=1, le=_MOST)] | None = None
    variance: Positive | None = None
    blocked: Annotated[int, Strict(), Field(ge=0, le=_MOST)] = 0
    table: str = ""

    stage: ClassVar[Stage] = "noise"
    noise_scope: ClassVar[NoiseScope] = "cell"
    whole_output: ClassVar[bool] = True
    no_guarantee = "a perturbation is bounded: counts further away than it are excluded"

    @model_validator(mode="after")
    def _has_table(self) -> Self:
        given = sum(field is not None for field in (self.deviation, self.variance))
        if given != (0 if self.table else 2) or (self.table and self.blocked):
            raise ValueError("give deviation and variance, or only table")
        if self.deviation is not None and self.deviation <= self.blocked:
            raise ValueError(
                f"deviation must be above blocked, {self.blocked}: else the count of "
                f"{self.blocked + 1} would be published unchanged"
            )
        try:
            self.probabilities()
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    def probabilities(self) -> Values:
        """Return the probabilities of perturbations, as :func:`perturbation_table` does."""
        if self.deviation is None or self.variance is None:
            return read_perturbations(self.table)
        return perturbation_table(self.deviation, self.variance, self.blocked)

    @property
    def phrase(self) -> str:
        """Short description for display."""
        if self.deviation is not None and self.variance is not None:
            blocked = f", never 1 to {self.blocked}" if self.blocked else ""
            variance = exact_number(self.variance)
            return f"cell keys, at most ±{self.deviation}, variance {variance}{blocked}"
        table, most = self.probabilities(), self._most
        bias = np.abs(table @ np.arange(-most, most + 1)).max()
        biased = f", means of up to {bias:.3g} instead of 0" if bias > _SURE else ""
        return f"cell keys by table {hash_of(self.table)[:8]}, at most ±{most}{biased}"

    @property
    def _label(self) -> str:
        return f"cell_key(table={hash_of(self.table)[:8]})" if self.table else super()._label

    @property
    def _most(self) -> int:
        """The largest perturbation, in visits."""
        return int(self.probabilities().shape[1] // 2)

    def law(self, group_size: int) -> Law:
        """Return the output distribution of a count."""
        return FiniteDistribution(self._outcomes)

    def cell_change(self, group_size: int) -> CellChange:
        """Return no bound: who knows the keys of all others knows the perturbation without one."""
        return CellChange()

    def support(self, before: Support, group_size: int) -> Support:
        """Return the whole numbers from 0 that are close enough to ``before``."""
        return Support(max(0.0, before.low - self._most), before.high + self._most, 1.0)

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
        sums = np.cumsum(self.probabilities(), axis=1)
        sums[:, -1] = 1.0
        rows = sums[_rows(counts, sums)]
        n_below = (np.asarray(keys)[..., None] >= rows).sum(axis=-1)
        return np.asarray(counts + n_below - self._most, np.float64)

    def _outcomes(self, counts: NDArray[Any]) -> tuple[Values, Values]:
        table = self.probabilities()
        values = counts[..., None] + np.arange(-self._most, self._most + 1.0)
        return values, table[_rows(counts, table)]


def _rows(counts: NDArray[Any], table: Values) -> NDArray[np.int64]:
    """Return the row of each count, the last for all larger ones."""
    return np.asarray(np.minimum(counts, len(table) - 1), np.int64)


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


@lru_cache(maxsize=64)
def read_perturbations(text: str) -> Values:
    """Return the probabilities of a perturbation table that an office has written.

    The arrays are those of :func:`perturbation_table`. Raises InputError, which names the line or
    the count, if the columns i, j and p are missing or are not counts and a probability, a count
    from 0 to the largest has no row, probabilities do not add up to 1, a pair is listed twice, zero
    does not stay zero, or nothing is perturbed.
    """
    mark = ";" if ";" in text else ","
    names, *rows = (line.replace('"', "").split(mark) for line in text.strip().split("\n"))
    found: dict[tuple[int, int], float] = {}
    for number, row in enumerate(rows, 2):
        cells = dict(zip((name.strip() for name in names), row, strict=False))
        try:
            i, j, p = int(cells["i"]), int(cells["j"]), float(cells["p"])
        except (KeyError, ValueError):
            i, j, p = -1, -1, -1.0
        if not (i >= 0 and j >= 0 and 0 <= p <= 1) or (i, j) in found:
            raise InputError(f"table: line {number} needs new counts i and j with a probability p")
        found[i, j] = p
    counts = sorted({i for i, _ in found})
    if counts != list(range(len(counts))) or len(counts) < 2:
        raise InputError(
            "table: give the content of a ptable, not its name, with columns i, j and p and rows "
            "for all counts from 0 to the largest"
        )
    most = max((abs(j - i) for (i, j), p in found.items() if p > 0), default=0)
    if not 1 <= most <= _MOST or found.get((0, 0), 0.0) < 1 - _WRITTEN:
        raise InputError(f"table: 0 must stay 0, and changes be from 1 to {_MOST} visits")
    table = np.zeros((len(counts), 2 * most + 1))
    for (i, j), p in found.items():
        if abs(j - i) <= most:
            table[i, j - i + most] = p
    sums = table.sum(axis=1)
    if (wrong := np.flatnonzero(np.abs(sums - 1) > _WRITTEN)).size:
        raise InputError(
            f"table: probabilities of a count of {wrong[0]} add up to {sums[wrong[0]]:g}"
        )
    return np.asarray(table / sums[:, None])


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
    # 9: of probabilities, so that all machines draw alike
    probabilities = np.round(scipy.special.softmax(-found.x @ features), 9)
    probabilities[np.argmax(probabilities)] += 1 - probabilities.sum()
    mean, spread = probabilities @ steps, probabilities @ steps**2
    return probabilities if abs(mean) < _SURE and spread < variance + _SURE else None
