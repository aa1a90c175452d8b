"""Clusters of this machine: one process, or several workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from clusterscale.contracts import Count
from clusterscale.runtime.clusters import base
from clusterscale.runtime.security import make_certificates
from clusterscale.runtime.serial import SerialExecutor

if TYPE_CHECKING:
    from clusterscale.runtime.dask import DaskExecutor


# The nanny of a worker that died restarts it, however long that takes. Without this setting, Dask
# closes the nanny for good if the worker is not back after 15 seconds.
_NEVER = {"distributed.deploy.lost-worker-timeout": "3650 days"}

# HTTP has no password: only whether a process is well is served, and no link is shown.
_NO_DASHBOARD = {
    "distributed.scheduler.http.routes": ["distributed.http.health"],
    "distributed.worker.http.routes": ["distributed.http.health"],
    "distributed.dashboard.link": "",
}


class Serial(base.Cluster):
    """Run in this process, without Dask."""

    name: Literal["serial"] = "serial"

    @contextmanager
    def open(self) -> Iterator[SerialExecutor]:
        """Yield the executor."""
        yield SerialExecutor()


class Local(base.Distributed):
    """Worker processes on this machine, one thread each; by default one per processor.

    Scheduler and workers listen on the loopback interface, which all users of the machine share, so
    each run has certificates of its own and accepts no other connection. ``dashboard`` serves
    Dask's dashboard without a password: any user of this machine can then read it.

    Attributes
    ----------
    workers
        Number of workers, e.g. ``4``; None: one per processor.
    memory
        Memory of a worker, e.g. ``4GiB``, or ``auto``: its share of this machine's.
    dashboard
        Whether Dask's dashboard is served.
    """

    name: Literal["local"] = "local"
    workers: Count | None = None
    memory: str = "auto"
    dashboard: bool = False

    @property
    def n_workers(self) -> int:
        """Configured number, or the number of processors available to this process."""
        return self.workers or len(os.sched_getaffinity(0))

    @property
    def usable_memory(self) -> int | None:
        """Bytes that work may use on each worker; ``auto`` divides this machine's memory."""
        if self.memory != "auto":
            return super().usable_memory
        from distributed.system import MEMORY_LIMIT

        return int(base.USABLE * MEMORY_LIMIT / self.n_workers)

    @contextmanager
    def _of_run(self, private: str) -> Iterator[dict[str, Any]]:
        """Yield settings of a run, and put the environment back, in which Dask leaves its own."""
        shared = base.shared_traces("run", 1, private) if self.n_workers > 1 else {}
        environment = base.ENVIRONMENT | shared
        before = {name: os.environ.get(name) for name in environment}
        try:
            yield {
                "temporary-directory": private,
                "distributed.nanny.pre-spawn-environ": environment,
            }
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Start the workers, and stop them at the end."""
        import dask
        from distributed import Client, LocalCluster

        from clusterscale.runtime.dask import DaskExecutor

        shown = {} if self.dashboard else _NO_DASHBOARD
        with (
            # Readable by this user only, so that nobody else can place anything in it.
            TemporaryDirectory(prefix="clusterscale-") as private,
            self._of_run(private) as of_run,
            dask.config.set(base.SETTINGS | _NEVER | shown | of_run),
            LocalCluster(
                n_workers=self.n_workers,
                threads_per_worker=1,
                memory_limit=self.memory,
                dashboard_address="127.0.0.1:0",
                scheduler_kwargs={"dashboard": self.dashboard},
                host="127.0.0.1",
                protocol="tls://",
                security=make_certificates(f"{private}/tls", days=30).security(),
                silence_logs="ERROR",
            ) as cluster,
            Client(cluster) as client,
        ):
            yield DaskExecutor(client, patience=self.patience)
