"""The Gaussian mechanism."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from clusterscale.contracts import (
    Bounds,
    Guarantee,
    Noise,
    Positive,
    PrivacyLoss,
    Probability,
    UsualSettings,
)
from clusterscale.mechanisms.accounting import GaussianLoss, gaussian_epsilon
from clusterscale.mechanisms.base import USE_LAPLACE, USUAL_EPSILONS
from clusterscale.mechanisms.noise import AdditiveNoise, GaussianNoise
from clusterscale.validation_messages import exact_number


def deviation(epsilon: float, delta: float) -> float:
    """Return σ/Δ₂ = √(2 ln(2/δ))/ε, the noise for a sensitivity of 1 (NDSS18 §VII-A)."""
    return float(np.sqrt(2 * np.log(2 / delta)) / epsilon)


def guaranteed_epsilon(epsilon: float, delta: float) -> float:
    """Return the exact ε of this noise at ``delta``, or the declared ε if that is larger.

    The rule for σ is proven up to ε of about 1. Above that, the exact ε (Balle and Wang, ICML 2018)
    can exceed the declared one: it is 12.7 at ε = 10, δ = .1.
    """
    return max(epsilon, gaussian_epsilon(deviation(epsilon, delta), delta))


class Gaussian(AdditiveNoise):
    """Add independent normal noise of deviation √(2 ln(2/δ))·Δ₂/ε (GSM, NDSS18 §VII-A).

    ``l2_sensitivity`` Δ₂ is the most that one user changes the counts, in L2 norm. The default is
    √Δ₁ of the cube and period, because every count changes by 0 or 1. With a null ROI all of a
    user's rows are counted, so nothing else changes when the user leaves.

    Attributes
    ----------
    epsilon
        ε of the guarantee, for one user, e.g. ``1.0``.
    delta
        δ of the guarantee, a probability, e.g. ``0.01``.
    l2_sensitivity
        Most that one user changes the counts, in visits, L2 norm, e.g. ``20.0``; None: of the
        cube.
    """

    name: Literal["gaussian"] = "gaussian"
    publish_refusal = f"its noise is continuous: {USE_LAPLACE}"
    usual = (
        UsualSettings(
            {"delta": 1e-5, "clip": True, "integers": "round"}, {"epsilon": USUAL_EPSILONS}, rank=11
        ),
    )
    epsilon: Positive
    delta: Probability
    l2_sensitivity: Positive | None = None

    _sensitivity: ClassVar[str] = "l2_sensitivity"

    @property
    def _noise_phrase(self) -> str:
        epsilon, delta = exact_number(self.epsilon), exact_number(self.delta)
        return f"Gaussian noise, ε {epsilon} and δ {delta} per user"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in visits."""
        return deviation(self.epsilon, self.delta) * self._norm()

    @property
    def guarantee(self) -> Guarantee:
        """(ε, δ) for a user, with the exact ε where it exceeds that of the rule for σ."""
        epsilon = guaranteed_epsilon(self.epsilon, self.delta)
        reason = "normal noise of deviation √(2 ln(2/δ))·Δ₂/ε; L2 norm of one user"
        if epsilon > self.epsilon:
            reason += f"; the rule fails at ε = {self.epsilon:g}, this is the exact ε"
        return Guarantee("user", epsilon, self.delta, "add_remove", reason, self._known_norm)

    @property
    def noise(self) -> Noise:
        """Normal noise on every count; its scale is NaN until the sensitivity is known."""
        return GaussianNoise(deviation(self.epsilon, self.delta) * self._known_norm)

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return √Δ₁."""
        return float(np.sqrt(bounds.user))

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss:
        """Return one component: all counts of a user together."""
        return GaussianLoss(self.required_sensitivity(bounds) / self.sigma, self.delta)
