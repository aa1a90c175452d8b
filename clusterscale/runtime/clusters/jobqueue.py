"""Workers in jobs of a batch system; scheduler and driver run where the command is started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from pathlib import Path
from shlex import quote
from time import time
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self
from uuid import uuid4

from pydantic import AfterValidator, Field, Strict

from clusterscale.contracts import Count
from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters import base
from clusterscale.runtime.security import Encryption, Tls, encrypt

if TYPE_CHECKING:
    from dask_jobqueue import JobQueueCluster

    from clusterscale.runtime.dask import DaskExecutor


_JOB = "clusterscale"  # name of jobs, with which the names of their logs begin
_DEATH = 60.0  # seconds after which a worker without a scheduler gives up


def _check_size(text: str) -> str:
    base.to_bytes(text)
    return text


Size = Annotated[str, AfterValidator(_check_size)]
Lines = Annotated[tuple[str, ...], Field(strict=False)]


class JobQueue(base.Distributed):
    """Jobs of a batch system, each with workers of one thread.

    A job that ends is replaced, whether its walltime is over, it was cancelled or its node was
    lost. The jobs end with the command.

    Attributes
    ----------
    jobs
        Number of jobs.
    workers_per_job
        Number of workers in each job.
    memory
        Memory of a worker, e.g. ``4GiB``.
    interface
        Network interface of scheduler and workers, e.g. ``ib0``.
    directives
        Further directives of the job script, e.g. ``[--exclusive]``.
    prologue
        First commands of a job, e.g. ``[module load python]``.
    python
        Interpreter of the workers, e.g. ``/opt/clusterscale/bin/python``; None: that of the driver.
    scratch
        Folder for temporary files of a worker, e.g. ``/tmp``.
    shared
        Folder for logs and certificates that all nodes share.
    keep_logs
        How long logs of jobs are kept, in days; a later run deletes older ones.
    tls
        Certificates, e.g. ``{ca: ca.pem, certificate: cert.pem, key: key.pem}``; None: new ones for
        each run.
    """

    name: str
    jobs: Count = 1
    workers_per_job: Count = 1
    memory: Size = "4GiB"
    interface: str | None = None
    directives: Lines = ()
    prologue: Lines = ()
    python: str | None = None
    scratch: str | None = None
    shared: str = "~/.clusterscale"
    keep_logs: Annotated[float, Strict(), Field(gt=0)] = 30.0
    tls: Encryption = None

    _class: ClassVar[str]
    _own: ClassVar[dict[str, str]]  # config keys to the argument names of dask-jobqueue
    _listing: ClassVar[tuple[str, ...]] = ()  # prints the id of each job that has not ended

    @property
    def n_workers(self) -> int:
        """Number of workers of all jobs."""
        return self.jobs * self.workers_per_job

    def resize(self, n_workers: int) -> Self:
        """Return a copy with as many jobs as ``n_workers`` need."""
        return self.model_copy(update={"jobs": -(-n_workers // self.workers_per_job)})

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Submit the jobs, and cancel them at the end.

        Raises PackageError without dask-jobqueue, and ClusterError if the scheduler cannot start,
        or a job cannot be submitted.
        """
        with base.needs(self.name, "slurm"):
            module = load_dask_jobqueue()
            import dask
            from distributed import Client

            from clusterscale.runtime.dask import DaskExecutor
            from clusterscale.runtime.jobs import Jobs
        shared = Path(self.shared).expanduser().absolute()
        with ExitStack() as stack:
            stack.enter_context(dask.config.set(base.SETTINGS))
            _discard_logs(shared / "logs", self.keep_logs)
            tls = stack.enter_context(encrypt(self.tls, shared))
            cluster = stack.enter_context(self._start(module, tls, shared / "logs"))
            jobs = Jobs(cluster, self.jobs, self._listing, shared / "logs")
            jobs.submit()
            client = stack.enter_context(Client(cluster))
            stack.callback(base.end_workers, client)
            yield DaskExecutor(client, patience=self.patience, replace_lost=jobs.replace_lost)

    def _start(self, module: ModuleType, tls: Tls | None, logs: Path) -> JobQueueCluster:
        try:
            return getattr(module, self._class)(**self.arguments(tls, logs))
        except (RuntimeError, ValueError, OSError) as error:
            raise ClusterError(f"cluster {self.name!r} cannot start: {error}") from None

    def arguments(self, tls: Tls | None, logs: Path) -> dict[str, Any]:
        """Return the arguments of dask-jobqueue's cluster class."""
        own = {argument: getattr(self, key) for key, argument in self._own.items()}
        shared = base.shared_traces(uuid4().hex, self.n_workers, self.scratch)
        variables = base.worker_environment() | shared
        return {
            **{key: value for key, value in own.items() if value is not None},
            "cores": self.workers_per_job,
            "processes": self.workers_per_job,
            "memory": f"{self.workers_per_job * base.to_bytes(self.memory)}B",
            "interface": self.interface,
            "job_name": _JOB,
            "job_extra_directives": list(self.directives),
            "job_script_prologue": [
                *(f"export {key}={quote(value)}" for key, value in variables.items()),
                *self.prologue,
            ],
            "python": self.python,
            "local_directory": self.scratch,
            "log_directory": str(logs),
            "death_timeout": f"{_DEATH:g}",
            "worker_extra_args": self._worker_flags(),
            "scheduler_options": {"dashboard_address": "127.0.0.1:0"},
            "protocol": "tls://" if tls else "tcp://",
            "security": tls.security() if tls else None,
        }

    def _worker_flags(self) -> list[str]:
        # A worker serves health and metrics over HTTP even without a dashboard.
        return ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]


def _discard_logs(folder: Path, days: float) -> None:
    """Delete logs of our jobs that are older; other files of the folder may be of anybody."""
    for file in folder.glob(f"{_JOB}[-.]*"):
        with suppress(OSError):  # another run deletes it, too
            if time() - file.stat().st_mtime > 86_400.0 * days:
                file.unlink()


def load_dask_jobqueue() -> ModuleType:
    """Import dask-jobqueue and restore the handler of SIGINT, which the import replaces."""
    before = signal.getsignal(signal.SIGINT)
    module = import_module("dask_jobqueue")
    signal.signal(signal.SIGINT, before)
    return module


def to_seconds(walltime: str) -> int:
    """Return the seconds of ``HH:MM:SS``."""
    hours, minutes, seconds = map(int, walltime.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def _check_walltime(text: str) -> str:
    if to_seconds(text) < 60:  # seconds
        raise ValueError("a walltime must be a minute or more")
    return text


Walltime = Annotated[str, Field(pattern=r"^\d+:[0-5]\d:[0-5]\d$"), AfterValidator(_check_walltime)]


class _Timed(JobQueue):
    """Jobs with a walltime; their workers stop before it, at staggered times.

    Attributes
    ----------
    walltime
        Longest time of a job, HH:MM:SS.
    queue
        Queue or partition of the jobs, e.g. ``long``.
    account
        Account or project of the jobs, e.g. ``privacy``.
    """

    walltime: Walltime = "01:00:00"
    queue: str | None = None
    account: str | None = None

    _own: ClassVar[dict[str, str]] = {key: key for key in ("walltime", "queue", "account")}

    def _worker_flags(self) -> list[str]:
        seconds = to_seconds(self.walltime)
        # 300.0: maximal seconds before the walltime by which all workers of a job have stopped
        margin = min(300.0, seconds / 5)
        lifetime = ["--lifetime", f"{seconds - 2 * margin:g}s"]
        return [*super()._worker_flags(), *lifetime, "--lifetime-stagger", f"{margin:g}s"]


class _Sized(_Timed):
    """Jobs whose processors and memory are requested by one resource string.

    Attributes
    ----------
    resources
        Resource string of the batch system, e.g. ``select=1:ncpus=1:mem=4GB``.
    """

    resources: str | None = None

    _own: ClassVar[dict[str, str]] = _Timed._own | {"resources": "resource_spec"}


class Slurm(_Timed):
    """Jobs of Slurm."""

    name: Literal["slurm"] = "slurm"

    _class: ClassVar[str] = "SLURMCluster"
    _listing: ClassVar[tuple[str, ...]] = (
        *("squeue", "--noheader", "--format=%A"),
        f"--user={os.getuid()}",
    )


class Pbs(_Sized):
    """Jobs of PBS."""

    name: Literal["pbs"] = "pbs"

    _class: ClassVar[str] = "PBSCluster"


class Moab(_Sized):
    """Jobs of Moab."""

    name: Literal["moab"] = "moab"

    _class: ClassVar[str] = "MoabCluster"


class Sge(_Sized):
    """Jobs of SGE, which limits memory only by ``resources``."""

    name: Literal["sge"] = "sge"

    _class: ClassVar[str] = "SGECluster"
    _own: ClassVar[dict[str, str]] = _Sized._own | {"account": "project"}


class Oar(_Sized):
    """Jobs of OAR, which reserves memory only if ``memory_property`` names a node property.

    Attributes
    ----------
    memory_property
        Node property by which memory is reserved.
    """

    name: Literal["oar"] = "oar"
    memory_property: str = "not_applicable"

    _class: ClassVar[str] = "OARCluster"
    _own: ClassVar[dict[str, str]] = Sge._own | {"memory_property": "memory_per_core_property_name"}


class Lsf(_Timed):
    """Jobs of LSF."""

    name: Literal["lsf"] = "lsf"

    _class: ClassVar[str] = "LSFCluster"
    _own: ClassVar[dict[str, str]] = {"queue": "queue", "account": "project"}

    def arguments(self, tls: Tls | None, logs: Path) -> dict[str, Any]:
        """Return the arguments of dask-jobqueue; LSF's walltime is in minutes."""
        hours, minutes, _ = self.walltime.split(":")
        return super().arguments(tls, logs) | {"walltime": f"{hours}:{minutes}"}


class HtCondor(JobQueue):
    """Jobs of HTCondor, which have no walltime; directives are ``key = value``.

    Attributes
    ----------
    disk
        Disk space of a job, e.g. ``4GiB``.
    """

    name: Literal["htcondor"] = "htcondor"
    disk: Size = "4GiB"

    _class: ClassVar[str] = "HTCondorCluster"
    _own: ClassVar[dict[str, str]] = {"disk": "disk"}

    def arguments(self, tls: Tls | None, logs: Path) -> dict[str, Any]:
        """Return the arguments of dask-jobqueue; HTCondor's directives are a mapping."""
        pairs = (line.partition("=") for line in self.directives)
        directives = {key.strip(): value.strip() for key, _, value in pairs}
        return super().arguments(tls, logs) | {"job_extra_directives": directives}
