"""Seasons: what comes again after so many epochs."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from clusterscale.contracts import NamedModel
from clusterscale.recovery.epoch_belief import Ids

__all__ = ["DAY", "WEEK", "Cyclic"]

DAY, WEEK = 24, 168  # epochs, which are hours


class Cyclic(NamedModel):
    """A prior that says the same of all epochs of one season (PETS17 §3.2.1)."""

    cycle: ClassVar[int]

    @property
    def needs(self) -> int:
        """One whole cycle."""
        return self.cycle

    @property
    def hourly(self) -> bool:
        """Whether a cycle is of hours."""
        return self.cycle > 1

    def season(self, epoch: int) -> int:
        """Return the place of an epoch in the cycle."""
        return epoch % self.cycle

    def seen(self, observed: int, epoch: int) -> Ids:
        """Return the observed epochs in the season of ``epoch``, int64, shape (epoch,)."""
        return np.arange(self.season(epoch), observed, self.cycle)
