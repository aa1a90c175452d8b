"""Noise on the first Fourier or cosine coefficients of each time series."""

from typing import ClassVar, Literal

import numpy as np
import scipy

from clusterscale.contracts import (
    Bounds,
    Count,
    Counts,
    Guarantee,
    NoiseScope,
    Positive,
    PrivacyLoss,
    Probability,
    Values,
)
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.accounting import ApproximateLoss
from clusterscale.mechanisms.base import USE_LAPLACE
from clusterscale.mechanisms.noise import AdditiveNoise
from clusterscale.mechanisms.noisy_counts import deviation, guaranteed_epsilon
from clusterscale.validation_messages import exact_number, plural

_BLOCK = 1 << 16  # values that are transformed together, to stay in cache


class _Transformed(AdditiveNoise):
    """Perturb the transform coefficients of every ROI's series.

    ``l2_sensitivity`` Δ₂ is the most that one user changes the series of one ROI, in L2 norm. The
    default is √(most hours of a user in one ROI) of the cube and period.

    Attributes
    ----------
    l2_sensitivity
        Most that one user changes the series of one ROI, in visits, L2 norm, e.g. ``20.0``; None:
        of the cube.
    """

    l2_sensitivity: Positive | None = None

    noise_scope: ClassVar[NoiseScope] = "series"
    _sensitivity: ClassVar[str] = "l2_sensitivity"

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return √(most epochs of one user in one ROI)."""
        return float(np.sqrt(bounds.series))

    def _part(self, bounds: Bounds) -> float:
        """Return the ratio of a user's largest change of one series to the sensitivity in use."""
        return self.required_sensitivity(bounds) / self._norm()

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return perturbed counts, float64, the same shape (…, roi, epoch)."""
        self._check_shape(counts, group_size)
        values: Values = np.empty(counts.shape)
        n_epochs = counts.shape[-1]
        series, raw = values.reshape(-1, n_epochs), counts.reshape(-1, n_epochs)
        step = max(1, _BLOCK // n_epochs)
        for start in range(0, len(series), step):
            block = series[start : start + step]
            block[:] = self._perturb(raw[start : start + step].astype(np.float64), rng)
            self.finish(block, group_size)
        return values

    def _perturb(self, series: Values, rng: np.random.Generator) -> Values:
        raise NotImplementedError


class _FirstWaves(_Transformed):
    """Keep the first ``coefficients`` κ of each series, all with noise of the same scale.

    Attributes
    ----------
    epsilon
        ε of the guarantee, for the series of one ROI, e.g. ``1.0``.
    coefficients
        Number of coefficients that are kept, e.g. ``10``.
    """

    name: str
    epsilon: Positive
    coefficients: Count

    _is_real: ClassVar[bool] = True  # the transform, which then has half as many coefficients

    @property
    def scale(self) -> float:
        """Scale of the noise on the real and imaginary part of a coefficient."""
        return float(np.sqrt(self.coefficients)) * self._norm() / self.epsilon

    @property
    def _kept_title(self) -> str:
        return f"first {plural(self.coefficients, 'Fourier coefficient')}"

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`ConfigError` if a series has fewer coefficients."""
        most = n_epochs // 2 + 1 if self._is_real else n_epochs
        if self.coefficients > most:
            raise ConfigError(
                f"{self.name}: coefficients is {self.coefficients}, but a series of {n_epochs} "
                f"epochs has {most}"
            )


class Fourier(_FirstWaves):
    """Keep the first κ Fourier coefficients of each series, with noise (FPA, NDSS18 §VII-A).

    Per ROI: orthonormal real transform, the first ``coefficients`` kept, Laplace noise of scale
    √κ·Δ₂/ε on their real and imaginary parts, the rest zero, inverse (Rastogi and Nath, SIGMOD
    2010). A real series of norm Δ₂ has coefficients with |F₀|² + 2·Σ|F_k|² ≤ Δ₂², so by
    Cauchy–Schwarz |F₀| + Σ (|Re F_k| + |Im F_k|) over κ of them is at most √κ·Δ₂: the release of
    one ROI's series is exactly ε-DP. The privacy loss of a user who visits R ROIs is R·ε.
    """

    name: Literal["fourier"] = "fourier"
    publish_seconds = 1.4e-8
    publish_refusal = f"its noise is continuous: {USE_LAPLACE}"

    @property
    def _noise_phrase(self) -> str:
        epsilon = exact_number(self.epsilon)
        return f"{self._kept_title} with noise, ε {epsilon} per user and place"

    @property
    def guarantee(self) -> Guarantee:
        """Pure ε for one user in the series of one ROI."""
        reason = "Laplace noise of scale √κ·Δ₂/ε on κ Fourier coefficients; L2 norm of one series"
        return Guarantee("roi_series", self.epsilon, 0.0, "add_remove", reason, self._known_norm)

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss:
        """Return one component for each ROI that a user visits."""
        return ApproximateLoss(bounds.rois, self.epsilon * self._part(bounds))

    def _perturb(self, series: Values, rng: np.random.Generator) -> Values:
        kept = scipy.fft.rfft(series, norm="ortho", axis=-1)[:, : self.coefficients].copy()
        parts = rng.laplace(0.0, self.scale, (2, *kept.shape))
        parts[1, :, 0] = 0.0  # the mean has no imaginary part
        kept += parts[0] + 1j * parts[1]
        return np.asarray(scipy.fft.irfft(kept, series.shape[-1], norm="ortho", axis=-1))


class UnscaledFourier(_FirstWaves):
    """FPA as the papers computed it: a transform that is not orthonormal, and too little noise.

    It reproduces POMACS20 tables 22 and 26, and nearly those of NDSS18 and PETS17:
    ``numpy.fft.fft`` of each ROI's raw series, Laplace noise of scale √κ·Δ₂/ε on the real and
    imaginary parts of its first ``coefficients``, the rest zero, the real part of
    ``numpy.fft.ifft``. Half of every wave is lost, because its mirror image is among the rest.
    These coefficients have √T times the norm of the series, so the release is √T·ε-DP where ε-DP
    is intended. Use it to compare with the papers, and to audit releases that were made this way.
    ``l2_sensitivity`` is of everything that one user reports; by default √Δ of the cube and period.
    """

    name: Literal["unscaled_fourier"] = "unscaled_fourier"
    publish_refusal = f"its guarantee is false, it exists to test audits: {USE_LAPLACE}"

    no_guarantee = "noise for an orthonormal transform, on one that is √T times larger"
    _is_real: ClassVar[bool] = False

    @property
    def _noise_phrase(self) -> str:
        return f"{self._kept_title} with too little noise, stated ε {exact_number(self.epsilon)}"

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Return √Δ, where Δ is the number of counts that one user changes."""
        return float(np.sqrt(bounds.user))

    def _perturb(self, series: Values, rng: np.random.Generator) -> Values:
        kept = scipy.fft.fft(series, axis=-1)[:, : self.coefficients]
        parts = rng.laplace(0.0, self.scale, (2, *kept.shape))
        whole = np.zeros(series.shape, np.complex128)
        whole[:, : self.coefficients] = kept + parts[0] + 1j * parts[1]
        return np.asarray(scipy.fft.ifft(whole, axis=-1).real)


class EnhancedFourier(_Transformed):
    """Choose κ from the data, and perturb κ cosine coefficients (EFPAG, NDSS18 §VII-A).

    Per ROI: orthonormal DCT-II F; κ from 1 … T by the exponential mechanism with ε/2, P(κ) ∝
    exp(−(ε/2)·U(κ)/(2Δ₂)), where U(κ) = √(Σ_{i≥κ} F_i²) + √κ·σ is truncation error plus noise;
    normal noise on the first κ with ε/2 and δ, σ = √(2 ln(2/δ))·Δ₂/(ε/2); the rest zero, inverse
    (Ács and Castelluccia, KDD 2014). U changes by at most Δ₂ with a user's series (triangle
    inequality), so the choice is ε/2-DP and the release of one ROI's series is (ε, δ)-DP.

    Attributes
    ----------
    epsilon
        ε of the guarantee, for the series of one ROI, e.g. ``1.0``.
    delta
        δ of the guarantee, a probability, e.g. ``0.01``.
    """

    name: Literal["enhanced_fourier"] = "enhanced_fourier"
    publish_refusal = f"its noise is continuous: {USE_LAPLACE}"
    epsilon: Positive
    delta: Probability

    @property
    def _noise_phrase(self) -> str:
        epsilon, delta = exact_number(self.epsilon), exact_number(self.delta)
        return f"cosine coefficients with noise, ε {epsilon} and δ {delta} per user and place"

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise on a coefficient."""
        return deviation(self.epsilon / 2, self.delta) * self._norm()

    @property
    def guarantee(self) -> Guarantee:
        """(ε, δ) for one user in the series of one ROI."""
        epsilon = self.epsilon / 2 + guaranteed_epsilon(self.epsilon / 2, self.delta)
        reason = (
            "half of ε chooses the number of cosine coefficients, half is for normal noise on "
            "them; L2 norm of one series"
        )
        if epsilon > self.epsilon:
            reason += f"; the rule for σ fails at ε = {self.epsilon / 2:g}, this is the exact sum"
        return Guarantee("roi_series", epsilon, self.delta, "add_remove", reason, self._known_norm)

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLoss | None:
        """Return one component for each ROI that a user visits; None if Δ₂ is too small."""
        if self._part(bounds) > 1 + 1e-9:  # no (ε, δ) is known for a larger change
            return None
        part = self.guarantee
        return ApproximateLoss(bounds.rois, part.epsilon, part.delta)

    def _perturb(self, series: Values, rng: np.random.Generator) -> Values:
        coefficients = np.asarray(scipy.fft.dct(series, type=2, norm="ortho", axis=-1))
        kept = np.arange(coefficients.shape[-1]) < self._choose(coefficients, rng)[:, None]
        noise = rng.normal(0.0, self.sigma, coefficients.shape)
        noisy = np.where(kept, coefficients + noise, 0.0)
        return np.asarray(scipy.fft.idct(noisy, type=2, norm="ortho", axis=-1))

    def _choose(self, coefficients: Values, rng: np.random.Generator) -> Values:
        """Draw κ for each series by inverse transform sampling."""
        n_epochs = coefficients.shape[-1]
        loss = np.zeros_like(coefficients)  # loss[:, κ − 1] = U(κ)
        np.cumsum(coefficients[:, :0:-1] ** 2, axis=-1, out=loss[:, -2::-1])
        np.sqrt(loss, out=loss)
        loss += np.sqrt(np.arange(1, n_epochs + 1)) * self.sigma
        loss -= loss.min(axis=-1, keepdims=True)
        loss *= -self.epsilon / (4 * self._norm())
        weight = np.cumsum(np.exp(loss, out=loss), axis=-1, out=loss)
        drawn = rng.random(len(coefficients)) * weight[:, -1]
        return np.asarray((weight <= drawn[:, None]).sum(axis=-1) + 1)
