"""A mechanism."""

from typing import Literal

import numpy as np

from clusterscale.contracts import Guarantee, Mechanism, Positive


class UniformNoise(Mechanism):
    """Add noise that is uniform from −width to width."""

    name: Literal["uniform_noise"] = "uniform_noise"
    width: Positive = 2.0

    @property
    def guarantee(self):
        return Guarantee("none", np.inf, 0.0, "add_remove", "extreme values reveal the count")

    def release(self, counts, *, group_size, rng):
        return counts + rng.uniform(-self.width, self.width, counts.shape)
