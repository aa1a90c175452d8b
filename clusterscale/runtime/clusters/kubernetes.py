"""Run scheduler and workers in Kubernetes pods, created by the Dask operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from clusterscale.contracts import ConfigModel, Count
from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters.base import Distributed, needs, to_bytes
from clusterscale.runtime.clusters.pods import CERTIFICATES, PORT, PodSpec, dask_cluster
from clusterscale.runtime.security import Tls

if TYPE_CHECKING:
    from distributed import Client

    from clusterscale.runtime.clusters.resource import ClusterMonitor
    from clusterscale.runtime.dask import DaskExecutor
    from clusterscale.runtime.scheduler_connection import SchedulerConnection

__all__ = ["Kubernetes", "Volume"]

Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
Path = Annotated[str, Field(pattern=r"^/.+")]

_LEAST = 256 * 2**20  # bytes that a worker needs to reach its first task
_CHECK = 10.0  # seconds between checks of pods that have not started yet


class Volume(ConfigModel):
    """A persistent volume claim, and its mount path on the workers."""

    claim: Name
    path: Path


Names = Annotated[tuple[Name, ...], Field(strict=False)]
Volumes = Annotated[tuple[Volume, ...], Field(strict=False)]


class Kubernetes(Distributed):
    """Pods of one worker with one thread each, created for this run by the Dask operator.

    The driver must run in a pod of the same Kubernetes cluster, because it reaches the scheduler by
    the name of its service. Kubernetes replaces lost workers, and a lost scheduler under the same
    name.

    ``image`` has this package in the same version; the default is the image of the driver's pod.
    ``instance`` is the name of the created resource; ``namespace`` is by default that of the
    driver. A worker may use ``memory``, its pod has a quarter more. ``tls`` are the paths of the
    certificates on the driver; ``secret`` holds the same certificates for the pods. The keys of the
    secrets in ``environment`` become environment variables of the workers, such as credentials of
    an object store; ``volumes`` are mounted on the workers.
    """

    name: Literal["kubernetes"] = "kubernetes"
    image: Annotated[str, Field(min_length=1)] | None = None
    instance: Name = "clusterscale"
    namespace: Name | None = None
    workers: Count = 8
    memory: str = "4GiB"
    tls: Tls | Literal[False] = Tls(
        ca=f"{CERTIFICATES}/ca.pem",
        certificate=f"{CERTIFICATES}/cert.pem",
        key=f"{CERTIFICATES}/key.pem",
    )
    secret: Name = "clusterscale-tls"
    environment: Names = ()
    volumes: Volumes = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            size = self._memory
        except ValidationError:
            raise ValueError(f"memory {self.memory!r} is not a size such as 4GiB") from None
        if size < _LEAST:
            raise ValueError(f"memory {self.memory!r} is less than a worker needs, 256MiB")
        return self

    @property
    def _memory(self) -> int:
        return to_bytes(self.memory)

    def pod_spec(self, namespace: str, image: str) -> PodSpec:
        """Return the specification of the cluster in ``namespace`` with ``image``."""
        scheme = "tls" if self.tls else "tcp"
        return PodSpec(
            name=self.instance,
            image=image,
            scheduler=f"{scheme}://{self.instance}-scheduler.{namespace}.svc:{PORT}",
            workers=self.workers,
            memory=self._memory,
            secret=self.secret if self.tls else None,
            environment=self.environment,
            volumes=[(volume.claim, volume.path) for volume in self.volumes],
        )

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Create the pods, connect to the scheduler, and delete the pods at the end.

        Raises
        ------
        ClusterError
            If the API server refuses, another run uses the name, or the pods cannot start.
        MissingError
            If a certificate does not exist.
        PackageError
            If distributed or kubernetes is not installed.
        """
        with needs("kubernetes", "kubernetes"):
            from clusterscale.runtime.clusters.resource import connect, hosted, own_image
            from clusterscale.runtime.dask import DaskExecutor
            from clusterscale.runtime.scheduler_connection import SchedulerConnection
        security = self.tls.security() if self.tls else None
        with ExitStack() as stack:
            api = stack.enter_context(connect(self.namespace))
            spec = self.pod_spec(api.namespace, self.image or own_image(api))
            monitor = stack.enter_context(hosted(dask_cluster(spec), api))
            connection = stack.enter_context(
                closing(SchedulerConnection(spec.scheduler, security, self.patience))
            )

            def join() -> Client:
                connection.close()
                return _join(connection, monitor, self.patience)

            try:
                client = join()
            except OSError as error:
                raise ClusterError(str(error)) from None
            yield DaskExecutor(
                client, patience=self.patience, replace_lost=monitor.check, reconnect=join
            )


def _join(connection: SchedulerConnection, monitor: ClusterMonitor, patience: float) -> Client:
    """Wait for the scheduler; stop waiting if its pod cannot start."""
    until = monotonic() + patience
    while True:
        try:
            return connection.connect(min(_CHECK, patience))
        except OSError:
            if monotonic() > until:
                raise
        monitor.check()
