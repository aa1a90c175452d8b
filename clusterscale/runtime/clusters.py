"""Clusters by name, as a config names them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Literal, Protocol

from clusterscale.contracts import Component, Count, Executor
from clusterscale.errors import PackageError
from clusterscale.registry import Registry
from clusterscale.runtime.serial import SerialExecutor

if TYPE_CHECKING:
    from clusterscale.runtime.dask import DaskExecutor

__all__ = ["CLUSTERS", "Cluster", "Local", "Serial"]

# One thread a task: tasks are the parallelism, and sums must not depend on thread counts.
_ONE_THREAD = {
    name: "1"
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
}


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


class Serial(Component):
    """Work in this process alone, without Dask."""

    name: Literal["serial"] = "serial"

    @contextmanager
    def open(self) -> Iterator[SerialExecutor]:
        """Hand out the executor; there is nothing to start."""
        yield SerialExecutor()


class Local(Component):
    """Worker processes on this machine, one thread each; by default as many as processors."""

    name: Literal["local"] = "local"
    workers: Count | None = None
    memory: str = "auto"

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Start the workers, and stop them at the end.

        Raises
        ------
        PackageError
            If distributed is not installed.
        """
        try:
            import dask
            from distributed import Client, LocalCluster

            from clusterscale.runtime.dask import DaskExecutor
        except ImportError as error:
            raise PackageError(
                f"cluster 'local' needs dask and distributed ({error}); install them, or use "
                "cluster 'serial'"
            ) from None
        settings = {
            "distributed.nanny.pre-spawn-environ": _ONE_THREAD,
            "distributed.scheduler.worker-saturation": "inf",
        }
        with (
            dask.config.set(settings),
            LocalCluster(
                n_workers=self.workers or len(os.sched_getaffinity(0)),
                threads_per_worker=1,
                memory_limit=self.memory,
                dashboard_address="127.0.0.1:0",
                host="127.0.0.1",
                silence_logs="ERROR",
            ) as cluster,
            Client(cluster) as client,
        ):
            yield DaskExecutor(client)


CLUSTERS: Registry[Cluster] = Registry("cluster", Serial, Local)
