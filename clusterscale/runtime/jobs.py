"""The jobs of a cluster in a batch system, kept at their number."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from distributed import Status

from clusterscale.errors import ClusterError

if TYPE_CHECKING:
    from dask_jobqueue import JobQueueCluster

__all__ = ["Jobs"]

_ASK = 5.0  # seconds between questions to the batch system, at least
_LONGEST = 300.0  # and at most, however many jobs were in vain
_GRACE = 15.0  # seconds that a job may be without a worker once it had one, as a nanny restarts it
_FEW = 3  # jobs in vain that may be chance
_LINES = 5  # of a log that are told


class Jobs:
    """Jobs that are replaced when they end.

    Parameters
    ----------
    cluster
        Knows the scheduler and how to submit.
    n_jobs
        How many there shall be.
    listing
        Command that prints the numbers of all jobs that have not ended; without one, a job that
        ends before its first worker came is not missed.
    logs
        Folder of their output.
    """

    def __init__(
        self, cluster: JobQueueCluster, n_jobs: int, listing: tuple[str, ...], logs: Path
    ) -> None:
        self._cluster, self._n_jobs, self._listing, self._logs = cluster, n_jobs, listing, logs
        self._since: dict[str, float] = {}  # when a job that had workers was first seen without
        self._manned: set[str] = set()
        self._n_vain = 0  # jobs in a row that ended before their first worker
        self._asked = monotonic()

    def submit(self) -> None:
        """Submit all jobs.

        Raises
        ------
        ClusterError
            With what the batch system says, if it takes none of them.
        """
        while len(self._cluster.worker_spec) < self._n_jobs:
            self._cluster.worker_spec.update(self._cluster.new_worker_spec())
        if (refusal := self._cluster.sync(self._open)) and not self._submitted():
            raise ClusterError(f"the batch system takes no job: {refusal}")

    def replace_lost(self) -> None:
        """Replace the jobs that have ended.

        Raises
        ------
        ClusterError
            If jobs end again and again before their first worker, and there is no other.
        """
        self._cluster.sync(self._heal)

    async def _heal(self) -> None:
        vacant = self._vacant()
        if not vacant or monotonic() - self._asked < self._pause():
            return
        self._asked = monotonic()
        ended = await self._ended(vacant)
        self._n_vain += len(ended - self._manned)
        if self._n_vain >= max(_FEW, self._n_jobs) and not self._cluster.scheduler.workers:
            raise ClusterError(
                f"{self._n_vain} jobs ended before a worker of theirs came\n{self._last_words()}"
            )
        for name in ended:
            await self._replace(name)
        refusal = await self._open()
        if refusal and not self._submitted():
            raise ClusterError(f"the batch system takes no job any more: {refusal}")

    def _vacant(self) -> set[str]:
        """Return the names of jobs without a worker; note since when."""
        present = {str(worker.name) for worker in self._cluster.scheduler.workers.values()}
        vacant = set()
        for name, spec in self._cluster.worker_spec.items():
            if any(f"{name}{suffix}" in present for suffix in spec.get("group", ("",))):
                if name not in self._manned:
                    self._n_vain = 0
                self._manned.add(name)
                self._since.pop(name, None)
            else:
                vacant.add(name)
                if name in self._manned:
                    self._since.setdefault(name, monotonic())
        return vacant

    def _pause(self) -> float:
        return float(min(_ASK * 2 ** min(self._n_vain, 10), _LONGEST))

    async def _ended(self, vacant: set[str]) -> set[str]:
        jobs = self._cluster.workers
        ended = {name for name in vacant if name not in jobs or jobs[name].job_id is None}
        now = monotonic()
        ended |= {name for name in vacant if now - self._since.get(name, now) > _GRACE}
        if (alive := await self._alive()) is not None:
            ended |= {name for name in vacant & set(jobs) if jobs[name].job_id not in alive}
        return ended

    async def _alive(self) -> set[str] | None:
        """Return the numbers of jobs that have not ended, None if that is not known."""
        if not self._listing:
            return None
        process = await asyncio.create_subprocess_exec(*self._listing, stdout=PIPE, stderr=DEVNULL)
        told, _ = await process.communicate()
        return set(told.decode().split()) if process.returncode == 0 else None

    async def _replace(self, name: str) -> None:
        """Let another job, of another name, take the place of one."""
        cluster = self._cluster
        if cluster.status is not Status.running:  # it is being closed meanwhile
            return
        cluster.worker_spec.update(cluster.new_worker_spec())
        del cluster.worker_spec[name]
        self._manned.discard(name)
        self._since.pop(name, None)
        if (job := cluster.workers.pop(name, None)) is not None:
            await job.close()

    async def _open(self) -> str:
        """Submit what is not submitted; return why that is not done, if it is not."""
        try:
            await self._cluster
        except (RuntimeError, ValueError, OSError) as error:
            for job in self._cluster.workers.values():
                if job.job_id is None:  # or the cluster waits for it when it closes
                    job.status = Status.failed
            return str(error).rpartition("stderr:")[2].strip()
        return ""

    def _submitted(self) -> bool:
        return any(job.job_id is not None for job in self._cluster.workers.values())

    def _last_words(self) -> str:
        """Return the end of what the last job wrote that wrote anything."""
        files = [path for path in self._logs.glob("*") if path.is_file() and path.stat().st_size]
        if not files:
            return f"and left nothing in {self._logs}"
        last = max(files, key=lambda path: path.stat().st_mtime)
        lines = last.read_text(errors="replace").splitlines()[-_LINES:]
        return "\n".join([f"the last said in {last}:", *lines])
