"""Randomised response: noise is added to the answer of each member."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import (
    Bounds,
    CellChange,
    Counts,
    Guarantee,
    PrivacyLoss,
    Probability,
    Support,
    Values,
)
from clusterscale.mechanisms.accounting import ApproximateLoss
from clusterscale.mechanisms.base import USE_LAPLACE
from clusterscale.mechanisms.noise import AdditiveNoise
from clusterscale.validation_messages import exact_percent


class RandomizedResponse(AdditiveNoise):
    """SpotMe: each member says *yes* to a cell with probability p, else the truth (PETS17 §5.3).

    Members in the cell always say yes, others with probability p. With A of m members in the cell,
    A + Binomial(m − A, p) say yes; drawing this from the counts is the same as drawing for every
    member. The published value is the unbiased estimate (yes − m·p)/(1 − p).

    A *no* is always true, so no finite ε holds, contrary to PETS17 §5.3. The total-variation
    distance of the two answers' distributions is 1 − p, so one answer is exactly (0, 1 − p)-DP.

    Attributes
    ----------
    p
        Probability of *yes* without regard to the truth, e.g. ``0.3``.
    """

    name: Literal["randomized_response"] = "randomized_response"
    publish_seconds = 2.1e-7
    publish_refusal = (
        "NumPy draws its binomial numbers, and not from the operating system's source: "
        f"{USE_LAPLACE}"
    )
    p: Probability

    noise_is_count_independent: ClassVar[bool] = False
    whole_output: ClassVar[bool] = True  # a fixed function of the number of yes

    @property
    def _noise_phrase(self) -> str:
        return f"randomised response, false yes with probability {exact_percent(self.p)}"

    @property
    def guarantee(self) -> Guarantee:
        """(0, 1 − p) for one answer of a member."""
        reason = "a 'no' is always true: no finite epsilon; total variation of an answer is 1 − p"
        return Guarantee("event", 0.0, 1 - self.p, "replace", reason)

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss:
        """Return one component for each answer."""
        return ApproximateLoss(bounds.user, 0.0, 1 - self.p, distinct=True)

    def cell_change(self, group_size: int) -> CellChange:
        """Return the change where all others are in the cell: one more yes is sure, not likely."""
        return CellChange(without=(1 - self.p, self.p), inside=(0.0, 1.0))

    def _noisy(self, before: Support, group_size: int) -> Support:
        return Support(-group_size * self.p / (1 - self.p), float(group_size), 0.0)

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return estimated counts, float64, the same shape (…, roi, epoch).

        Raises
        ------
        InputError
            If ``counts`` are not those of ``group_size`` members.
        """
        self._check_counts(counts, group_size)
        away = group_size - counts.astype(np.int64)
        values: Values = rng.binomial(away, self.p).astype(np.float64)
        values += counts
        values -= group_size * self.p
        values /= 1 - self.p
        self.finish(values, group_size)
        return values
