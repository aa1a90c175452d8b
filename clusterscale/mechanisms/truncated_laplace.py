"""A known bug in published code, kept to test that audits detect it."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import Bounds, Counts, Guarantee, Positive, PrivacyLossSpec, Values
from clusterscale.mechanisms.base import AdditiveNoise
from clusterscale.validation_messages import exact_number

__all__ = ["TruncatedLaplace"]


class TruncatedLaplace(AdditiveNoise):
    """Truncate Laplace noise of scale 1/ε to integers, then add it: less private than claimed.

    Published code for POPETS24 stores its noise in an integer type before adding it, and claims
    that the release is ε-DP for one event. All noise between −1 and 1 becomes 0, so
    P(0) = 1 − e^−ε, but P(±1) = ½e^−ε(1 − e^−ε): the exact ε for one event is ε + ln 2. Rounding
    the noisy count instead (``integers`` of ``laplace``) is post-processing and keeps ε-DP.

    Use it to test audits, never to publish: an audit that does not refute the claim is too weak.
    ``guarantee`` repeats the false claim; ``user_privacy_loss`` is the true one.
    """

    name: Literal["truncated_laplace"] = "truncated_laplace"
    epsilon: Positive

    whole_output: ClassVar[bool] = True
    _claimed: ClassVar[float] = 1.0  # L1 sensitivity that the code assumes for one event

    @property
    def _noise_phrase(self) -> str:
        return (
            f"Laplace noise truncated to integers, stated ε {exact_number(self.epsilon)} per event"
        )

    @property
    def guarantee(self) -> Guarantee:
        """ε for one event, as the published code claims, which is false."""
        reason = (
            "the claim of published code, which is false: truncating Laplace noise to integers "
            "before adding it gives epsilon + ln 2 for one event"
        )
        return Guarantee("event", self.epsilon, 0.0, "add_remove", reason, self._claimed)

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the L1 norm of one event."""
        return float(bounds.event)

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLossSpec:
        """Return one component of ε + ln 2, not ε, for each count that a user changes by 1."""
        return PrivacyLossSpec("approximate", bounds.user, epsilon=self.epsilon + float(np.log(2)))

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return counts with truncated noise, float64, the same shape (…, roi, epoch)."""
        scale = 1 / self.epsilon
        return self._add(counts, group_size, lambda n: np.trunc(rng.laplace(0.0, scale, n)))
