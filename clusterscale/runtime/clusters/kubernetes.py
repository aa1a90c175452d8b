"""Scheduler and workers in Kubernetes pods, created by the Dask operator.

Pods have no API token, no root, no capabilities, and no writable path except a temporary one.
``deploy/kubernetes`` has the same pods in YAML; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from clusterscale.contracts import ConfigModel, Count
from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters import base
from clusterscale.runtime.security import Tls

if TYPE_CHECKING:
    from distributed import Client

    from clusterscale.runtime.dask import DaskExecutor, SchedulerConnection
    from clusterscale.runtime.kubernetes_api import ClusterMonitor


Manifest = dict[str, Any]

PORT = 8786
"""Port of the scheduler."""

CERTIFICATES = "/run/clusterscale/tls"
"""Folder of ca.crt, tls.crt and tls.key in the pods, the keys that cert-manager gives a secret."""

Name = Annotated[str, Field(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=40)]
Path = Annotated[str, Field(pattern=r"^/.+")]


_LEAST = 256 * 2**20  # bytes that a worker needs to reach its first task


class Volume(ConfigModel):
    """A persistent volume claim, and its mount path on the workers.

    Attributes
    ----------
    claim
        Name of the claim, e.g. ``cubes``.
    path
        Mount path on the workers, e.g. ``/mnt/cubes``.
    """

    claim: Name
    path: Path


Names = Annotated[tuple[Name, ...], Field(strict=False)]
Volumes = Annotated[tuple[Volume, ...], Field(strict=False)]
PodField = Literal[
    "affinity",
    "imagePullSecrets",
    "nodeSelector",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "serviceAccountName",
    "tolerations",
]
"""Fields of a pod that a config may set: where it runs and as whom, never what it may do."""


class Kubernetes(base.Distributed):
    """Pods of one worker with one thread each, created for this run by the Dask operator.

    The driver must run in a pod of the same Kubernetes cluster, because it reaches the scheduler by
    the name of its service. Kubernetes replaces lost workers, and a lost scheduler under the same
    name.

    ``image`` has this package in the same version; the default is the image of the driver's pod.
    ``instance`` is the name of the created resource; ``namespace`` is by default that of the
    driver. A worker may use ``memory``, its pod has a quarter more. ``tls`` are the paths of the
    certificates on the driver; ``secret`` holds the same certificates for the pods. The keys of the
    secrets in ``environment`` become environment variables of the workers, such as credentials of
    an object store; ``volumes`` are mounted on the workers. ``pod`` are fields of all pods in the
    words of Kubernetes; ``labels`` are of the resource and of all pods.

    Attributes
    ----------
    image
        Container image of the workers, e.g. ``registry.example.org/clusterscale:1.0``; None: that
        of the driver.
    instance
        Name of the created resource.
    namespace
        Namespace of the pods, e.g. ``privacy``; None: that of the driver.
    workers
        Number of workers.
    memory
        Memory of a worker, e.g. ``4GiB``.
    tls
        Certificates, as mounted in the pods.
    secret
        Secret with the certificates.
    environment
        Names of secrets that become environment variables of the workers, e.g.
        ``[store-access]``.
    volumes
        Persistent volumes that workers mount, e.g. ``[{claim: cubes, path: /mnt/cubes}]``.
    pod
        Further fields of the pods, e.g. ``{priorityClassName: audits}``.
    labels
        Further labels, e.g. ``{team: privacy}``.
    """

    name: Literal["kubernetes"] = "kubernetes"
    image: Annotated[str, Field(min_length=1)] | None = None
    instance: Name = "clusterscale"
    namespace: Name | None = None
    workers: Count = 8
    memory: str = "4GiB"
    tls: Tls | Literal[False] = Tls(
        ca=f"{CERTIFICATES}/ca.crt",
        certificate=f"{CERTIFICATES}/tls.crt",
        key=f"{CERTIFICATES}/tls.key",
    )
    secret: Name = "clusterscale-tls"
    environment: Names = ()
    volumes: Volumes = ()
    pod: dict[PodField, Any] = Field({})
    labels: dict[str, str] = Field({})

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            size = self.memory_bytes
        except ValidationError:
            raise ValueError(f"memory {self.memory!r} is not a size such as 4GiB") from None
        if size < _LEAST:
            raise ValueError(f"memory {self.memory!r} is less than a worker needs, 256MiB")
        return self

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def memory_bytes(self) -> int:
        """Bytes that a worker may use."""
        return base.to_bytes(self.memory)

    def scheduler_address(self, namespace: str) -> str:
        """Return the address of the scheduler for the workers and for the driver."""
        scheme = "tls" if self.tls else "tcp"
        return f"{scheme}://{self.instance}-scheduler.{namespace}.svc:{PORT}"

    @contextmanager
    def open(self) -> Iterator[DaskExecutor]:
        """Create the pods, connect to the scheduler, and delete the pods at the end.

        Raises ClusterError if the API server refuses, another run uses the name, or the pods cannot
        start; MissingError without a certificate; and PackageError without distributed or
        kubernetes.
        """
        with base.needs("kubernetes", "kubernetes"):
            from clusterscale.runtime.dask import DaskExecutor, SchedulerConnection
            from clusterscale.runtime.kubernetes_api import connect, hosted, own_image
        security = self.tls.security() if self.tls else None
        with ExitStack() as stack:
            api = stack.enter_context(connect(self.namespace))
            manifest = dask_cluster(self, api.namespace, self.image or own_image(api))
            monitor = stack.enter_context(hosted(manifest, api))
            address = self.scheduler_address(api.namespace)
            connection = stack.enter_context(
                closing(SchedulerConnection(address, security, self.patience))
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


def dask_cluster(settings: Kubernetes, namespace: str, image: str) -> Manifest:
    """Return the manifest of a DaskCluster for a namespace, with one image for all containers."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # others need no template

    templates = Environment(
        loader=PackageLoader("clusterscale.runtime.clusters", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    scheduler = {
        base.variable(key): str(value)
        for key, value in base.SETTINGS.items()
        if key.startswith("distributed.scheduler.")
    }
    if settings.tls:
        scheduler[base.variable("distributed.comm.require-encryption")] = "True"
    text = templates.get_template("dask_cluster.yaml.j2").render(
        settings=settings,
        image=image,
        port=PORT,
        certificates=CERTIFICATES,
        address=settings.scheduler_address(namespace),
        scheduler=scheduler,
        worker=base.worker_environment(),
    )
    manifest: Manifest = yaml.safe_load(text)
    return manifest


def _join(connection: SchedulerConnection, monitor: ClusterMonitor, patience: float) -> Client:
    """Wait for the scheduler; stop waiting if its pod cannot start."""
    until = monotonic() + patience
    while True:
        try:
            # 10.0: seconds between checks of pods that have not started yet
            return connection.connect(min(10.0, patience))
        except OSError:
            if monotonic() > until:
                raise
        monitor.check()
