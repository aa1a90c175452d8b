"""Batch systems in whose jobs workers can run, with the settings of each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from clusterscale.runtime.clusters.jobqueue import JobQueue, Size
from clusterscale.runtime.security import Tls

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
