"""What may follow noise without weakening its guarantee: clip to [0, m], then integers."""

from typing import Literal

import numpy as np

from clusterscale.contracts import Component, Values

__all__ = ["Noisy"]


class Noisy(Component):
    """A mechanism that adds noise, with the steps that may follow it.

    ``clip`` keeps values within 0 and the group size; ``integers`` then rounds to the nearest
    (``round``, half to even), rounds down (``floor``) or does nothing (``none``).
    """

    clip: bool = False
    integers: Literal["round", "floor", "none"] = "none"

    def _finish(self, values: Values, group_size: int) -> Values:
        """Apply the steps to ``values`` in place and return them."""
        if self.clip:
            np.clip(values, 0, group_size, out=values)
        if self.integers != "none":
            (np.rint if self.integers == "round" else np.floor)(values, out=values)
        return values
