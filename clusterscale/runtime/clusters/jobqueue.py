"""Workers in jobs of a batch system; scheduler and driver run where the command is started."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from distributed import Status
from pydantic import AfterValidator, Field

from clusterscale.contracts import Count
from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters.base import ENVIRONMENT, SETTINGS, Distributed, needs, to_bytes
from clusterscale.runtime.security import Encryption, Tls, encrypt

if TYPE_CHECKING:
    from dask_jobqueue import JobQueueCluster

    from clusterscale.runtime.dask import DaskExecutor

_DEATH = 60.0  # seconds after which a worker without a scheduler gives up


_ASK = 5.0  # minimal seconds between queries to the batch system
_LONGEST = 300.0  # maximal seconds between them, however many jobs failed
_GRACE = 15.0  # seconds that a job may lose its worker, which a nanny restarts
_FEW = 3  # tolerated number of jobs that end before their first worker
_LINES = 5  # last lines of a log that an error message shows


class Jobs:
    """``n_jobs`` jobs of a cluster, which has the scheduler, that are replaced when they end.

    ``listing`` is a command that prints the ids of all jobs that have not ended; without one, a job
    that ends before its first worker connects is not noticed. ``logs`` is the folder of their
    output.
    """

    def __init__(
        self, cluster: JobQueueCluster, n_jobs: int, listing: tuple[str, ...], logs: Path
    ) -> None:
        self._cluster, self._n_jobs, self._listing, self._logs = cluster, n_jobs, listing, logs
        self._since: dict[str, float] = {}  # when a job lost its last worker
        self._had_workers: set[str] = set()
        self._n_failed = 0  # jobs in a row that ended before their first worker
        self._asked = monotonic()

    def submit(self) -> None:
        """Submit all jobs; raises ClusterError if the batch system accepts none, and why."""
        while len(self._cluster.worker_spec) < self._n_jobs:
            self._cluster.worker_spec.update(self._cluster.new_worker_spec())
        if (refusal := self._cluster.sync(self._open)) and not self._submitted():
            raise ClusterError(f"the batch system accepts no job: {refusal}")

    def replace_lost(self) -> None:
        """Replace the jobs that have ended.

        Raises ClusterError if jobs repeatedly end before their first worker connects, and there is
        no worker.
        """
        self._cluster.sync(self._replace_ended)

    async def _replace_ended(self) -> None:
        vacant = self._vacant()
        if not vacant or monotonic() - self._asked < self._pause():
            return
        self._asked = monotonic()
        ended = await self._ended(vacant)
        self._n_failed += len(ended - self._had_workers)
        if self._n_failed >= max(_FEW, self._n_jobs) and not self._cluster.scheduler.workers:
            raise ClusterError(
                f"{self._n_failed} jobs ended before any worker connected\n{self._log_tail()}"
            )
        for name in ended:
            await self._replace(name)
        refusal = await self._open()
        if refusal and not self._submitted():
            raise ClusterError(f"the batch system accepts no more jobs: {refusal}")

    def _vacant(self) -> set[str]:
        """Return the names of jobs without a worker; record since when."""
        present = {str(worker.name) for worker in self._cluster.scheduler.workers.values()}
        vacant = set()
        for name, spec in self._cluster.worker_spec.items():
            if any(f"{name}{suffix}" in present for suffix in spec.get("group", ("",))):
                if name not in self._had_workers:
                    self._n_failed = 0
                self._had_workers.add(name)
                self._since.pop(name, None)
            else:
                vacant.add(name)
                if name in self._had_workers:
                    self._since.setdefault(name, monotonic())
        return vacant

    def _pause(self) -> float:
        return float(min(_ASK * 2 ** min(self._n_failed, 10), _LONGEST))

    async def _ended(self, vacant: set[str]) -> set[str]:
        jobs = self._cluster.workers
        ended = {name for name in vacant if name not in jobs or jobs[name].job_id is None}
        now = monotonic()
        ended |= {name for name in vacant if now - self._since.get(name, now) > _GRACE}
        if (alive := await self._alive()) is not None:
            ended |= {name for name in vacant & set(jobs) if jobs[name].job_id not in alive}
        return ended

    async def _alive(self) -> set[str] | None:
        """Return the ids of jobs that have not ended, None if not known."""
        if not self._listing:
            return None
        process = await asyncio.create_subprocess_exec(*self._listing, stdout=PIPE, stderr=DEVNULL)
        output, _ = await process.communicate()
        return set(output.decode().split()) if process.returncode == 0 else None

    async def _replace(self, name: str) -> None:
        """Replace a job by a new one of another name."""
        cluster = self._cluster
        if cluster.status is not Status.running:  # it is being closed
            return
        cluster.worker_spec.update(cluster.new_worker_spec())
        del cluster.worker_spec[name]
        self._had_workers.discard(name)
        self._since.pop(name, None)
        if (job := cluster.workers.pop(name, None)) is not None:
            await job.close()

    async def _open(self) -> str:
        """Submit all jobs not yet submitted; return the error of the batch system, or ``""``."""
        try:
            await self._cluster
        except (RuntimeError, ValueError, OSError) as error:
            for job in self._cluster.workers.values():
                if job.job_id is None:  # otherwise the cluster waits for it when it closes
                    job.status = Status.failed
            return str(error).rpartition("stderr:")[2].strip()
        return ""

    def _submitted(self) -> bool:
        return any(job.job_id is not None for job in self._cluster.workers.values())

    def _log_tail(self) -> str:
        """Return the last lines of the newest non-empty log."""
        files = [path for path in self._logs.glob("*") if path.is_file() and path.stat().st_size]
        if not files:
            return f"and wrote no logs to {self._logs}"
        last = max(files, key=lambda path: path.stat().st_mtime)
        lines = last.read_text(errors="replace").splitlines()[-_LINES:]
        return "\n".join([f"last lines of {last}:", *lines])


def _check_size(text: str) -> str:
    to_bytes(text)
    return text


Size = Annotated[str, AfterValidator(_check_size)]
Lines = Annotated[tuple[str, ...], Field(strict=False)]


class JobQueue(Distributed):
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
        with needs(self.name, "slurm"):
            module = load_dask_jobqueue()
            import dask
            from distributed import Client

            from clusterscale.runtime.clusters.jobqueue import Jobs
            from clusterscale.runtime.dask import DaskExecutor
        shared = Path(self.shared).expanduser().absolute()
        with ExitStack() as stack:
            stack.enter_context(dask.config.set(SETTINGS))
            tls = stack.enter_context(encrypt(self.tls, shared))
            cluster = stack.enter_context(self._start(module, tls, shared / "logs"))
            jobs = Jobs(cluster, self.jobs, self._listing, shared / "logs")
            jobs.submit()
            client = stack.enter_context(Client(cluster))
            yield DaskExecutor(client, patience=self.patience, replace_lost=jobs.replace_lost)

    def _start(self, module: ModuleType, tls: Tls | None, logs: Path) -> JobQueueCluster:
        try:
            return getattr(module, self._class)(**self.arguments(tls, logs))
        except (RuntimeError, ValueError, OSError) as error:
            raise ClusterError(f"cluster {self.name!r} cannot start: {error}") from None

    def arguments(self, tls: Tls | None, logs: Path) -> dict[str, Any]:
        """Return the arguments of dask-jobqueue's cluster class."""
        own = {argument: getattr(self, key) for key, argument in self._own.items()}
        return {
            **{key: value for key, value in own.items() if value is not None},
            "cores": self.workers_per_job,
            "processes": self.workers_per_job,
            "memory": f"{self.workers_per_job * to_bytes(self.memory)}B",
            "interface": self.interface,
            "job_name": "clusterscale",
            "job_extra_directives": list(self.directives),
            "job_script_prologue": [
                *(f"export {key}={value}" for key, value in ENVIRONMENT.items()),
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


def load_dask_jobqueue() -> ModuleType:
    """Import dask-jobqueue and restore the handler of SIGINT, which the import replaces."""
    before = signal.getsignal(signal.SIGINT)
    module = import_module("dask_jobqueue")
    signal.signal(signal.SIGINT, before)
    return module


_MARGIN = 300.0  # maximal seconds before the walltime by which all workers of a job have stopped
_SHORTEST = 60  # seconds


def to_seconds(walltime: str) -> int:
    """Return the seconds of ``HH:MM:SS``."""
    hours, minutes, seconds = map(int, walltime.split(":"))
    return 3600 * hours + 60 * minutes + seconds


def _check_walltime(text: str) -> str:
    if to_seconds(text) < _SHORTEST:
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

    _own: ClassVar[dict[str, str]] = {
        "walltime": "walltime",
        "queue": "queue",
        "account": "account",
    }

    def _worker_flags(self) -> list[str]:
        seconds = to_seconds(self.walltime)
        margin = min(_MARGIN, seconds / 5)
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


BATCH_SYSTEMS = (Slurm, Pbs, Moab, Sge, Oar, Lsf, HtCondor)
"""Batch systems that dask-jobqueue supports."""
