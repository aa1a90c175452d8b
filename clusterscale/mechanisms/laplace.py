"""The Laplace mechanism, continuous or discrete."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import (
    Bounds,
    Counts,
    Guarantee,
    Noise,
    Positive,
    PrivacyLossSpec,
    Values,
)
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.base import AdditiveNoise
from clusterscale.validation_messages import exact_number

__all__ = ["Laplace"]

_UNITS = {"event": "one event", "user_day": "one user's day", "user": "one user"}
_PER = {"event": "event", "user_day": "user and day", "user": "user"}
_MOST_DISCRETE = 2.0**48  # noise of 30 scales is still exact as a float


class Laplace(AdditiveNoise):
    """Add independent Laplace noise of scale sensitivity/ε to every count (NDSS18 §VII-A).

    If the counts of neighbouring groups differ by at most ``sensitivity`` in L1 norm, the densities
    of any output differ by at most exp(‖difference‖₁ / scale) ≤ exp(ε), so the release is ε-DP for
    that neighbourhood (Dwork et al., TCC 2006). Post-processing does not weaken it.

    ``unit`` is the difference between neighbours: one ``event``, all events of a ``user_day``, or
    all of a ``user`` (the default). The default ``sensitivity`` is the most that one such unit
    changes the counts of the cube in the period: NDSS18's LPA(Δ/ε) for a user; for an event 1, or
    2 with a null ROI, which gains an hour that loses its only event. A sensitivity from the data
    holds only for users no more active than those of the cube; with capped contributions it holds
    for everyone. PETS17's other variants (§5.2) are sensitivities T′ and S·T′, NDSS18's LPA(1/ε)
    is sensitivity 1.

    ``discrete`` noise is two-sided geometric, P(n) ∝ exp(−|n|·ε/sensitivity) (Ghosh et al., STOC
    2009): the same guarantee for whole numbers, independent of how floating-point numbers are
    spaced (Mironov, CCS 2012).
    """

    name: Literal["laplace"] = "laplace"
    epsilon: Positive
    sensitivity: Positive | None = None
    unit: Literal["event", "user_day", "user"] = "user"
    discrete: bool = False

    _sensitivity: ClassVar[str] = "sensitivity"

    @property
    def _noise_phrase(self) -> str:
        law = "discrete Laplace" if self.discrete else "Laplace"
        return f"{law} noise, ε {exact_number(self.epsilon)} per {_PER[self.unit]}"

    @property
    def _known_norm(self) -> float:
        if self.sensitivity is None and self.unit == "event":
            return 1.0  # until bound to counts that may have a null ROI
        return super()._known_norm

    @property
    def scale(self) -> float:
        """Scale of the noise, in visits."""
        return self._norm() / self.epsilon

    @property
    def publishes_float_noise(self) -> bool:
        """Whether noise is continuous and not rounded."""
        return super().publishes_float_noise and not self.discrete

    @property
    def guarantee(self) -> Guarantee:
        """Pure ε at the declared unit, under adding or removing one unit."""
        law = "two-sided geometric" if self.discrete else "Laplace"
        reason = f"{law} noise of scale sensitivity/epsilon; L1 norm of {_UNITS[self.unit]}"
        norm = self._known_norm
        return Guarantee(self.unit, self.epsilon, 0.0, "add_remove", reason, norm)

    @property
    def noise(self) -> Noise:
        """Noise on every count; its scale is NaN until the sensitivity is known."""
        scale = self._known_norm / self.epsilon
        return Noise("geometric" if self.discrete else "laplace", scale)

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the L1 norm of one unit."""
        return float(getattr(bounds, self.unit))

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLossSpec:
        """Return one component for each count that a user changes by 1.

        For counts that differ by 1, the privacy loss of geometric noise is that of randomized
        response, the worst case of ε-DP, so it composes to more than Laplace noise does.
        """
        if self.discrete:
            return PrivacyLossSpec("approximate", bounds.user, epsilon=1 / self.scale)
        return PrivacyLossSpec("laplace", bounds.user, ratio=1 / self.scale)

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return noisy counts, float64, the same shape (…, roi, epoch).

        Raises
        ------
        ConfigError
            If discrete noise is too large for 64-bit integers.
        """
        scale = self.scale
        if not self.discrete:
            return self._add(counts, group_size, lambda n: rng.laplace(0.0, scale, n))
        # Two-sided geometric: the difference of two geometrics of success 1 − exp(−1/scale).
        if scale > _MOST_DISCRETE:  # two draws that saturate at the largest integer would cancel
            raise ConfigError(
                f"{self.name}: discrete noise of scale {scale:g} is too large for 64-bit integers"
            )
        success = -np.expm1(-1.0 / scale)
        return self._add(
            counts, group_size, lambda n: rng.geometric(success, n) - rng.geometric(success, n)
        )
