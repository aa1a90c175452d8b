"""Worker processes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from clusterscale.contracts import Count
from clusterscale.runtime.clusters.place import SETTINGS, Distributed, needs

if TYPE_CHECKING:
    from clusterscale.runtime.dask import DaskExecutor

__all__ = ["Local"]


class Local(Distributed):
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
        with needs("local"):
            import dask
            from distributed import Client, LocalCluster

            from clusterscale.runtime.dask import DaskExecutor
        with (
            dask.config.set(SETTINGS),
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
            yield DaskExecutor(client, patience=self.patience)
