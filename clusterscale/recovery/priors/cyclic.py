"""Base of priors with a daily or weekly cycle."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clusterscale.contracts import NamedModel
from clusterscale.recovery.epoch_belief import Ids

__all__ = ["DAY", "WEEK", "Cyclic"]

DAY, WEEK = 24, 168  # epochs, which are hours


class Cyclic(NamedModel):
    """A prior with equal beliefs for all epochs at the same position in a cycle (PETS17 §3.2.1)."""

    cycle: ClassVar[int]

    @property
    def needs(self) -> int:
        """Number of epochs that must be observed: one full cycle."""
        return self.cycle

    @property
    def hourly(self) -> bool:
        """Whether epochs must be hours."""
        return self.cycle > 1

    def season(self, epoch: int) -> int:
        """Return the position of an epoch in the cycle."""
        return epoch % self.cycle

    def seen(self, observed: int, epoch: int) -> Ids:
        """Return the observed epochs at that position in the cycle, int64, shape (epoch,)."""
        return np.arange(self.season(epoch), observed, self.cycle)
