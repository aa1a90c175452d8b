"""What all clusters have in common: how they open, and how Dask is set on each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, Any, Protocol, Self

from pydantic import ByteSize, Field, TypeAdapter

from clusterscale.contracts import ConfigModel, Executor
from clusterscale.errors import InputError, PackageError

__all__ = ["BUDGET", "ENVIRONMENT", "SETTINGS", "Cluster", "Distributed", "needs", "to_bytes"]
__all__ += ["variable"]

# Work is arranged to fit. What does not must be seen: it must neither go to disk unnoticed nor
# hold a worker up, whose memory would not fall by waiting. Beyond 95 % its nanny starts it anew.
# Looking at what every thread does can stop them all for good (CPython's gh-106883, until 3.12).
_OFF = ("memory.target", "memory.spill", "memory.pause", "profile.enabled")
_WORKER = {f"distributed.worker.{name}": False for name in _OFF}


def variable(key: str) -> str:
    """Return the environment variable that sets a key of Dask's configuration."""
    return "DASK_" + key.upper().replace(".", "__").replace("-", "_")


ENVIRONMENT = {
    # One thread a task: tasks are the parallelism, and sums must not depend on thread counts.
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    **{variable(key): str(value) for key, value in _WORKER.items()},
    # Counts of one task are as large as those of the last: glibc keeps their pages, for asking the
    # kernel for zeroed ones takes a fifth of a task, and more where two workers ask at once. Only
    # the first arena can keep so much, and tasks run in a thread that would have another.
    **{f"MALLOC_{name}_THRESHOLD_": str(1 << 29) for name in ("MMAP", "TRIM")},
    "MALLOC_ARENA_MAX": "1",
}
"""Environment of every worker."""

SETTINGS: dict[str, Any] = {
    "distributed.nanny.pre-spawn-environ": ENVIRONMENT,
    "distributed.scheduler.worker-saturation": "inf",  # the executor itself bounds what is flying
    "distributed.scheduler.allowed-failures": 3,
    **_WORKER,
}
"""Of Dask, where this process starts the scheduler or the workers."""

BUDGET = 0.7
"""Share of a worker's memory that work may use; from 0.95 on it is started anew."""


class Cluster(Protocol):
    """A place to run that can be opened and is closed again."""

    @property
    def name(self) -> str:
        """Key in the registry."""

    @property
    def label(self) -> str:
        """Name with its settings."""

    @property
    def n_workers(self) -> int:
        """Workers that it is to have, 1 where that is not known here."""

    @property
    def budget(self) -> int | None:
        """Bytes that work may use on each worker, None where that is not known here."""

    def resize(self, n_workers: int) -> Self:
        """Return the same with another number of workers."""

    def open(self) -> AbstractContextManager[Executor]:
        """Start or join the cluster and hand out its executor."""


class Distributed(ConfigModel):
    """Any cluster of Dask: how long it may go without finishing anything, in seconds."""

    patience: Annotated[float, Field(gt=0)] = 3600.0

    @property
    def n_workers(self) -> int:
        """Workers that it is to have, 1 where that is not known here."""
        return int(getattr(self, "workers", None) or 1)

    @property
    def budget(self) -> int | None:
        """Bytes that work may use on each worker, None where that is not known here."""
        memory = getattr(self, "memory", None)
        return None if memory is None else int(BUDGET * to_bytes(memory))

    def resize(self, n_workers: int) -> Self:
        """Return the same with another number of workers.

        Raises
        ------
        InputError
            If it has no such number.
        """
        if "workers" not in type(self).model_fields:
            raise InputError(f"cluster {self.label} has no number of workers to choose")
        return self.model_copy(update={"workers": n_workers})


def to_bytes(text: str) -> int:
    """Return the bytes of ``4GiB``, ``800MB`` and the like."""
    return int(TypeAdapter(ByteSize).validate_python(text))


@contextmanager
def needs(cluster: str, extra: str | None = None) -> Iterator[None]:
    """Turn a failed import into a :class:`PackageError` that names what to install."""
    try:
        yield
    except ImportError as error:
        what = f"clusterscale[{extra}]" if extra else "dask and distributed"
        raise PackageError(
            f"cluster {cluster!r} needs {what} ({error}); install it, or use cluster 'serial'"
        ) from None
