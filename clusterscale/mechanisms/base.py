"""What mechanisms have in common: what they answer unless they know better, and blocks of noise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import (
    NO_NOISE,
    Bounds,
    ConfigModel,
    Counts,
    Guarantee,
    Noise,
    NoiseScope,
    PrivacyLossSpec,
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
    "Identity",
    "PostProcessing",
    "Stage",
    "no_guarantee",
]

Stage = Literal["trace", "sample", "noise", "publish"]
STAGES: tuple[Stage, ...] = ("trace", "sample", "noise", "publish")
"""The order in which steps can follow each other: what is done to the traces, to the events that
are counted, to the counts, and to what is published of them."""

FLOAT_NOISE_RISK = (
    "the low-order bits of unrounded noisy values can reveal the count that the noise was added to "
    "(Mironov, CCS 2012), so the guarantee does not cover floating-point numbers"
)
FLOAT_NOISE_REMEDY = "publish whole numbers: integers: round, or for laplace discrete: true"

_BLOCK = 1 << 15  # values: drawn, finished and written while they are in the nearest cache


def no_guarantee(reason: str) -> Guarantee:
    """Return the guarantee of a mechanism that has none."""
    return Guarantee("none", np.inf, 0.0, "add_remove", reason)


class BaseMechanism(ConfigModel):
    """A mechanism, with the answers of one that adds no noise and promises nothing."""

    stage: ClassVar[Stage] = "publish"
    reach: ClassVar[NoiseScope] = "cell"
    noise_is_count_independent: ClassVar[bool] = True
    whole_output: ClassVar[bool] = False
    """Whether values are put on a fixed grid, such as whole numbers, whatever they were before."""

    @property
    def publishes_float_noise(self) -> bool:
        """Whether continuous noise is published without rounding it.

        The low-order bits of floating-point noise can reveal the count that it was added to
        (Mironov, CCS 2012). A mechanism that adds noise is taken to do so unless it says otherwise.
        """
        return self.stage == "noise" and not self.whole_output

    @property
    def title(self) -> str:
        """A short phrase for people, which is never parsed: the label unless a mechanism has one.

        Other settings of a mechanism have another title.
        """
        return self.label

    @property
    def guarantee(self) -> Guarantee:
        """None, unless a mechanism says otherwise."""
        return no_guarantee("nothing is added that would hide a member")

    @property
    def noise(self) -> Noise | None:
        """No law that is known of every count."""
        return None

    def law(self, group_size: int) -> OutputDistribution | None:
        """None that is known of a count by itself."""
        return None

    @property
    def trace_steps(self) -> tuple[TraceStep, ...]:
        """Traces are counted as they are."""
        return ()

    def bind(self, bounds: Bounds) -> Self:
        """Return the mechanism itself: it has no sensitivity to be found."""
        return self

    def required_sensitivity(self, bounds: Bounds) -> float:
        """Not a number: no sensitivity is asked for."""
        return np.nan

    def user_privacy_loss(self, bounds: Bounds) -> PrivacyLossSpec | None:
        """Without limit."""
        return None

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Any counts will do."""

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return what is published of ``counts``, float64, the same shape (…, roi, epoch)."""
        raise NotImplementedError

    def _check_shape(self, counts: NDArray[Any], group_size: int) -> None:
        if not isinstance(counts, np.ndarray) or counts.dtype.kind not in "iuf":
            kind = getattr(counts, "dtype", type(counts).__name__)
            raise InputError(f"counts are an array of integers or floats, not {kind}")
        ends = (counts.min(), counts.max()) if counts.dtype.kind == "f" and counts.size else ()
        if not np.isfinite(ends).all():  # NaN is the least and the largest of any
            n_wrong = counts.size - int(np.isfinite(counts).sum())
            raise InputError(f"{n_wrong} of {counts.size} counts are NaN or infinite")
        if counts.ndim < 2:
            raise InputError(f"counts have shape {counts.shape}; they are (…, roi, epoch)")
        if group_size < 1:
            raise InputError(f"a group of {group_size} is not a group")
        n_rois, n_epochs = counts.shape[-2:]
        self.check(group_size=group_size, n_rois=n_rois, n_epochs=n_epochs)

    def _check_counts(self, counts: NDArray[Any], group_size: int) -> None:
        """Raise :class:`InputError` unless ``counts`` are whole, from 0 to the group size.

        They may be kept as floats, as after sampling.
        """
        self._check_shape(counts, group_size)
        if counts.size and not (counts.min() >= 0 and counts.max() <= group_size):
            raise InputError(
                f"counts from {counts.min()} to {counts.max()} are not those of {group_size} "
                "members"
            )
        if counts.dtype.kind not in "iu" and (counts != np.floor(counts)).any():
            raise InputError("counts are not whole numbers")


class Identity(BaseMechanism):
    """A mechanism that publishes counts as they are, whatever was done before they were made."""

    @property
    def noise(self) -> Noise:
        """None: what is published is what was counted."""
        return NO_NOISE

    def law(self, group_size: int) -> OutputDistribution:
        """Return that of counts as they are."""
        return OutputDistribution()

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return the counts as float64, the same shape (…, roi, epoch).

        Raises
        ------
        InputError
            If the counts have no ROI and epoch, or the group has no member.
        """
        self._check_shape(counts, group_size)
        return counts.astype(np.float64)


class PostProcessing(BaseMechanism):
    """A mechanism that revises values, noisy or not, without looking at anything else."""

    @property
    def guarantee(self) -> Guarantee:
        """None of its own; after noise it keeps that of the noise, for it sees only its output."""
        return no_guarantee("a fixed function of the counts: equal counts are published alike")

    def law(self, group_size: int) -> OutputDistribution | None:
        """Return that of revised counts, where each is revised by itself."""
        return OutputDistribution().then(self.revise) if self.reach == "cell" else None

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return revised values, float64, shape (…, roi, epoch); nothing is drawn from ``rng``.

        Raises
        ------
        ConfigError, InputError
            If the revision makes no sense for such counts, or they have no ROI and epoch.
        """
        self._check_shape(counts, group_size)
        values: Values = np.array(counts, np.float64, order="C")
        self.revise(values)
        return values

    def revise(self, values: Values) -> None:
        """Revise ``values``, C-contiguous, shape (…, roi, epoch), in place."""
        raise NotImplementedError


class AdditiveNoise(BaseMechanism):
    """A mechanism that adds noise, with the steps that may follow it.

    ``clip`` keeps values within 0 and the group size; ``integers`` then rounds to the nearest
    (``round``, half to even), rounds down (``floor``) or does nothing (``none``). Neither weakens
    a guarantee: they see nothing but the noisy value. Nor is a guarantee of real numbers one of
    floating-point numbers, whose last bits tell what was added to (Mironov, CCS 2012): publish
    integers, or discrete noise, where the last bits are published too.
    """

    clip: bool = False
    integers: Literal["round", "floor", "none"] = "none"

    stage: ClassVar[Stage] = "noise"
    _sensitivity: ClassVar[str] = ""
    _label_last: ClassVar[tuple[str, ...]] = ("l2_sensitivity", "clip", "integers")

    @property
    def title(self) -> str:
        """The noise and the steps after it, in words."""
        size = getattr(self, self._sensitivity) if self._sensitivity else None
        parts = [self._noise_title]
        parts += [] if size is None else [f"sensitivity {exact_number(size)}"]
        parts += {"round": ["rounded"], "floor": ["rounded down"]}.get(self.integers, [])
        return ", ".join([*parts, "from 0 to the group size"] if self.clip else parts)

    @property
    def _noise_title(self) -> str:
        raise NotImplementedError

    @property
    def publishes_float_noise(self) -> bool:
        """Whether noise is published as it was drawn: not rounded, and not discrete."""
        return super().publishes_float_noise and self.integers == "none"

    def bind(self, bounds: Bounds) -> Self:
        """Return the mechanism with the cube's own sensitivity, where none was given."""
        if not self._sensitivity or getattr(self, self._sensitivity) is not None:
            return self
        return self.model_copy(update={self._sensitivity: self.required_sensitivity(bounds)})

    def _norm(self) -> float:
        """Return the sensitivity.

        Raises
        ------
        ConfigError
            If it was neither given nor found.
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
        """The sensitivity, not a number while it is not known."""
        value = getattr(self, self._sensitivity)
        return np.nan if value is None else float(value)

    def law(self, group_size: int) -> OutputDistribution | None:
        """Return that of the noise and the steps after it, where the noise has one."""
        noise = self.noise
        if noise is None or self.reach != "cell" or not np.isfinite(noise.scale):
            return None
        law = OutputDistribution(noise)
        if self.clip or self.integers != "none":
            law = law.then(partial(self.finish, group_size=group_size))
        return law

    def finish(self, values: Values, group_size: int) -> None:
        """Apply the steps to ``values`` in place."""
        if self.clip:
            np.clip(values, 0, group_size, out=values)
        if self.integers != "none":
            (np.rint if self.integers == "round" else np.floor)(values, out=values)

    def _add(self, counts: Counts, group_size: int, draw: Callable[[int], NDArray[Any]]) -> Values:
        """Return finished counts plus ``draw(n)`` noise, block by block."""
        self._check_shape(counts, group_size)
        values: Values = np.empty(counts.shape)
        flat, bare = values.reshape(-1), counts.reshape(-1)
        for start in range(0, len(flat), _BLOCK):
            block = flat[start : start + _BLOCK]
            np.add(draw(len(block)), bare[start : start + _BLOCK], out=block)
            self.finish(block, group_size)
        return values
