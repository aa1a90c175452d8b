"""Randomised response: members lie before they are counted."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import Bounds, Counts, Guarantee, PrivacyLossSpec, Probability, Values
from clusterscale.mechanisms.base import AdditiveNoise
from clusterscale.validation_messages import exact_percent

__all__ = ["RandomizedResponse"]


class RandomizedResponse(AdditiveNoise):
    """SpotMe: each member says *yes* to a cell with probability p, else the truth (PETS17 §5.3).

    Who is there always says yes, who is not with probability p, so of A members there and m − A
    elsewhere A + Binomial(m − A, p) say yes: drawn from the counts, the law is that of drawing for
    every member. Published is the unbiased estimate (yes − m·p)/(1 − p).

    A *no* is always true, so no finite ε holds, whatever PETS17 §5.3 says: two answers differ in
    law by 1 − p in total variation, which is (0, 1 − p)-DP for one answer, and no less.
    """

    name: Literal["randomized_response"] = "randomized_response"
    p: Probability

    noise_is_count_independent: ClassVar[bool] = False
    whole_output: ClassVar[bool] = True  # a fixed function of how many said yes

    @property
    def _noise_phrase(self) -> str:
        return f"random answers, {exact_percent(self.p)} yes whatever the truth"

    @property
    def guarantee(self) -> Guarantee:
        """(0, 1 − p) for one answer of a member."""
        reason = "a 'no' is always true: no finite epsilon, but answers differ by 1 − p in law"
        return Guarantee("event", 0.0, 1 - self.p, "replace", reason)

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLossSpec:
        """Return one part for each answer."""
        return PrivacyLossSpec("approximate", bounds.user, epsilon=0.0, delta=1 - self.p)

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
