"""Manifest of a Dask cluster for the Dask operator for Kubernetes.

Pods have no API token, no root, no capabilities, and no writable path except a temporary one.
``deploy/kubernetes`` has the same pods in YAML; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterscale.runtime.clusters.base import ENVIRONMENT, SETTINGS, variable

__all__ = ["CERTIFICATES", "GROUP", "PORT", "PodSpec", "dask_cluster"]

Manifest = dict[str, Any]

GROUP = "kubernetes.dask.org/v1"
"""API group and version of the operator."""

PORT = 8786
"""Port of the scheduler."""

CERTIFICATES = "/run/clusterscale/tls"
"""Folder of ca.pem, cert.pem and key.pem in the pods."""

_SCRATCH = "/run/clusterscale/scratch"
_USER = 10001  # user of the image; numeric, because Kubernetes cannot check that a name is not root
_MEBIBYTE = 2**20
_SIZE = {  # resources of the scheduler, enough for thousands of workers
    "requests": {"cpu": "500m", "memory": "1Gi"},
    "limits": {"cpu": "2", "memory": "4Gi"},
}
_COMMON = {"HOME": _SCRATCH, "NUMBA_CACHE_DIR": f"{_SCRATCH}/numba"}


@dataclass(frozen=True, slots=True)
class PodSpec:
    """Specification of a cluster.

    Attributes
    ----------
    name, image
        Name of the cluster, and image of every container.
    scheduler
        Address of the scheduler for the workers.
    workers
        Number of worker pods, each of one worker with one thread.
    memory
        Bytes that a worker may use; its pod has a quarter more, for memory Dask does not count.
    secret
        Secret that holds the certificates; None for no encryption.
    environment
        Secrets whose keys become environment variables of the workers.
    volumes
        Persistent volume claims, and their mount paths on the workers.
    """

    name: str
    image: str
    scheduler: str
    workers: int
    memory: int
    secret: str | None
    environment: Sequence[str] = ()
    volumes: Sequence[tuple[str, str]] = ()


def dask_cluster(spec: PodSpec) -> Manifest:
    """Return the manifest of a DaskCluster."""
    return {
        "apiVersion": GROUP,
        "kind": "DaskCluster",
        "metadata": {
            "name": spec.name,
            "labels": {
                "app.kubernetes.io/name": "clusterscale",
                "app.kubernetes.io/managed-by": "clusterscale",
            },
        },
        "spec": {
            "worker": {"replicas": spec.workers, "spec": _pod(_worker(spec), spec)},
            "scheduler": {
                "spec": _pod(_scheduler(spec), spec),
                "service": {
                    "type": "ClusterIP",
                    "selector": {
                        "dask.org/cluster-name": spec.name,
                        "dask.org/component": "scheduler",
                    },
                    "ports": [{"name": "tcp-comm", "port": PORT, "targetPort": "tcp-comm"}],
                },
            },
        },
    }


def _scheduler(spec: PodSpec) -> Manifest:
    settings = {
        variable(key): str(value)
        for key, value in SETTINGS.items()
        if key.startswith("distributed.scheduler.")
    }
    if spec.secret:
        settings[variable("distributed.comm.require-encryption")] = "True"
    return {
        "name": "scheduler",
        "image": spec.image,
        "command": ["dask", "scheduler"],
        # The dashboard has no authentication, so it is reachable only by port forwarding.
        "args": ["--dashboard-address", "127.0.0.1:8787", *_tls(spec)],
        "env": _variables(_COMMON | settings),
        "ports": [{"name": "tcp-comm", "containerPort": PORT}],
        # Probed only until the first success: each probe logs a failed handshake.
        "startupProbe": {
            "tcpSocket": {"port": "tcp-comm"},
            "periodSeconds": 2,
            "failureThreshold": 60,
        },
        "resources": _SIZE,
    }


def _worker(spec: PodSpec) -> Manifest:
    memory = f"{spec.memory * 5 // 4 // _MEBIBYTE}Mi"
    args = [spec.scheduler, "--name", "$(DASK_WORKER_NAME)", "--nthreads", "1"]
    args += ["--memory-limit", f"{spec.memory // _MEBIBYTE}MiB", "--local-directory", _SCRATCH]
    args += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]  # metrics are served anyway
    worker: Manifest = {
        "name": "worker",
        "image": spec.image,
        "command": ["dask", "worker"],
        "args": [*args, *_tls(spec)],
        "env": _variables(_COMMON | ENVIRONMENT),
        "resources": {
            "requests": {"cpu": "1", "memory": memory},
            "limits": {"cpu": "2", "memory": memory},
        },
    }
    if spec.environment:
        worker["envFrom"] = [{"secretRef": {"name": name}} for name in spec.environment]
    if spec.volumes:
        worker["volumeMounts"] = [
            {"name": claim, "mountPath": path} for claim, path in spec.volumes
        ]
    return worker


def _pod(container: Manifest, spec: PodSpec) -> Manifest:
    """Return the pod of one container, with the most restrictive security context."""
    mounts: list[Manifest] = [
        {"name": "scratch", "mountPath": _SCRATCH},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    volumes: list[Manifest] = [
        {"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
    ]
    if spec.secret:
        mounts.append({"name": "tls", "mountPath": CERTIFICATES, "readOnly": True})
        volumes.append({"name": "tls", "secret": {"secretName": spec.secret, "defaultMode": 0o440}})
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
    return {
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
            container | {"securityContext": restricted, "volumeMounts": mounts + claimed}
        ],
        "volumes": volumes,
    }


def _tls(spec: PodSpec) -> list[str]:
    if not spec.secret:
        return []
    files = {"--tls-ca-file": "ca.pem", "--tls-cert": "cert.pem", "--tls-key": "key.pem"}
    args = ["--protocol", "tls"]
    for flag, file in files.items():
        args += [flag, f"{CERTIFICATES}/{file}"]
    return args


def _variables(values: Mapping[str, str]) -> list[Manifest]:
    return [{"name": name, "value": value} for name, value in values.items()]
