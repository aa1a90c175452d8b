"""No cluster at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from clusterscale.contracts import Component
from clusterscale.runtime.serial import SerialExecutor

__all__ = ["Serial"]


class Serial(Component):
    """Work in this process alone, without Dask."""

    name: Literal["serial"] = "serial"

    @contextmanager
    def open(self) -> Iterator[SerialExecutor]:
        """Hand out the executor; there is nothing to start."""
        yield SerialExecutor()
