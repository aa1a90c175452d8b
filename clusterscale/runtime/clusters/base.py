"""Base of all clusters: the class Cluster, and Dask's settings on all of them."""

from __future__ import annotations

import os
import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import ByteSize, Field, TypeAdapter

from clusterscale.contracts import ConfigModel
from clusterscale.cube import node_copy
from clusterscale.errors import InputError, PackageError
from clusterscale.study.execution import Executor

if TYPE_CHECKING:
    from distributed import Client

# Work is planned to fit into memory. Work that does not fit must fail visibly: it must neither be
# spilled to disk nor pause a worker, whose memory would not fall by waiting. Beyond 95 % the nanny
# restarts a worker. Profiling all threads can block them forever (CPython gh-106883, until 3.12).
_OFF = ("memory.target", "memory.spill", "memory.pause", "profile.enabled")
_WORKER = {f"distributed.worker.{name}": False for name in _OFF}


def variable(key: str) -> str:
    """Return the environment variable that sets a key of Dask's configuration."""
    return "DASK_" + key.upper().replace(".", "__").replace("-", "_")


ENVIRONMENT = {
    # One thread a task: tasks are the parallelism, and sums must not depend on thread counts.
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    **{variable(key): str(value) for key, value in _WORKER.items()},
    # Each task allocates counts of the same size, so glibc keeps their pages: requesting zeroed
    # pages takes a fifth of a task, and more if two workers request them at once. Only the main
    # arena can keep that much, and the thread of the tasks would otherwise use another one.
    **{f"MALLOC_{name}_THRESHOLD_": str(1 << 29) for name in ("MMAP", "TRIM")},
    "MALLOC_ARENA_MAX": "1",
}
"""Environment of every worker."""

_ENDING, _LOOK = 10.0, 0.2  # seconds that workers may take to end, and between looks
_STARTS, _LONGEST_START = 200, 60.0  # workers that begin to read in a second; seconds at most
_FORWARDED = ("CLUSTERSCALE_PROTOCOLS", "CLUSTERSCALE_RETRY_SECONDS")


def worker_environment() -> dict[str, str]:
    """Return the environment of workers elsewhere, with what this process has set for stores."""
    return ENVIRONMENT | {name: os.environ[name] for name in _FORWARDED if name in os.environ}


def shared_traces(run: str, n_workers: int, scratch: str | None = None) -> dict[str, str]:
    """Return the environment of workers that share the traces of a ``run`` on their node.

    They do so in a folder of the node below ``scratch``, by default its temporary files. Where
    there are many workers, their nodes begin to read one after the other.
    """
    name = f"clusterscale-{run}"
    return {
        node_copy.VARIABLE: os.path.join(scratch, name) if scratch else name,
        node_copy.START: f"{min(n_workers / _STARTS, _LONGEST_START):g}",
    }


SETTINGS: dict[str, Any] = {
    "distributed.nanny.pre-spawn-environ": ENVIRONMENT,
    "distributed.scheduler.worker-saturation": "inf",  # the executor bounds the tasks in flight
    "distributed.scheduler.allowed-failures": 3,
    **_WORKER,
}
"""Dask's settings where this process starts the scheduler or the workers."""

USABLE = 0.7
"""Share of a worker's memory that work may use; from 0.95 on the worker is restarted."""


class Cluster(ConfigModel):
    """A cluster that can be opened as a context manager."""

    _registry: ClassVar[str] = "clusterscale.runtime:CLUSTERS"
    if TYPE_CHECKING:
        name: str  # a literal, with itself as its default: the key in the registry

    @property
    def n_workers(self) -> int:
        """Configured number of workers, 1 if it is not known here."""
        return int(getattr(self, "workers", None) or 1)

    @property
    def usable_memory(self) -> int | None:
        """Bytes that work may use on each worker, None if not known here."""
        memory = getattr(self, "memory", None)
        return None if memory is None else int(USABLE * to_bytes(memory))

    def resize(self, n_workers: int) -> Self:
        """Return a copy with that number of workers; raises InputError if it cannot be set."""
        if "workers" not in type(self).model_fields:
            raise InputError(f"cluster {self.label} has no configurable number of workers")
        return self.model_copy(update={"workers": n_workers})

    @abstractmethod
    def open(self) -> AbstractContextManager[Executor]:
        """Start or join the cluster, and yield its executor."""


class Distributed(Cluster):
    """Base of all Dask clusters; ``patience`` is the seconds allowed without any result.

    Attributes
    ----------
    patience
        Seconds without any result after which the run fails.
    """

    patience: Annotated[float, Field(gt=0)] = 3600.0


def to_bytes(text: str) -> int:
    """Return the number of bytes of a size such as ``4GiB`` or ``800MB``."""
    return int(TypeAdapter(ByteSize).validate_python(text))


@contextmanager
def needs(cluster: str, extra: str) -> Iterator[None]:
    """Turn a failed import into a :class:`PackageError` that names what to install."""
    try:
        yield
    except ImportError as error:
        raise PackageError(
            f"cluster {cluster!r} needs clusterscale[{extra}] ({error}); install it, or use "
            "cluster 'serial'"
        ) from None


def end_workers(client: Client) -> None:
    """End the workers before the scheduler, without which each would report an error."""
    if client.status != "running":  # the scheduler is lost already
        return
    # A worker that ends cannot reply: the scheduler would report an error if it waited for that.
    message = {"op": "terminate", "reason": "the driver has ended", "reply": False}
    with suppress(OSError, TimeoutError):  # the end of the scheduler ends them, too
        client.sync(client.scheduler.broadcast, msg=message, nanny=True, callback_timeout=_ENDING)
        until = time.monotonic() + _ENDING
        while client.nthreads() and time.monotonic() < until:
            time.sleep(_LOOK)
