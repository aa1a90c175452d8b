"""A DaskCluster as an object of the Kubernetes API: made, looked after, taken away."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml
from kubernetes.client import ApiClient, Configuration, CoreV1Api, CustomObjectsApi
from kubernetes.client.exceptions import OpenApiException
from kubernetes.config import (
    ConfigException,
    list_kube_config_contexts,
    load_incluster_config,
    load_kube_config,
)
from kubernetes.config.incluster_config import SERVICE_TOKEN_FILENAME
from urllib3.exceptions import HTTPError

from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters.pods import GROUP

__all__ = ["Api", "ClusterMonitor", "connect", "hosted", "own_image"]

_ANSWER = 30.0  # seconds for an answer of the API server
_HOPE = 30.0  # seconds for pods to get over what is wrong with them
_GONE = 120.0  # seconds for what was deleted to vanish
_ENDED = ("Succeeded", "Failed")
_ABSENT = 404
_HOPELESS = (  # reasons for which a container waits that seldom pass
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
)

Object = dict[str, Any]


class Api:
    """What is asked of an API server, in one namespace; objects are as in manifests."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.namespace = namespace
        self._client, self._pods = client, CoreV1Api(client)
        group, version = GROUP.split("/")
        self._clusters = CustomObjectsApi(client)
        self._kind = {"group": group, "version": version, "plural": "daskclusters"}
        self._kind |= {"namespace": namespace}

    def create(self, manifest: Object) -> None:
        """Make a DaskCluster."""
        self._clusters.create_namespaced_custom_object(
            **self._kind, body=manifest, _request_timeout=_ANSWER
        )

    def get(self, name: str) -> Object | None:
        """Return a DaskCluster, None where it is not there."""
        with _absence() as found:
            found.append(
                self._clusters.get_namespaced_custom_object(
                    **self._kind, name=name, _request_timeout=_ANSWER
                )
            )
        return found[0] if found else None

    def delete(self, name: str) -> None:
        """Have a DaskCluster deleted, if it is there."""
        with _absence():
            self._clusters.delete_namespaced_custom_object(
                **self._kind, name=name, _request_timeout=_ANSWER
            )

    def pod(self, name: str) -> Object | None:
        """Return a pod, None where it is not there."""
        with _absence() as found:
            pod = self._pods.read_namespaced_pod(name, self.namespace, _request_timeout=_ANSWER)
            found.append(self._client.sanitize_for_serialization(pod))
        return found[0] if found else None

    def pods(self, cluster: str) -> list[Object]:
        """Return the pods of a DaskCluster."""
        listed = self._pods.list_namespaced_pod(
            self.namespace,
            label_selector=f"dask.org/cluster-name={cluster}",
            _request_timeout=_ANSWER,
        )
        return [self._client.sanitize_for_serialization(pod) for pod in listed.items]


@contextmanager
def connect(namespace: str | None) -> Iterator[Api]:
    """Yield the API server of the kubeconfig, or of this pod, and the namespace to work in.

    Raises
    ------
    ClusterError
        If there is none.
    """
    configuration = Configuration()
    with _told("find the API server"):
        if os.path.exists(SERVICE_TOKEN_FILENAME) and "KUBECONFIG" not in os.environ:
            load_incluster_config(client_configuration=configuration)
            own = Path(SERVICE_TOKEN_FILENAME).with_name("namespace").read_text()
        else:
            file = os.environ.get("KUBECONFIG")
            load_kube_config(file, client_configuration=configuration)
            own = list_kube_config_contexts(file)[1]["context"].get("namespace", "default")
    with ApiClient(configuration) as client:
        yield Api(client, namespace or own)


@contextmanager
def _absence() -> Iterator[list[Object]]:
    """Yield a list to fill, which stays empty if what is asked for is not there."""
    try:
        yield []
    except OpenApiException as error:
        if getattr(error, "status", None) != _ABSENT:
            raise


def own_image(api: Api) -> str:
    """Return the image of the pod that this process runs in.

    Raises
    ------
    ClusterError
        If it runs in none that it knows of.
    """
    name, _ = _myself()
    with _told(f"read pod {name}"):
        pod = api.pod(name) if name else None
    if pod is None:
        raise ClusterError(
            "cluster.image is missing, and this is no pod that knows its name (POD_NAME) and could "
            "take its own"
        )
    return str(pod["spec"]["containers"][0]["image"])


@contextmanager
def hosted(manifest: Object, api: Api) -> Iterator[ClusterMonitor]:
    """Have a DaskCluster as long as the context lasts; a left-over of its name is replaced.

    It belongs to the pod of this process, where there is one, and goes with it.

    Raises
    ------
    ClusterError
        If another run has it, or it cannot be made.
    """
    name = manifest["metadata"]["name"]
    with _told(f"make DaskCluster {name} in namespace {api.namespace}"):
        if (there := api.get(name)) is not None:
            _clear(there, api)
        api.create(_owned(manifest))
    try:
        yield ClusterMonitor(name, api)
    finally:
        with _told(f"delete DaskCluster {name}"):
            api.delete(name)


class ClusterMonitor:
    """Looks after the pods of a cluster: the operator replaces them, unless it never can."""

    def __init__(self, name: str, api: Api) -> None:
        self._name, self._api = name, api
        self._since: dict[str, float] = {}

    def look(self) -> None:
        """Make sure that the cluster is there, and that some pod of each kind has hope.

        An API server that does not answer is no reason to stop.

        Raises
        ------
        ClusterError
            If somebody deleted the cluster, or no scheduler or no worker can start for half a
            minute; says why.
        """
        try:
            with _told("look after the cluster"):
                cluster, pods = self._api.get(self._name), self._api.pods(self._name)
        except ClusterError:
            return
        if cluster is None:
            raise ClusterError(
                f"DaskCluster {self._name} was deleted while it worked; what was finished is kept, "
                "and the same command goes on"
            )
        faults = defaultdict(list)
        for pod in pods:
            faults[pod["metadata"]["labels"].get("dask.org/component", "")].append(_fault(pod))
        for kind, found in faults.items():
            self._judge(kind, found)

    def _judge(self, kind: str, faults: list[str]) -> None:
        """Raise if none of these pods had hope for long; a sound one has no fault."""
        if not all(faults):
            self._since.pop(kind, None)
            return
        since = self._since.setdefault(kind, monotonic())
        if monotonic() - since > _HOPE:
            raise ClusterError(f"no {kind} pod can start: {faults[0]}")


def _owned(manifest: Object) -> Object:
    """Return the manifest with the pod of this process as owner, if it runs in one."""
    name, uid = _myself()
    if not (name and uid):
        return manifest
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    return manifest | {"metadata": manifest["metadata"] | {"ownerReferences": [owner]}}


def _myself() -> tuple[str, str]:
    """Return the name and the uid of this pod, as its manifest hands them in."""
    return os.environ.get("POD_NAME", ""), os.environ.get("POD_UID", "")


def _clear(there: Object, api: Api) -> None:
    """Delete the cluster of that name that is there, if nobody can be using it."""
    metadata = there["metadata"]
    name = metadata["name"]
    owners = [each for each in metadata.get("ownerReferences", []) if each["kind"] == "Pod"]
    left = bool(owners) and not any(_works(owner, api) for owner in owners)
    if not left and "deletionTimestamp" not in metadata:
        raise ClusterError(
            f"DaskCluster {name} is there already: another run uses it, or left it behind; choose "
            f"another `instance`, or `kubectl delete daskcluster {name}`"
        )
    api.delete(name)
    until = monotonic() + _GONE
    while api.get(name) is not None:
        if monotonic() > until:
            raise ClusterError(
                f"DaskCluster {name} of an earlier run does not go: does the operator run?"
            )
        sleep(1)


def _works(owner: dict[str, str], api: Api) -> bool:
    """Return whether the pod that owns a cluster is still at work."""
    pod = api.pod(owner["name"])
    if pod is None or pod["metadata"]["uid"] != owner["uid"]:
        return False
    leaving = "deletionTimestamp" in pod["metadata"]
    return not leaving and pod["status"]["phase"] not in _ENDED


def _fault(pod: Object) -> str:
    """Return why a pod cannot start, empty if it may."""
    for container in pod["status"].get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _HOPELESS:
            message = waiting.get("message", "no message")
            return f"{pod['metadata']['name']}: {waiting['reason']} ({message})"
    return ""


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Say in one line what the API server did not do."""
    try:
        yield
    except OpenApiException as error:
        said = getattr(error, "reason", None) or type(error).__name__
        raise ClusterError(f"Kubernetes did not let us {what}: {_message(error) or said}") from None
    except (ConfigException, HTTPError, OSError, yaml.YAMLError) as error:
        raise ClusterError(f"Kubernetes did not let us {what}: {error}") from None


def _message(error: OpenApiException) -> str:
    """Return what the API server said itself, for its headers may hold more than is to be told."""
    try:
        return str(json.loads(getattr(error, "body", ""))["message"])
    except (KeyError, TypeError, ValueError):
        return ""
