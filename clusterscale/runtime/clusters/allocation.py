"""Run the whole cluster inside one Slurm job, in which every task runs the same command."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Literal

from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters import base
from clusterscale.runtime.clusters.jobqueue import Size, load_dask_jobqueue
from clusterscale.runtime.security import Encryption, Tls, locate, make_certificates

if TYPE_CHECKING:
    from clusterscale.runtime.dask import DaskExecutor
    from clusterscale.runtime.slurm_runner import EncryptedSlurmRunner


class Allocation(base.Distributed):
    """Task 0 of the job is the scheduler, task 1 the driver, all others are workers.

    ``memory`` is that of a worker; the default is the memory that Slurm reports for each task.

    Attributes
    ----------
    memory
        Memory of a worker, e.g. ``4GiB``; None: what Slurm reports.
    interface
        Network interface of scheduler and workers, e.g. ``ib0``.
    scratch
        Folder for temporary files on a worker, e.g. ``/tmp``.
    shared
        Folder that all tasks share.
    tls
        Certificates, e.g. ``{ca: ca.pem, certificate: cert.pem, key: key.pem}``; None: new ones
        for each run.
    """

    name: Literal["slurm-allocation"] = "slurm-allocation"
    memory: Size | None = None
    interface: str | None = None
    scratch: str | None = None
    shared: str = "~/.clusterscale"
    tls: Encryption = None

    @property
    def usable_memory(self) -> int | None:
        """Bytes that work may use on each worker, None if Slurm does not report the memory."""
        memory = self._worker_memory()
        return int(base.USABLE * memory) if isinstance(memory, int) else None

    def serve(self) -> None:
        """Run the scheduler or a worker until the work ends, then exit; return only in the driver.

        Raises ClusterError if this is no task of a job, the job is too small, or its tasks cannot
        connect.
        """
        if self._rank() == 1:
            return
        # Slurm signals all tasks at once; only the driver reacts, and it ends the others.
        signal.signal(signal.SIGTERM, lambda *_: None)
        import dask

        try:
            with dask.config.set(base.SETTINGS):
                self._run(lambda *_: sys.exit(0))
        except RuntimeError as error:
            raise ClusterError(f"task {self._rank()} of the job: {error}") from None
        finally:
            if self._rank() == 0:
                rmtree(self._folder(), ignore_errors=True)

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Connect to the scheduler; the other tasks end with the driver.

        Raises PackageError without dask-jobqueue, and ClusterError as :meth:`serve`.
        """
        self._rank()
        with base.needs(self.name, "slurm"):
            from distributed import Client

            from clusterscale.runtime.dask import DaskExecutor
        runner = self._run(signal.getsignal(signal.SIGINT))
        try:
            with Client(runner.scheduler_address, security=runner.security) as client:
                try:
                    yield DaskExecutor(client, patience=self.patience)
                finally:
                    base.end_workers(client)
        finally:
            with suppress(OSError):  # the scheduler has already ended
                runner.close()

    def _rank(self) -> int:
        """Return which task of the job this is."""
        try:
            rank, n_tasks = (int(os.environ[f"SLURM_{key}"]) for key in ("PROCID", "NTASKS"))
        except KeyError:
            raise ClusterError(
                f"cluster {self.name!r} runs only inside a Slurm job: start the command with srun, "
                "in a job of three tasks or more"
            ) from None
        if n_tasks < 3:
            raise ClusterError(
                f"a job of {n_tasks} tasks is too small: one is the scheduler, one the driver, and "
                "the others are workers"
            )
        return rank

    def _folder(self) -> Path:
        """Return the folder that the tasks of this run of this job step share."""
        keys = ("JOB_ID", "RESTART_COUNT", "STEP_ID")
        run = ".".join(os.environ.get(f"SLURM_{key}", "0") for key in keys)
        return Path(self.shared).expanduser().absolute() / f"job-{run}"

    def _run(self, at_interrupt: Any) -> EncryptedSlurmRunner:
        """Start the role of this task; the runner stops scheduler and workers by SIGINT."""
        with base.needs(self.name, "slurm"):
            load_dask_jobqueue()
            from clusterscale.runtime.slurm_runner import EncryptedSlurmRunner
        signal.signal(signal.SIGINT, at_interrupt)
        folder = self._folder()
        if self._rank() == 0:
            folder.mkdir(mode=0o700, parents=True)
            if self.tls is None:
                make_certificates(folder, days=30)
        tls: Tls | None = locate(folder) if self.tls is None else self.tls or None
        network = {"interface": self.interface, "protocol": "tls://" if tls else "tcp://"}
        worker = {
            "nthreads": 1,
            "memory_limit": self._worker_memory(),
            "local_directory": self.scratch,
            "dashboard": False,  # health and metrics are served over HTTP even so
            "dashboard_address": "127.0.0.1:0",
            "env": base.worker_environment()
            | base.shared_traces(folder.name, int(os.environ["SLURM_NTASKS"]), self.scratch),
        }
        return EncryptedSlurmRunner(folder / "scheduler.json", tls, network, worker)

    def _worker_memory(self) -> int | str:
        if self.memory is not None:
            return base.to_bytes(self.memory)
        per_cpu = os.environ.get("SLURM_MEM_PER_CPU")
        if per_cpu is None:
            return "auto"
        return int(per_cpu) * int(os.environ.get("SLURM_CPUS_PER_TASK", "1")) * 2**20
