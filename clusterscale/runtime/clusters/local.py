"""Worker processes on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from clusterscale.contracts import Count
from clusterscale.runtime.clusters.base import BUDGET, SETTINGS, Distributed, needs

if TYPE_CHECKING:
    from clusterscale.runtime.dask import DaskExecutor

__all__ = ["Local"]

# A worker that dies is started again by its nanny, however long that takes. Without this, Dask
# closes the nanny for good if its worker is away 15 seconds after any of its deaths.
_NEVER = {"distributed.deploy.lost-worker-timeout": "3650 days"}


class Local(Distributed):
    """Worker processes on this machine, one thread each; by default as many as processors."""

    name: Literal["local"] = "local"
    workers: Count | None = None
    memory: str = "auto"

    @property
    def n_workers(self) -> int:
        """As set, or as many as there are processors for this process."""
        return self.workers or len(os.sched_getaffinity(0))

    @property
    def budget(self) -> int | None:
        """Bytes that work may use on each worker; of its share of this machine if ``auto``."""
        if self.memory != "auto":
            return super().budget
        try:
            from distributed.system import MEMORY_LIMIT
        except ImportError:  # as whoever opens it will be told
            return None
        return int(BUDGET * MEMORY_LIMIT / self.n_workers)

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
            dask.config.set(SETTINGS | _NEVER),
            LocalCluster(
                n_workers=self.n_workers,
                threads_per_worker=1,
                memory_limit=self.memory,
                dashboard_address="127.0.0.1:0",
                host="127.0.0.1",
                silence_logs="ERROR",
            ) as cluster,
            Client(cluster) as client,
        ):
            yield DaskExecutor(client, patience=self.patience)
