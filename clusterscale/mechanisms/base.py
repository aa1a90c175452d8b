"""Base classes of mechanisms: defaults, post-processing, and additive noise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import (
    NO_NOISE,
    Bounds,
    Counts,
    Guarantee,
    Mechanism,
    Noise,
    NoiseScope,
    Support,
    TraceStep,
    Values,
)
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms.law import OutputDistribution
from clusterscale.validation_messages import exact_number

__all__ = [
    "FLOAT_NOISE_REMEDY",
    "FLOAT_NOISE_RISK",
    "STAGES",
    "AdditiveNoise",
    "BaseMechanism",
    "Exact",
    "Identity",
    "PostProcessing",
    "Stage",
    "group_by_trace_steps",
    "no_guarantee",
]

Stage = Literal["trace", "sample", "noise", "publish"]
STAGES: tuple[Stage, ...] = ("trace", "sample", "noise", "publish")
"""The order of the steps of a chain: on traces, counted events, counts, and published values."""

FLOAT_NOISE_RISK = (
    "the low-order bits of unrounded noisy values can reveal the count that the noise was added to "
    "(Mironov, CCS 2012), so the guarantee does not cover floating-point numbers"
)
FLOAT_NOISE_REMEDY = "publish whole numbers: integers: round, or for laplace discrete: true"

_BLOCK = 1 << 15  # values: drawn, post-processed and written while they are in cache


def no_guarantee(reason: str) -> Guarantee:
    """Return the guarantee of a mechanism that has none."""
    return Guarantee("none", np.inf, 0.0, "add_remove", reason)


class BaseMechanism(Mechanism):
    """A mechanism that can be a step of a chain, and checks its counts."""

    stage: ClassVar[Stage] = "publish"
    whole_output: ClassVar[bool] = False
    """Whether published values are on a fixed grid, such as whole numbers, for any input."""

    @property
    def publishes_float_noise(self) -> bool:
        """Whether continuous noise is published without rounding it.

        The low-order bits of floating-point noise can reveal the count that it was added to
        (Mironov, CCS 2012). True for mechanisms that add noise, unless they override it.
        """
        return not self.whole_output and (self.stage == "noise" or super().publishes_float_noise)

    def law(self, group_size: int) -> OutputDistribution | None:
        """Return None: no known output distribution of a single count."""
        return None

    def _check_shape(self, counts: NDArray[Any], group_size: int) -> None:
        if not isinstance(counts, np.ndarray) or counts.dtype.kind not in "iuf":
            kind = getattr(counts, "dtype", type(counts).__name__)
            raise InputError(f"counts must be an array of integers or floats, not {kind}")
        ends = (counts.min(), counts.max()) if counts.dtype.kind == "f" and counts.size else ()
        if not np.isfinite(ends).all():  # min and max propagate NaN
            n_wrong = counts.size - int(np.isfinite(counts).sum())
            raise InputError(f"{n_wrong} of {counts.size} counts are NaN or infinite")
        if counts.ndim < 2:
            raise InputError(f"counts must have shape (…, roi, epoch), not {counts.shape}")
        if group_size < 1:
            raise InputError(f"group_size must be at least 1, not {group_size}")
        n_rois, n_epochs = counts.shape[-2:]
        self.check(group_size=group_size, n_rois=n_rois, n_epochs=n_epochs)

    def _check_counts(self, counts: NDArray[Any], group_size: int) -> None:
        """Raise :class:`InputError` unless ``counts`` are whole, from 0 to the group size.

        Whole numbers may have a float dtype, as after sampling.
        """
        self._check_shape(counts, group_size)
        if counts.size and not (counts.min() >= 0 and counts.max() <= group_size):
            raise InputError(
                f"counts from {counts.min()} to {counts.max()} are impossible in a group of "
                f"{group_size} members"
            )
        if counts.dtype.kind not in "iu" and (counts != np.floor(counts)).any():
            raise InputError("counts are not whole numbers")


class Identity(BaseMechanism):
    """A mechanism that publishes counts unchanged, whatever was done before counting."""

    noise_scope: ClassVar[NoiseScope] = "cell"
    noise_is_count_independent: ClassVar[bool] = True

    @property
    def noise(self) -> Noise:
        """No noise: counts are published unchanged."""
        return NO_NOISE

    def law(self, group_size: int) -> OutputDistribution:
        """Return the distribution of unchanged counts."""
        return OutputDistribution()

    def support(self, before: Support, group_size: int) -> Support:
        """Return ``before``."""
        return before

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return the counts as float64, the same shape (…, roi, epoch).

        Raises
        ------
        InputError
            If the counts are not finite or not (…, roi, epoch), or the group has no member.
        """
        self._check_shape(counts, group_size)
        return counts.astype(np.float64)


class Exact(Identity):
    """Publish the counts unchanged."""

    name: Literal["exact"] = "exact"

    @property
    def guarantee(self) -> Guarantee:
        """No guarantee."""
        return no_guarantee("counts are published as they are")


class PostProcessing(BaseMechanism):
    """A deterministic function of values, noisy or not, and of nothing else."""

    noise_scope: ClassVar[NoiseScope] = "cell"
    noise_is_count_independent: ClassVar[bool] = True

    @property
    def guarantee(self) -> Guarantee:
        """No guarantee of its own; after noise, that of the noise holds (post-processing)."""
        return no_guarantee("a deterministic function of the counts")

    def law(self, group_size: int) -> OutputDistribution | None:
        """Return the distribution of a revised count; None unless counts are revised one by one."""
        return OutputDistribution().then(self.revise) if self.noise_scope == "cell" else None

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return revised values, float64, shape (…, roi, epoch); ``rng`` is not used.

        Raises
        ------
        ConfigError, InputError
            If the settings do not suit the counts, or these do not have the shape (…, roi, epoch).
        """
        self._check_shape(counts, group_size)
        values: Values = np.array(counts, np.float64, order="C")
        self.revise(values)
        return values

    def _ends(self, before: Support) -> tuple[float, float]:
        """Return the revised ends of a support."""
        ends = np.array([[before.low, before.high]], np.float64)
        self.revise(ends)
        return float(ends[0, 0]), float(ends[0, 1])

    def revise(self, values: Values) -> None:
        """Revise ``values``, C-contiguous, shape (…, roi, epoch), in place."""
        raise NotImplementedError


class AdditiveNoise(BaseMechanism):
    """A mechanism that adds noise, then optionally clips and rounds.

    ``clip`` limits values to 0 … group size; ``integers`` then rounds to the nearest (``round``,
    half to even), rounds down (``floor``) or does nothing (``none``). Neither weakens a guarantee:
    both depend only on the noisy value. A guarantee for real numbers does not cover floating-point
    numbers, whose low-order bits can reveal the count (Mironov, CCS 2012): where these bits are
    published too, publish integers or use discrete noise.
    """

    clip: bool = False
    integers: Literal["round", "floor", "none"] = "none"

    stage: ClassVar[Stage] = "noise"
    noise_scope: ClassVar[NoiseScope] = "cell"
    noise_is_count_independent: ClassVar[bool] = True
    _sensitivity: ClassVar[str] = ""
    _label_last: ClassVar[tuple[str, ...]] = ("l2_sensitivity", "clip", "integers")

    @property
    def phrase(self) -> str:
        """The noise, its sensitivity and its post-processing, for display."""
        size = getattr(self, self._sensitivity) if self._sensitivity else None
        parts = [self._noise_phrase]
        parts += [] if size is None else [f"sensitivity {exact_number(size)}"]
        parts += {"round": ["rounded"], "floor": ["rounded down"]}.get(self.integers, [])
        return ", ".join([*parts, "from 0 to the group size"] if self.clip else parts)

    @property
    def _noise_phrase(self) -> str:
        raise NotImplementedError

    @property
    def publishes_float_noise(self) -> bool:
        """Whether noise is published as drawn: neither rounded nor discrete."""
        return super().publishes_float_noise and self.integers == "none"

    def bind(self, bounds: Bounds) -> Self:
        """Return the mechanism with the sensitivity of the cube, if none was given."""
        if not self._sensitivity or getattr(self, self._sensitivity) is not None:
            return self
        return self.model_copy(update={self._sensitivity: self.required_sensitivity(bounds)})

    def _norm(self) -> float:
        """Return the sensitivity.

        Raises
        ------
        ConfigError
            If it was neither given nor bound.
        """
        norm = self._known_norm
        if np.isnan(norm):
            raise ConfigError(
                f"{self.label}: {self._sensitivity} is not known: give it, or bind the mechanism "
                "to the bounds of a cube, as an audit does"
            )
        return norm

    @property
    def _known_norm(self) -> float:
        """The sensitivity; NaN if not known."""
        value = getattr(self, self._sensitivity)
        return np.nan if value is None else float(value)

    def law(self, group_size: int) -> OutputDistribution | None:
        """Return the distribution of noise, clipping and rounding; None if that is not known."""
        noise = self.noise
        if noise is None or self.noise_scope != "cell" or not np.isfinite(noise.scale):
            return None
        law = OutputDistribution(noise)
        if self.clip or self.integers != "none":
            law = law.then(partial(self.finish, group_size=group_size))
        return law

    def support(self, before: Support, group_size: int) -> Support:
        """Return all values of the noise, clipped and rounded."""
        after = self._noisy(before, group_size)
        if self.clip:
            low, high = (float(np.clip(end, 0, group_size)) for end in (after.low, after.high))
            after = replace(after, low=low, high=high)
        if self.integers == "none":
            return after
        return Support(np.floor(after.low), np.ceil(after.high), 1.0)  # rounded beyond the ends

    def _noisy(self, before: Support, group_size: int) -> Support:
        """Return the values before clipping and rounding."""
        whole = self.noise is not None and self.noise.whole
        return Support(-np.inf, np.inf, before.step if whole else 0.0)

    def finish(self, values: Values, group_size: int) -> None:
        """Clip and round ``values`` in place."""
        if self.clip:
            np.clip(values, 0, group_size, out=values)
        if self.integers != "none":
            (np.rint if self.integers == "round" else np.floor)(values, out=values)

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return noisy counts, float64, the same shape (…, roi, epoch).

        Raises
        ------
        ConfigError, InputError
            If a sensitivity is not known, or the counts are not (…, roi, epoch).
        """
        if self._sensitivity:
            self._norm()
        self._check_shape(counts, group_size)
        values: Values = np.empty(counts.shape)
        flat, raw = values.reshape(-1), counts.reshape(-1)
        for start in range(0, len(flat), _BLOCK):
            block = flat[start : start + _BLOCK]
            np.add(self._draw(len(block), rng), raw[start : start + _BLOCK], out=block)
            self.finish(block, group_size)
        return values

    def _draw(self, n: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return ``n`` values of the noise."""
        noise = self.noise
        if noise is None:
            raise NotImplementedError
        return noise.sample(n, rng=rng)


def group_by_trace_steps(
    mechanisms: Iterable[Mechanism],
) -> list[tuple[tuple[TraceStep, ...], list[Mechanism]]]:
    """Return the mechanisms grouped by their trace steps, so that these are applied once."""
    groups: dict[tuple[TraceStep, ...], list[Mechanism]] = {}
    for mechanism in mechanisms:
        groups.setdefault(mechanism.trace_steps, []).append(mechanism)
    return list(groups.items())
