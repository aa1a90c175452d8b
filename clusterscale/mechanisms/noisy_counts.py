"""Noise on every count: Laplace, Gaussian, and randomized response."""

from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from clusterscale.contracts import (
    Bounds,
    CellChange,
    Counts,
    Guarantee,
    Noise,
    Positive,
    PrivacyLoss,
    Probability,
    Support,
    UsualSettings,
    Values,
)
from clusterscale.errors import ConfigError
from clusterscale.mechanisms import accounting
from clusterscale.mechanisms.base import USE_LAPLACE, USUAL_EPSILONS
from clusterscale.mechanisms.law import CountLikelihood
from clusterscale.mechanisms.noise import (
    AdditiveNoise,
    DiscreteGaussianNoise,
    DiscreteLaplaceNoise,
    GaussianNoise,
    LaplaceNoise,
)
from clusterscale.phrases import privacy_unit
from clusterscale.validation_messages import exact_number, exact_percent

_PER = {"event": "event", "user_day": "user and day", "user": "user"}


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

    Attributes
    ----------
    epsilon
        ε of the guarantee, for one ``unit``, e.g. ``1.0``.
    sensitivity
        Most that one unit changes the counts, in visits, L1 norm, e.g. ``10.0``; None: of the
        cube.
    unit
        Unit of the guarantee: ``event``, ``user_day`` or ``user``.
    discrete
        Whether the noise is whole numbers.
    """

    name: Literal["laplace"] = "laplace"
    publish_seconds = 2.1e-8
    usual = (
        UsualSettings(
            {"unit": "event", "clip": True, "discrete": True}, {"epsilon": USUAL_EPSILONS}, rank=9
        ),
    )
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
    def guarantee(self) -> Guarantee:
        """Pure ε at the declared unit, under adding or removing one unit."""
        law = "two-sided geometric" if self.discrete else "Laplace"
        norm_of = privacy_unit(self.unit, "one")
        reason = f"{law} noise of scale sensitivity/epsilon; L1 norm of {norm_of}"
        return Guarantee(self.unit, self.epsilon, 0.0, "add_remove", reason, self._known_norm)

    @property
    def noise(self) -> Noise:
        """Noise on every count; its scale is NaN until the sensitivity is known."""
        scale = self._known_norm / self.epsilon
        return DiscreteLaplaceNoise(scale) if self.discrete else LaplaceNoise(scale)

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return the L1 norm of one unit."""
        return float(getattr(bounds, self.unit))

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss:
        """Return one component for each count that a user changes by 1.

        For counts that differ by 1, the privacy loss of geometric noise is that of randomized
        response, the worst case of ε-DP, so it composes to more than Laplace noise does.
        """
        if self.discrete:
            return accounting.ApproximateLoss(bounds.user, 1 / self.scale, distinct=True)
        return accounting.LaplaceLoss(bounds.user, 1 / self.scale)

    def _draw(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return ``n`` values of the noise.

        Raises ConfigError if discrete noise is too large for 64-bit integers.
        """
        # 2.0**48: noise of 30 scales is still exact as a float
        if self.discrete and self.scale > 2.0**48:  # draws at the largest integer cancel
            raise ConfigError(
                f"{self.name}: discrete noise of scale {self.scale:g} is too large for 64-bit "
                "integers"
            )
        return super()._draw(n, rng)


class TruncatedLaplace(AdditiveNoise):
    """Truncate Laplace noise of scale 1/ε to integers, then add it: less private than claimed.

    Published code for POPETS24 stores its noise in an integer type before adding it, and claims
    that the release is ε-DP for one event. All noise between −1 and 1 becomes 0, so
    P(0) = 1 − e^−ε, but P(±1) = ½e^−ε(1 − e^−ε): the exact ε for one event is ε + ln 2. Rounding
    the noisy count instead (``integers`` of ``laplace``) is post-processing and keeps ε-DP.

    Use it to test audits, never to publish: an audit that does not refute the claim is too weak.
    ``guarantee`` repeats the false claim; ``user_privacy_loss`` is the true one.

    Attributes
    ----------
    epsilon
        The ε that is claimed for one event, e.g. ``1.0``.
    """

    name: Literal["truncated_laplace"] = "truncated_laplace"
    publish_refusal = f"its guarantee is false, it exists to test audits: {USE_LAPLACE}"
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

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss:
        """Return one component of ε + ln 2, not ε, for each count that a user changes by 1."""
        return accounting.ApproximateLoss(
            bounds.user, self.epsilon + float(np.log(2)), distinct=True
        )

    def _noisy(self, before: Support, group_size: int) -> Support:
        return Support(-np.inf, np.inf, before.step)

    def _draw(self, n: int, rng: np.random.Generator) -> Values:
        return np.trunc(rng.laplace(0.0, 1 / self.epsilon, n))


def deviation(epsilon: float, delta: float) -> float:
    """Return σ/Δ₂ = √(2 ln(2/δ))/ε, the noise for a sensitivity of 1 (NDSS18 §VII-A)."""
    return float(np.sqrt(2 * np.log(2 / delta)) / epsilon)


def guaranteed_epsilon(epsilon: float, delta: float, *, discrete: bool = False) -> float:
    """Return the ε of this noise at ``delta``, or the declared ε if that is larger.

    The rule for σ is proven up to ε of about 1. Above that, the exact ε (Balle and Wang, ICML 2018)
    can exceed the declared one: it is 12.7 at ε = 10, δ = .1. That of discrete noise follows from
    its concentrated guarantee.
    """
    sigma = deviation(epsilon, delta)
    if discrete:
        return max(epsilon, accounting.concentrated_epsilon(sigma**-2 / 2, delta))
    return max(epsilon, accounting.gaussian_epsilon(sigma, delta))


class Gaussian(AdditiveNoise):
    """Add independent normal noise of deviation √(2 ln(2/δ))·Δ₂/ε (GSM, NDSS18 §VII-A).

    ``l2_sensitivity`` Δ₂ is the most that one ``unit`` changes the counts, in L2 norm. The default
    is √Δ₁ of the cube and period, because every count changes by 0 or 1. With a null ROI all of a
    user's rows are counted, so nothing else changes when the user leaves.

    ``discrete`` noise is whole numbers, P(n) ∝ exp(−n²/2σ²), with the concentrated guarantee of
    normal noise (Canonne, Kamath and Steinke, NeurIPS 2020), independent of how floating-point
    numbers are spaced.

    Attributes
    ----------
    epsilon
        ε of the guarantee, for one ``unit``, e.g. ``1.0``.
    delta
        δ of the guarantee, a probability, e.g. ``0.01``.
    l2_sensitivity
        Most that one unit changes the counts, in visits, L2 norm, e.g. ``20.0``; None: of the
        cube.
    unit
        Unit of the guarantee: ``event``, ``user_day`` or ``user``.
    discrete
        Whether the noise is whole numbers.
    """

    name: Literal["gaussian"] = "gaussian"
    epsilon: Positive
    delta: Probability
    l2_sensitivity: Positive | None = None
    unit: Literal["event", "user_day", "user"] = "user"
    discrete: bool = False

    _sensitivity: ClassVar[str] = "l2_sensitivity"

    @property
    def _noise_phrase(self) -> str:
        epsilon, delta = exact_number(self.epsilon), exact_number(self.delta)
        law = "discrete Gaussian" if self.discrete else "Gaussian"
        return f"{law} noise, ε {epsilon} and δ {delta} per {_PER[self.unit]}"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, in visits."""
        return deviation(self.epsilon, self.delta) * self._norm()

    @property
    def guarantee(self) -> Guarantee:
        """(ε, δ) for a unit, with the ε that holds where it exceeds that of the rule for σ."""
        epsilon = guaranteed_epsilon(self.epsilon, self.delta, discrete=self.discrete)
        one, law = privacy_unit(self.unit, "one"), "discrete normal" if self.discrete else "normal"
        reason = f"{law} noise of deviation √(2 ln(2/δ))·Δ₂/ε; L2 norm of {one}"
        if epsilon > self.epsilon:
            exact = "the ε of its concentrated guarantee" if self.discrete else "the exact ε"
            reason += f"; the rule fails at ε = {self.epsilon:g}, this is {exact}"
        return Guarantee(self.unit, epsilon, self.delta, "add_remove", reason, self._known_norm)

    @property
    def noise(self) -> Noise:
        """Normal noise on every count; its scale is NaN until the sensitivity is known."""
        sigma = deviation(self.epsilon, self.delta) * self._known_norm
        return DiscreteGaussianNoise(sigma) if self.discrete else GaussianNoise(sigma)

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return √Δ₁ of one unit."""
        return float(np.sqrt(getattr(bounds, self.unit)))

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss:
        """Return one component: all counts of a user together."""
        return accounting.GaussianLoss(np.sqrt(bounds.user) / self.sigma, self.delta, self.discrete)


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
        return accounting.ApproximateLoss(bounds.user, 0.0, 1 - self.p, distinct=True)

    def cell_change(self, group_size: int) -> CellChange:
        """Return the change where all others are in the cell: one more yes is sure, not likely."""
        return CellChange(without=(1 - self.p, self.p), inside=(0.0, 1.0))

    def _noisy(self, before: Support, group_size: int) -> Support:
        return Support(-group_size * self.p / (1 - self.p), float(group_size), 0.0)

    def law_for_attacks(self, group_size: int) -> CountLikelihood | None:
        """Return the binomial distribution of false yes; None if they are clipped or rounded."""
        if self.clip or self.integers != "none":
            return None
        possible = (np.arange(group_size + 1.0) - group_size * self.p) / (1 - self.p)
        return CountLikelihood(partial(self._probability, group_size), possible)

    def _probability(self, size: int, values: NDArray[Any], counts: NDArray[Any]) -> Values:
        n_yes = np.rint(values * (1 - self.p) + size * self.p)
        return np.asarray(scipy.stats.binom.pmf(n_yes - counts, size - counts, self.p))

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return estimated counts, float64, the same shape (…, roi, epoch).

        Raises InputError if ``counts`` are not those of ``group_size`` members.
        """
        self._check_counts(counts, group_size)
        away = group_size - counts.astype(np.int64)
        values: Values = rng.binomial(away, self.p).astype(np.float64)
        values += counts
        values -= group_size * self.p
        values /= 1 - self.p
        self.finish(values, group_size)
        return values
