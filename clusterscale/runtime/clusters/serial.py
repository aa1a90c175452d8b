"""No cluster at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Literal, Self

from clusterscale.contracts import ConfigModel
from clusterscale.errors import InputError
from clusterscale.runtime.serial import SerialExecutor

__all__ = ["Serial"]


class Serial(ConfigModel):
    """Work in this process alone, without Dask."""

    name: Literal["serial"] = "serial"

    n_workers: ClassVar[int] = 1
    budget: ClassVar[int | None] = None

    def resize(self, n_workers: int) -> Self:
        """Refuse, for this process is alone.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError("cluster serial has no number of workers to choose")

    @contextmanager
    def open(self) -> Iterator[SerialExecutor]:
        """Hand out the executor; there is nothing to start."""
        yield SerialExecutor()
