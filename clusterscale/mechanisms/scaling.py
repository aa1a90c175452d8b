"""Published values on another scale: expanded to a population, cut at an end, or as shares."""

from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from clusterscale.contracts import Count, Counts, NoiseScope, Positive, Support, Values
from clusterscale.errors import ConfigError, InputError
from clusterscale.mechanisms.base import Margin, PostProcessing
from clusterscale.mechanisms.law import Law
from clusterscale.mechanisms.suppression import Suppression
from clusterscale.validation_messages import exact_number

_UNKNOWN = (
    "expand: the weights of users are not known here: use a cube with weights, or give a number as "
    "factor"
)


class Expand(PostProcessing):
    """Multiply values by the number of people for whom each counted person stands.

    Operators expand the counts of their customers to the population with such factors, such as the
    reciprocal of their market share. This protects nobody: who knows the factor divides by it. A
    threshold after it applies to people who were not counted: with a factor of 5.13, a threshold
    of 5 hides nobody. A factor below 1 is a fraction: where each device is spread evenly over n
    tiles, a tile gets 1/n of it. Fractions that differ between tiles are not included.

    With ``weights``, every user has a factor of their own, which the cube contains, and the sum of
    the weights of those counted is published. Where a step before changed a count, the value is
    multiplied by the mean weight of those counted. As that depends on who is counted, no guarantee
    of noise added before holds; noise cannot be added after it.

    Attributes
    ----------
    factor
        Number of people per counted person, e.g. ``5.13``; or ``weights``, those of the users.
    """

    name: Literal["expand"] = "expand"
    factor: Positive | Literal["weights"]

    @property
    def uses_weights(self) -> bool:  # type: ignore[override]
        """Whether the factors are the weights of users."""
        return self.factor == "weights"

    @property
    def no_guarantee(self) -> str:  # type: ignore[override]
        """Why there is no guarantee."""
        if self.uses_weights:
            return "sums of weights are published as they are"
        return "values divided by the factor are the counts"

    @property
    def phrase(self) -> str:
        """Short description for display."""
        if self.factor == "weights":
            return "values multiplied by the weights of users"
        return f"values multiplied by {exact_number(self.factor)}"

    def law(self, group_size: int) -> Law | None:
        """Return the distribution of an expanded count; None for weights, which differ."""
        return None if self.uses_weights else super().law(group_size)

    def support(self, before: Support, group_size: int) -> Support:
        """Return the multiples of ``before``; for weights, all numbers of the same sign."""
        if self.factor == "weights":
            return Support(0.0 if before.low >= 0 else -np.inf, np.inf, 0.0)
        return Support(*self._ends(before), before.step * self.factor)

    def in_visits(self, values: Values, counts: Counts) -> Values:
        """Return values divided by the factor; as they are for weights."""
        return values if self.factor == "weights" else values / self.factor

    def widen(self, margin: Margin) -> Margin | None:
        """Return the margin times the factor; None for weights, which differ."""
        if self.factor == "weights":
            return None
        whole = margin.whole and float(self.factor).is_integer()
        size, scale = margin.size * self.factor, margin.scale * self.factor
        return Margin(size, margin.share, scale, whole)

    def at_weight(self, weight: float) -> "Expand":
        """Return the expansion by that weight, if the factors are weights.

        Raises ConfigError if the weight is not positive, as where it is not known.
        """
        if not self.uses_weights:
            return self
        if not weight > 0:
            raise ConfigError(f"{self.name}: the mean weight of users is {weight}: give it")
        return self.model_copy(update={"factor": weight})

    def release(
        self,
        counts: Counts,
        *,
        group_size: int,
        rng: np.random.Generator,
        sums: Values | None = None,
    ) -> Values:
        """Return expanded values, float64, the same shape (…, roi, epoch); ``rng`` is not used.

        Raises ConfigError or InputError if the factors are weights and there are no
        ``sums`` of these, of the shape of ``counts``, or ``counts`` do not have the shape
        (…, roi, epoch).
        """
        if not self.uses_weights:
            return super().release(counts, group_size=group_size, rng=rng)
        self._check_shape(counts, group_size)
        if sums is None:
            raise ConfigError(_UNKNOWN)
        if sums.shape != counts.shape:
            raise InputError(f"sums of weights are {sums.shape}, but counts {counts.shape}")
        return np.array(sums, np.float64, order="C")

    def revise(self, values: Values) -> None:
        """Multiply values in place.

        Raises ConfigError if the factors are weights, which are not known of values alone.
        """
        if self.factor == "weights":
            raise ConfigError(_UNKNOWN)
        values *= self.factor


class TopCode(PostProcessing):
    """Publish large values as one largest value.

    Attributes
    ----------
    at
        The largest published value, in visits, e.g. ``100``.
    """

    name: Literal["top_code"] = "top_code"
    at: Count

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return f"values above {self.at:,} shown as {self.at:,}"

    def support(self, before: Support, group_size: int) -> Support:
        """Return ``before`` up to the largest value."""
        low, high = self._ends(before)
        whole = before.step > 0 and self.at % before.step == 0
        return Support(low, high, before.step if whole or high < self.at else 0.0)

    def revise(self, values: Values) -> None:
        """Cut large values in place."""
        np.minimum(values, self.at, out=values)


class BottomCode(Suppression):
    """Publish values from ``least`` to ``at`` as ``at``, and hide those below ``least``.

    Footfall panels such as SafeGraph's publish 2 to 4 devices as 4, and leave out fewer. A
    published ``at`` may thus be that of ``least`` people; a value above it is published as it is.

    Attributes
    ----------
    at
        The published value of ``least`` to this many visits, e.g. ``4``.
    least
        The smallest value that is published, in visits, e.g. ``2``; by default only 0 is hidden.
    shown
        What is published below it: ``zero``; or nothing (``hidden``).
    """

    name: Literal["bottom_code"] = "bottom_code"
    at: Count
    least: Count = 1
    shown: Literal["zero", "hidden"] = "zero"

    no_guarantee = "values above the bottom code are published as they are"

    @model_validator(mode="after")
    def _has_range(self) -> Self:
        if self.least >= self.at:
            raise ValueError(f"least must be below at, {self.at}: else use threshold with k")
        return self

    @property
    def least_shown(self) -> int:
        """The smallest value that is published, in visits."""
        return self.least

    @property
    def least_exact(self) -> int:
        """The smallest value that is published as it is, in visits."""
        return self.at + 1

    @property
    def hidden(self) -> Literal["zero", "hidden", "label"]:
        """What is published instead of a value below ``least``."""
        return self.shown

    @property
    def phrase(self) -> str:
        """Short description for display."""
        below = "set to 0" if self.shown == "zero" else "hidden"
        return f"values from {self.least:,} to {self.at:,} shown as {self.at:,}, lower ones {below}"

    def support(self, before: Support, group_size: int) -> Support:
        """Return the value that stands for hidden ones, and ``before`` from the bottom code."""
        whole = before.step > 0 and self.at % before.step == 0
        return super().support(before if whole else replace(before, step=0.0), group_size)

    def widen(self, margin: Margin) -> Margin:
        """Return the margin with the largest distance from a bottom code."""
        return replace(margin, size=margin.size + self.at - self.least)

    def revise(self, values: Values) -> None:
        """Raise or hide small values in place."""
        np.maximum(values, self.at, out=values, where=~self.hides(values))
        super().revise(values)


class ShareOfTotal(PostProcessing):
    """Publish each value as a share of the sum of all values of its epoch or of the release.

    Where the sum is 0, so are the shares. If the total is known from elsewhere, shares are counts.

    Attributes
    ----------
    of
        The sum over places at each ``epoch``, or over the whole ``release``.
    """

    name: Literal["share_of_total"] = "share_of_total"
    of: Literal["epoch", "release"] = "epoch"

    noise_scope: ClassVar[NoiseScope] = "release"

    @property
    def phrase(self) -> str:
        """Short description for display."""
        return f"shares of the total of {'each epoch' if self.of == 'epoch' else 'the release'}"

    def support(self, before: Support, group_size: int) -> Support:
        """Return the numbers from 0 to 1, if no value is negative."""
        return Support(0.0, 1.0, 0.0) if before.low >= 0 else Support(-np.inf, np.inf, 0.0)

    def in_visits(self, values: Values, counts: Counts) -> Values:
        """Return shares of the totals of ``counts``."""
        return np.asarray(values * self._total(counts), np.float64)

    def revise(self, values: Values) -> None:
        """Divide values by their sum in place."""
        total = self._total(values)
        np.divide(values, total, out=values, where=total != 0)

    def _total(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(values.sum(axis=-2 if self.of == "epoch" else (-2, -1), keepdims=True))
