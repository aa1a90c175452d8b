"""The Laplace mechanism."""

from typing import Literal

import numpy as np
from pydantic import model_validator

from clusterscale.contracts import Counts, Guarantee, Noise, Positive, Values
from clusterscale.mechanisms.postprocess import Noisy

__all__ = ["Laplace"]


class Laplace(Noisy):
    """Add independent Laplace noise of scale sensitivity/ε to every count (NDSS18 §VII-A).

    If the counts of neighbouring groups differ by at most ``sensitivity`` in L1 norm, the densities
    of any output differ by at most exp(‖difference‖₁ / scale) ≤ exp(ε), so the release is ε-DP for
    that neighbourhood (Dwork et al., TCC 2006); what follows the noise sees only its output.

    ``unit`` says what one neighbour may change: an ``event`` (sensitivity 1 unless given), all
    events of a ``user_day``, or all of a ``user`` (sensitivity to be given; a sensitivity without
    a unit is taken for a user's).
    """

    name: Literal["laplace"] = "laplace"
    epsilon: Positive
    sensitivity: Positive | None = None
    unit: Literal["event", "user_day", "user"] | None = None

    @model_validator(mode="after")
    def _has_sensitivity(self) -> "Laplace":
        if self.sensitivity is None and self.unit != "event":
            raise ValueError("give a sensitivity, or unit: event (whose sensitivity is 1)")
        return self

    @property
    def scale(self) -> float:
        """Scale of the noise, in visits."""
        return (1.0 if self.sensitivity is None else self.sensitivity) / self.epsilon

    @property
    def guarantee(self) -> Guarantee:
        """Pure ε at the declared unit, under adding or removing one unit."""
        return Guarantee(
            self.unit or "user",
            self.epsilon,
            0.0,
            "add_remove",
            "Laplace noise of scale sensitivity/epsilon",
        )

    @property
    def noise(self) -> Noise:
        """Laplace noise on every count."""
        return Noise("laplace", self.scale)

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return noisy counts, float64, the same shape."""
        values = rng.laplace(0.0, self.scale, counts.shape)
        values += counts
        return self._finish(values, group_size)
