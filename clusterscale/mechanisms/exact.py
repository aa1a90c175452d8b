"""No defence: the counts themselves."""

from typing import Literal

from clusterscale.contracts import Guarantee
from clusterscale.mechanisms.base import Identity, no_guarantee

__all__ = ["Exact"]


class Exact(Identity):
    """Publish the counts as they are."""

    name: Literal["exact"] = "exact"

    @property
    def guarantee(self) -> Guarantee:
        """None: a count tells about each of its members."""
        return no_guarantee("counts are published as they are")
