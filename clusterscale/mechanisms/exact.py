"""No defence: the counts themselves."""

from typing import Literal

import numpy as np

from clusterscale.contracts import NO_NOISE, Counts, Guarantee, Noise, Values
from clusterscale.mechanisms.defence import Defence, no_guarantee

__all__ = ["Exact"]


class Exact(Defence):
    """Publish the counts as they are."""

    name: Literal["exact"] = "exact"

    @property
    def guarantee(self) -> Guarantee:
        """None: a count tells about each of its members."""
        return no_guarantee("counts are published as they are")

    @property
    def noise(self) -> Noise:
        """None: what is published is what was counted."""
        return NO_NOISE

    def release(self, counts: Counts, *, group_size: int, rng: np.random.Generator) -> Values:
        """Return the counts as float64, the same shape."""
        self._check_shape(counts, group_size)
        return counts.astype(np.float64)
