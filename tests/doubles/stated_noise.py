"""A step of a mechanism whose guarantee, and the scope of whose noise, are settings."""

from clusterscale.mechanisms.base import BaseMechanism


class StatedNoise(BaseMechanism):
    """Noise with a stated guarantee; what it draws is of the class derived from it."""

    unit: str = "event"
    epsilon: float = 1.0
    delta: float = 0.0
    scope: str = "cell"

    stage = "noise"
    publish_refusal = "it is for tests"

    @property
    def noise_scope(self):
        """Whether each cell has noise of its own, or the release."""
        return self.scope
