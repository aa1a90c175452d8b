"""Scheduler and workers in Kubernetes pods, created by the Dask operator.

Pods have no API token, no root, no capabilities, and no writable path except a temporary one.
``deploy/kubernetes`` has the same pods in YAML; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from clusterscale.contracts import ConfigModel, Count
from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters import base
from clusterscale.runtime.security import Tls

if TYPE_CHECKING:
    from distributed import Client

    from clusterscale.runtime.clusters.resource import ClusterMonitor
    from clusterscale.runtime.dask import DaskExecutor, SchedulerConnection


Manifest = dict[str, Any]

PORT = 8786
"""Port of the scheduler."""

CERTIFICATES = "/run/clusterscale/tls"
"""Folder of ca.crt, tls.crt and tls.key in the pods, the keys that cert-manager gives a secret."""

_SCRATCH = "/run/clusterscale/scratch"
_USER = 10001  # user of the image; numeric, because Kubernetes cannot check that a name is not root
_MEBIBYTE = 2**20
_SIZE = {  # resources of the scheduler, enough for thousands of workers
    "requests": {"cpu": "500m", "memory": "1Gi"},
    "limits": {"cpu": "2", "memory": "4Gi"},
}
_PROBE = 'from urllib.request import urlopen; urlopen("http://127.0.0.1:8787/health", timeout=10)'
_COMMON = {"HOME": _SCRATCH, "NUMBA_CACHE_DIR": f"{_SCRATCH}/numba"}


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
            from clusterscale.runtime.clusters.resource import connect, hosted, own_image
            from clusterscale.runtime.dask import DaskExecutor, SchedulerConnection
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
    return {
        "apiVersion": base.GROUP,
        "kind": "DaskCluster",
        "metadata": {
            "name": settings.instance,
            "labels": settings.labels
            | {
                "app.kubernetes.io/name": "clusterscale",
                "app.kubernetes.io/managed-by": "clusterscale",
            },
        },
        "spec": {
            "worker": {
                "replicas": settings.workers,
                "spec": _pod(_worker(settings, namespace), image, settings)
                | {"topologySpreadConstraints": [_spread(settings.instance)]},
            },
            "scheduler": {
                "spec": _pod(_scheduler(settings), image, settings),
                "service": {
                    "type": "ClusterIP",
                    "selector": {
                        "dask.org/cluster-name": settings.instance,
                        "dask.org/component": "scheduler",
                    },
                    "ports": [{"name": "tcp-comm", "port": PORT, "targetPort": "tcp-comm"}],
                },
            },
        },
    }


def _scheduler(settings: Kubernetes) -> Manifest:
    variables = {
        base.variable(key): str(value)
        for key, value in base.SETTINGS.items()
        if key.startswith("distributed.scheduler.")
    }
    if settings.tls:
        variables[base.variable("distributed.comm.require-encryption")] = "True"
    return {
        "name": "scheduler",
        "command": ["dask", "scheduler"],
        # The dashboard has no authentication, so it is reachable only by port forwarding.
        "args": ["--dashboard-address", "127.0.0.1:8787", *_tls(settings)],
        "env": _variables(_COMMON | variables),
        "ports": [{"name": "tcp-comm", "containerPort": PORT}],
        # Probed only until the first success: each probe logs a failed handshake.
        "startupProbe": {
            "tcpSocket": {"port": "tcp-comm"},
            "periodSeconds": 2,
            "failureThreshold": 60,
        },
        "livenessProbe": {
            "exec": {"command": ["python", "-c", _PROBE]},
            "periodSeconds": 60,
            "timeoutSeconds": 20,
            "failureThreshold": 5,
        },
        "resources": _SIZE,
    }


def _worker(settings: Kubernetes, namespace: str) -> Manifest:
    memory = f"{settings.memory_bytes * 5 // 4 // _MEBIBYTE}Mi"
    args = [settings.scheduler_address(namespace), "--name", "$(DASK_WORKER_NAME)"]
    limit = f"{settings.memory_bytes // _MEBIBYTE}MiB"
    args += ["--nthreads", "1", "--memory-limit", limit, "--local-directory", _SCRATCH]
    args += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]  # metrics are served anyway
    worker: Manifest = {
        "name": "worker",
        "command": ["dask", "worker"],
        "args": [*args, *_tls(settings)],
        "env": _variables(_COMMON | base.worker_environment()),
        "resources": {
            "requests": {"cpu": "1", "memory": memory},
            "limits": {"cpu": "2", "memory": memory},
        },
    }
    if settings.environment:
        worker["envFrom"] = [{"secretRef": {"name": name}} for name in settings.environment]
    if settings.volumes:
        worker["volumeMounts"] = [
            {"name": volume.claim, "mountPath": volume.path} for volume in settings.volumes
        ]
    return worker


def _pod(container: Manifest, image: str, settings: Kubernetes) -> Manifest:
    """Return the pod of one container, with the most restrictive security context."""
    mounts: list[Manifest] = [
        {"name": "scratch", "mountPath": _SCRATCH},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    volumes: list[Manifest] = [
        {"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
    ]
    if settings.tls:
        mounts.append({"name": "tls", "mountPath": CERTIFICATES, "readOnly": True})
        volumes.append(
            {"name": "tls", "secret": {"secretName": settings.secret, "defaultMode": 0o440}}
        )
    claimed = container.get("volumeMounts", [])
    volumes += [
        {"name": mount["name"], "persistentVolumeClaim": {"claimName": mount["name"]}}
        for mount in claimed
    ]
    restricted: Manifest = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    return settings.pod | {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            container
            | {"image": image, "securityContext": restricted, "volumeMounts": mounts + claimed}
        ],
        "volumes": volumes,
    }


def _spread(instance: str) -> Manifest:
    """Return the wish that workers are on many nodes rather than on one."""
    labels = {"dask.org/cluster-name": instance, "dask.org/component": "worker"}
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }


def _tls(settings: Kubernetes) -> list[str]:
    if not settings.tls:
        return []
    files = {"--tls-ca-file": "ca.crt", "--tls-cert": "tls.crt", "--tls-key": "tls.key"}
    args = ["--protocol", "tls"]
    for flag, file in files.items():
        args += [flag, f"{CERTIFICATES}/{file}"]
    return args


def _variables(values: Mapping[str, str]) -> list[Manifest]:
    return [{"name": name, "value": value} for name, value in values.items()]


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
