"""What all clusters have in common: how they open, and how Dask is set on each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, Any, Protocol

from pydantic import Field

from clusterscale.contracts import Component, Executor
from clusterscale.errors import PackageError

__all__ = ["ONE_THREAD", "SETTINGS", "Cluster", "Distributed", "needs"]

# One thread a task: tasks are the parallelism, and sums must not depend on thread counts.
ONE_THREAD = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}
"""Environment of every worker."""

SETTINGS: dict[str, Any] = {
    "distributed.nanny.pre-spawn-environ": ONE_THREAD,
    "distributed.scheduler.worker-saturation": "inf",  # the executor itself bounds what is flying
    "distributed.scheduler.allowed-failures": 3,
}
"""Of Dask, where this process starts the scheduler or the workers."""


class Cluster(Protocol):
    """A place to run that can be opened and is closed again."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def label(self) -> str:
        """Name with its settings."""

    def open(self) -> AbstractContextManager[Executor]:
        """Start or join the cluster and hand out its executor."""


class Distributed(Component):
    """Any cluster of Dask: how long it may go without finishing anything, in seconds."""

    patience: Annotated[float, Field(gt=0)] = 3600.0


@contextmanager
def needs(cluster: str, extra: str | None = None) -> Iterator[None]:
    """Turn a failed import into a :class:`PackageError` that names what to install."""
    try:
        yield
    except ImportError as error:
        what = f"clusterscale[{extra}]" if extra else "dask and distributed"
        raise PackageError(
            f"cluster {cluster!r} needs {what} ({error}); install it, or use cluster 'serial'"
        ) from None
