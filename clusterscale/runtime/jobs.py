"""Keep the number of a cluster's jobs in a batch system constant."""

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


_ASK = 5.0  # minimal seconds between queries to the batch system
_GRACE = 15.0  # seconds that a job may lose its worker, which a nanny restarts
_FEW = 3  # tolerated number of jobs that end before their first worker


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
        # 300.0: maximal seconds between queries, however many jobs failed
        pause = min(_ASK * 2 ** min(self._n_failed, 10), 300.0)
        if not vacant or monotonic() - self._asked < pause:
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
        # 5: last lines of a log that an error message shows
        lines = last.read_text(errors="replace").splitlines()[-5:]
        return "\n".join([f"last lines of {last}:", *lines])
