"""Raw counts, without protection."""

from typing import Literal

from clusterscale.contracts import Guarantee
from clusterscale.mechanisms.base import Identity, no_guarantee

__all__ = ["Exact"]


class Exact(Identity):
    """Publish the counts unchanged."""

    name: Literal["exact"] = "exact"

    @property
    def guarantee(self) -> Guarantee:
        """No guarantee."""
        return no_guarantee("counts are published as they are")
