"""A known fault of published code, kept so that an audit can be seen to catch it."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import Bounds, Counts, Guarantee, Positive, PrivacyLossSpec, Values
from clusterscale.mechanisms.base import AdditiveNoise
from clusterscale.validation_messages import exact_number

__all__ = ["TruncatedLaplace"]


class TruncatedLaplace(AdditiveNoise):
    """Cut Laplace noise of scale 1/ε to whole numbers, then add it: not as private as it claims.

    Published code for POPETS24 stores its noise in a type for whole numbers before adding it, and
    calls the release ε-DP for one event. All noise between −1 and 1 becomes 0, so
    P(0) = 1 − e^−ε, but P(±1) = ½e^−ε(1 − e^−ε): a count that one event changes is told at
    ε + ln 2, and nothing less is true. Rounding the noisy count instead, with ``integers`` of
    ``laplace``, would have kept the promise, for that sees only the noisy value.

    It is here to be audited, never to publish with: an audit that does not call it broken measures
    too little. ``guarantee`` repeats the claim, so that it can be refuted; what a user spends is
    told as it truly is.
    """

    name: Literal["truncated_laplace"] = "truncated_laplace"
    epsilon: Positive

    whole_output: ClassVar[bool] = True
    _claimed: ClassVar[float] = 1.0  # visits that one event is taken to change

    @property
    def _noise_phrase(self) -> str:
        return (
            f"Laplace noise cut to whole numbers, stated ε {exact_number(self.epsilon)} per event"
        )

    @property
    def guarantee(self) -> Guarantee:
        """ε for one event, as the published code claims, which is false."""
        reason = (
            "the claim of published code, which is false: Laplace noise cut to whole numbers "
            "before it is added tells one event at epsilon + ln 2"
        )
        return Guarantee("event", self.epsilon, 0.0, "add_remove", reason, self._claimed)

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the L1 norm of one event."""
        return float(bounds.event)

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLossSpec:
        """Return one part of ε + ln 2, not of ε, for each count that a user changes by 1."""
        return PrivacyLossSpec("approximate", bounds.user, epsilon=self.epsilon + float(np.log(2)))

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return counts with cut noise, float64, the same shape (…, roi, epoch)."""
        scale = 1 / self.epsilon
        return self._add(counts, group_size, lambda n: np.trunc(rng.laplace(0.0, scale, n)))
