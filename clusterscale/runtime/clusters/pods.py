"""The scheduler and the workers of a Dask cluster, as the Dask operator for Kubernetes wants them.

Pods get no token of the API server, no root, no capability, and no place to write but one that
ends with them. ``deploy/kubernetes`` has the same pods in YAML; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterscale.runtime.clusters.base import ENVIRONMENT, SETTINGS, variable

__all__ = ["CERTIFICATES", "GROUP", "PORT", "PodSpec", "dask_cluster"]

Manifest = dict[str, Any]

GROUP = "kubernetes.dask.org/v1"
"""Kind of API that the operator serves."""

PORT = 8786
"""Where the scheduler listens."""

CERTIFICATES = "/run/clusterscale/tls"
"""Where pods find ca.pem, cert.pem and key.pem."""

_SCRATCH = "/run/clusterscale/scratch"
_USER = 10001  # the user of the image; a number, for Kubernetes cannot know that a name is not root
_MEBIBYTE = 2**20
_SIZE = {  # of the scheduler, for some thousand workers
    "requests": {"cpu": "500m", "memory": "1Gi"},
    "limits": {"cpu": "2", "memory": "4Gi"},
}
_COMMON = {"HOME": _SCRATCH, "NUMBA_CACHE_DIR": f"{_SCRATCH}/numba"}


@dataclass(frozen=True, slots=True)
class PodSpec:
    """What a cluster is made of.

    Attributes
    ----------
    name, image
        Of the cluster, and of every container.
    scheduler
        Address under which workers find it.
    workers
        How many pods, of one worker with one thread each.
    memory
        Bytes that a worker may use; its pod has a quarter more, for what Dask does not count.
    secret
        Holds the certificates; without one nothing is encrypted.
    environment
        Secrets whose keys are environment variables of the workers.
    volumes
        Persistent volume claims by where the workers see them.
    """

    name: str
    image: str
    scheduler: str
    workers: int
    memory: int
    secret: str | None
    environment: Sequence[str] = ()
    volumes: Sequence[tuple[str, str]] = ()


def dask_cluster(recipe: PodSpec) -> Manifest:
    """Return the manifest of a DaskCluster."""
    return {
        "apiVersion": GROUP,
        "kind": "DaskCluster",
        "metadata": {
            "name": recipe.name,
            "labels": {
                "app.kubernetes.io/name": "clusterscale",
                "app.kubernetes.io/managed-by": "clusterscale",
            },
        },
        "spec": {
            "worker": {"replicas": recipe.workers, "spec": _pod(_worker(recipe), recipe)},
            "scheduler": {
                "spec": _pod(_scheduler(recipe), recipe),
                "service": {
                    "type": "ClusterIP",
                    "selector": {
                        "dask.org/cluster-name": recipe.name,
                        "dask.org/component": "scheduler",
                    },
                    "ports": [{"name": "tcp-comm", "port": PORT, "targetPort": "tcp-comm"}],
                },
            },
        },
    }


def _scheduler(recipe: PodSpec) -> Manifest:
    settings = {
        variable(key): str(value)
        for key, value in SETTINGS.items()
        if key.startswith("distributed.scheduler.")
    }
    if recipe.secret:
        settings[variable("distributed.comm.require-encryption")] = "True"
    return {
        "name": "scheduler",
        "image": recipe.image,
        "command": ["dask", "scheduler"],
        # The dashboard shows what runs to whoever can reach it: only a forwarded port can.
        "args": ["--dashboard-address", "127.0.0.1:8787", *_tls(recipe)],
        "env": _variables(_COMMON | settings),
        "ports": [{"name": "tcp-comm", "containerPort": PORT}],
        # Probed until it answers once: each probe is a failed handshake in the log.
        "startupProbe": {
            "tcpSocket": {"port": "tcp-comm"},
            "periodSeconds": 2,
            "failureThreshold": 60,
        },
        "resources": _SIZE,
    }


def _worker(recipe: PodSpec) -> Manifest:
    memory = f"{recipe.memory * 5 // 4 // _MEBIBYTE}Mi"
    args = [recipe.scheduler, "--name", "$(DASK_WORKER_NAME)", "--nthreads", "1"]
    args += ["--memory-limit", f"{recipe.memory // _MEBIBYTE}MiB", "--local-directory", _SCRATCH]
    args += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]  # metrics are served anyway
    worker: Manifest = {
        "name": "worker",
        "image": recipe.image,
        "command": ["dask", "worker"],
        "args": [*args, *_tls(recipe)],
        "env": _variables(_COMMON | ENVIRONMENT),
        "resources": {
            "requests": {"cpu": "1", "memory": memory},
            "limits": {"cpu": "2", "memory": memory},
        },
    }
    if recipe.environment:
        worker["envFrom"] = [{"secretRef": {"name": name}} for name in recipe.environment]
    if recipe.volumes:
        worker["volumeMounts"] = [
            {"name": claim, "mountPath": path} for claim, path in recipe.volumes
        ]
    return worker


def _pod(container: Manifest, recipe: PodSpec) -> Manifest:
    """Return the pod of one container, shut in as far as it goes."""
    mounts: list[Manifest] = [
        {"name": "scratch", "mountPath": _SCRATCH},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    volumes: list[Manifest] = [
        {"name": "scratch", "emptyDir": {"sizeLimit": "10Gi"}},
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
    ]
    if recipe.secret:
        mounts.append({"name": "tls", "mountPath": CERTIFICATES, "readOnly": True})
        volumes.append(
            {"name": "tls", "secret": {"secretName": recipe.secret, "defaultMode": 0o440}}
        )
    claimed = container.get("volumeMounts", [])
    volumes += [
        {"name": each["name"], "persistentVolumeClaim": {"claimName": each["name"]}}
        for each in claimed
    ]
    alone: Manifest = {
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
        "containers": [container | {"securityContext": alone, "volumeMounts": mounts + claimed}],
        "volumes": volumes,
    }


def _tls(recipe: PodSpec) -> list[str]:
    if not recipe.secret:
        return []
    files = {"--tls-ca-file": "ca.pem", "--tls-cert": "cert.pem", "--tls-key": "key.pem"}
    args = ["--protocol", "tls"]
    for flag, file in files.items():
        args += [flag, f"{CERTIFICATES}/{file}"]
    return args


def _variables(values: Mapping[str, str]) -> list[Manifest]:
    return [{"name": name, "value": value} for name, value in values.items()]
