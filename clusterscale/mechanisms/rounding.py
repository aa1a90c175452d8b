"""Rounding of counts to multiples of a base, as statistics offices publish them."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, Strict

from clusterscale.contracts import Counts, NoiseScope, Support, UsualSettings, Values
from clusterscale.errors import ConfigError
from clusterscale.mechanisms.base import BaseMechanism
from clusterscale.mechanisms.law import FiniteDistribution, Law, OutputDistribution


class RoundToBase(BaseMechanism):
    """Round counts to multiples of a base, at random without bias or to the nearest.

    With ``random``, a count with remainder r goes up with probability r/``base`` and else down, so
    its expectation is the count (Fellegi 1975); multiples stay. With ``nearest``, half goes up.
    Cells are rounded separately: totals of rounded cells are not rounded totals. Controlled
    rounding, which keeps totals, is not included.

    Attributes
    ----------
    base
        The published values are multiples of this, in visits, e.g. ``3``.
    rule
        At ``random``, or to the ``nearest`` multiple.
    """

    name: Literal["round_to_base"] = "round_to_base"
    usual = (UsualSettings({}, {"base": (3, 5, 10), "rule": ("random", "nearest")}, rank=2),)
    base: Annotated[int, Strict(), Field(ge=2, lt=2**31)]
    rule: Literal["random", "nearest"] = "random"

    noise_scope: ClassVar[NoiseScope] = "cell"
    whole_output: ClassVar[bool] = True
    no_guarantee = "the two nearest multiples of the base bound each count"

    @property
    def noise_is_count_independent(self) -> bool:  # type: ignore[override]
        """Whether nothing is drawn."""
        return self.rule == "nearest"

    @property
    def phrase(self) -> str:
        """Short description for display."""
        how = "at random" if self.rule == "random" else "to the nearest"
        return f"counts rounded {how}, base {self.base:,}"

    def check(self, *, group_size: int, n_rois: int, n_epochs: int) -> None:
        """Raise :class:`ConfigError` if the base exceeds every count."""
        if self.base > group_size:
            raise ConfigError(f"{self.name}: base {self.base} is above all counts of {group_size}")

    def law(self, group_size: int) -> Law:
        """Return the output distribution of a count."""
        if self.rule == "nearest":
            return OutputDistribution().then(self._to_nearest)
        return FiniteDistribution(self._outcomes)

    def support(self, before: Support, group_size: int) -> Support:
        """Return the multiples of the base around ``before``."""
        low, high = np.floor(before.low / self.base), np.ceil(before.high / self.base)
        return Support(float(low * self.base), float(high * self.base), float(self.base))

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return multiples of the base, float64, the same shape (…, roi, epoch).

        Raises
        ------
        ConfigError, InputError
            If the base exceeds every count, or these do not have the shape (…, roi, epoch).
        """
        self._check_shape(counts, group_size)
        values: Values = np.array(counts, np.float64, order="C")
        if self.rule == "nearest":
            self._to_nearest(values)
            return values
        remainder = np.mod(values, self.base)
        values -= remainder
        values += self.base * (rng.random(values.shape) * self.base < remainder)
        return values

    def _outcomes(self, counts: NDArray[Any]) -> tuple[Values, Values]:
        remainder = np.mod(counts, self.base)
        low = np.asarray(counts - remainder, np.float64)
        up = remainder / self.base
        return np.stack([low, low + self.base], axis=-1), np.stack([1 - up, up], axis=-1)

    def _to_nearest(self, values: Values) -> None:
        values /= self.base
        values += 0.5
        np.floor(values, out=values)
        values *= self.base
