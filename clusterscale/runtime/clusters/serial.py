"""Run in this process, without a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Literal, Self

from clusterscale.contracts import ConfigModel
from clusterscale.errors import InputError
from clusterscale.runtime.serial import SerialExecutor

__all__ = ["Serial"]


class Serial(ConfigModel):
    """Run in this process, without Dask."""

    name: Literal["serial"] = "serial"

    n_workers: ClassVar[int] = 1
    budget: ClassVar[int | None] = None

    def resize(self, n_workers: int) -> Self:
        """Raise an error, because this process cannot have several workers.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError("cluster serial has no configurable number of workers")

    @contextmanager
    def open(self) -> Iterator[SerialExecutor]:
        """Yield the executor."""
        yield SerialExecutor()
