"""A measure of utility."""

from typing import Literal

import numpy as np

from clusterscale.utility import Utility


class LargestError(Utility):
    """The largest error of any cell, in visits."""

    name: Literal["largest_error"] = "largest_error"
    ideal = 0.0
    kind = "relative"

    def measure(self, raw, released):
        return float(np.abs(np.asarray(released) - np.asarray(raw)).max())
