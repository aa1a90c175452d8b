"""Base classes of mechanisms: checks of counts, unchanged counts, and post-processing."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from clusterscale.contracts import (
    NO_NOISE,
    Counts,
    Guarantee,
    Mechanism,
    Noise,
    NoiseScope,
    Support,
    TraceStep,
    Values,
)
from clusterscale.errors import InputError
from clusterscale.mechanisms.law import Law, OutputDistribution
from clusterscale.registry import Registry

MECHANISMS: Registry[Mechanism] = Registry.of_package(
    "mechanism", "clusterscale.mechanisms", Mechanism, plugins="clusterscale.mechanisms"
)

_ABSENT = (
    "no mechanism rounds cells so that their totals, which are published too, remain their sums; "
    "round_to_base rounds every value by itself, and would be called inconsistent"
)
MECHANISMS.absent |= {
    "controlled_rounding": _ABSENT,
    "small_count_rounding": f"it rounds counts below its base only; {_ABSENT}",
}

Stage = Literal["trace", "sample", "noise", "publish"]
STAGES: tuple[Stage, ...] = ("trace", "sample", "noise", "publish")
"""The order of the steps of a chain: on traces, counted events, counts, and published values."""

FLOAT_NOISE_RISK = (
    "the low-order bits of unrounded noisy values can reveal the count that the noise was added to "
    "(Mironov, CCS 2012), so the guarantee does not cover floating-point numbers"
)
FLOAT_NOISE_REMEDY = "publish whole numbers: integers: round, or for laplace discrete: true"


USE_LAPLACE = "use laplace with discrete: true"
"""The remedy where real counts must not be published with another noise."""
USUAL_EPSILONS = {"least": 0.05, "most": 5.0, "n": 7}
"""Values of ε that advice tries, evenly spaced on a logarithmic scale."""


@dataclass(frozen=True, slots=True)
class Margin:
    """How far from its count a published value is.

    Attributes
    ----------
    size
        Largest distance, in visits, that is not exceeded with probability ``share``.
    share
        Least probability of that.
    scale
        Standard deviation of what is drawn, in visits, at most.
    whole
        Whether values are whole numbers.
    """

    size: float = 0.0
    share: float = 1.0
    scale: float = 0.0
    whole: bool = True


class BaseMechanism(Mechanism):
    """A mechanism that can be a step of a chain, and checks its counts."""

    stage: ClassVar[Stage] = "publish"
    whole_output: ClassVar[bool] = False
    """Whether published values are on a fixed grid, such as whole numbers, for any input."""

    no_guarantee: ClassVar[str] = "nothing is added that would hide a member"
    """Why there is no guarantee, unless ``guarantee`` is overridden."""

    @property
    def guarantee(self) -> Guarantee:
        """No guarantee, unless overridden."""
        return Guarantee("none", np.inf, 0.0, "add_remove", self.no_guarantee)

    @property
    def publishes_float_noise(self) -> bool:
        """Whether continuous noise is published without rounding it.

        The low-order bits of floating-point noise can reveal the count that it was added to
        (Mironov, CCS 2012). True for mechanisms that add noise, unless they override it.
        """
        return not self.whole_output and (self.stage == "noise" or super().publishes_float_noise)

    def law(self, group_size: int) -> Law | None:
        """Return None: no known output distribution of a single count."""
        return None

    def widen(self, margin: Margin) -> Margin | None:
        """Return the margin of the values that are shown, given that of the values before.

        None, as by default, if it is not known, or values are no counts.
        """
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
    noise: ClassVar[Noise] = NO_NOISE
    hides_more_in_larger_groups: ClassVar[bool] = True
    """Counts are the sum of what members contribute."""

    def law(self, group_size: int) -> OutputDistribution:
        """Return the distribution of unchanged counts."""
        return OutputDistribution()

    def support(self, before: Support, group_size: int) -> Support:
        """Return ``before``."""
        return before

    def widen(self, margin: Margin) -> Margin:
        """Return ``margin``."""
        return margin

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return the counts as float64, the same shape (…, roi, epoch).

        Raises InputError if the counts are not finite or not (…, roi, epoch), or the group
        has no member.
        """
        self._check_shape(counts, group_size)
        return counts.astype(np.float64)


class Exact(Identity):
    """Publish the counts unchanged."""

    name: Literal["exact"] = "exact"
    publish_seconds = 0.0

    no_guarantee = "counts are published as they are"


class PostProcessing(BaseMechanism):
    """A deterministic function of values, noisy or not, and of nothing else.

    After noise, the guarantee of the noise holds (post-processing).
    """

    no_guarantee = "a deterministic function of the counts"
    noise_scope: ClassVar[NoiseScope] = "cell"
    noise_is_count_independent: ClassVar[bool] = True

    def law(self, group_size: int) -> Law | None:
        """Return the distribution of a revised count; None unless counts are revised one by one."""
        return OutputDistribution().then(self.revise) if self.noise_scope == "cell" else None

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return revised values, float64, shape (…, roi, epoch); ``rng`` is not used.

        Raises ConfigError or InputError if the settings do not suit the counts, or these do
        not have the shape (…, roi, epoch).
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


def group_by_trace_steps(
    mechanisms: Iterable[Mechanism],
) -> list[tuple[tuple[TraceStep, ...], list[Mechanism]]]:
    """Group mechanisms by their trace steps, in order of occurrence, to apply these once."""
    groups: dict[tuple[TraceStep, ...], list[Mechanism]] = {}
    for mechanism in mechanisms:
        groups.setdefault(mechanism.trace_steps, []).append(mechanism)
    return list(groups.items())
