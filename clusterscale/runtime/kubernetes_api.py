"""Create, monitor and delete a DaskCluster through the Kubernetes API.

``dask_kubernetes.operator.KubeCluster`` creates one as well, from the same manifest, but it cannot
connect to a scheduler that requires TLS (it has no setting for certificates, and retries without
them forever), needs a service that exposes the dashboard, waits without limit for a pod whose image
cannot be pulled, and never replaces the cluster of a run that was killed.
"""

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import yaml
from kubernetes import config
from kubernetes.client import ApiClient, Configuration, CoreV1Api, CustomObjectsApi
from kubernetes.client.exceptions import OpenApiException
from kubernetes.config.incluster_config import SERVICE_TOKEN_FILENAME
from urllib3.exceptions import HTTPError

from clusterscale.errors import ClusterError

_ANSWER = 30.0  # timeout of a request to the API server, in seconds
_GRACE = 30.0  # seconds that pods may take to recover from an error
_PERSISTENT = (  # reasons of a waiting container that rarely resolve by themselves
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
    """Requests to an API server in one namespace; objects are those of manifests."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.namespace = namespace
        self._client, self._core, self._custom = client, CoreV1Api(client), CustomObjectsApi(client)
        self._kind = {"group": "kubernetes.dask.org", "version": "v1", "plural": "daskclusters"}
        self._kind |= {"namespace": namespace}

    def create(self, manifest: Object) -> None:
        """Create a DaskCluster."""
        self._custom.create_namespaced_custom_object(
            **self._kind, body=manifest, _request_timeout=_ANSWER
        )

    def get(self, name: str) -> Object | None:
        """Return a DaskCluster, None if it does not exist."""
        return _if_present(self._custom.get_namespaced_custom_object, **self._kind, name=name)

    def delete(self, name: str) -> None:
        """Delete a DaskCluster, if it exists."""
        _if_present(self._custom.delete_namespaced_custom_object, **self._kind, name=name)

    def pod(self, name: str) -> Object | None:
        """Return a pod, None if it does not exist."""
        pod = _if_present(self._core.read_namespaced_pod, name=name, namespace=self.namespace)
        return None if pod is None else self._plain(pod)

    def pods(self, cluster: str) -> list[Object]:
        """Return the pods of a DaskCluster."""
        listed = self._core.list_namespaced_pod(
            self.namespace,
            label_selector=f"dask.org/cluster-name={cluster}",
            _request_timeout=_ANSWER,
        )
        return [self._plain(pod) for pod in listed.items]

    def _plain(self, model: Any) -> Object:
        return dict(self._client.sanitize_for_serialization(model))


@contextmanager
def connect(namespace: str | None) -> Iterator[Api]:
    """Yield the API server of the kubeconfig or of this pod, with the namespace to use.

    Raises ClusterError if there is none.
    """
    configuration = Configuration()
    with _api_errors("find the API server"):
        if os.path.exists(SERVICE_TOKEN_FILENAME) and "KUBECONFIG" not in os.environ:
            config.load_incluster_config(client_configuration=configuration)
            own = Path(SERVICE_TOKEN_FILENAME).with_name("namespace").read_text()
        else:
            file = os.environ.get("KUBECONFIG")
            config.load_kube_config(file, client_configuration=configuration)
            own = config.list_kube_config_contexts(file)[1]["context"].get("namespace", "default")
    with ApiClient(configuration) as client:
        yield Api(client, namespace or own)


def own_image(api: Api) -> str:
    """Return the image of the pod of this process; raises ClusterError if that is not known."""
    name, _ = _own_pod()
    with _api_errors(f"read pod {name}"):
        pod = api.pod(name) if name else None
    if pod is None:
        raise ClusterError(
            "cluster.image is missing: set it, or run in a pod with POD_NAME in its environment, "
            "whose image is then used"
        )
    return str(pod["spec"]["containers"][0]["image"])


@contextmanager
def hosted(manifest: Object, api: Api) -> Iterator["ClusterMonitor"]:
    """Create a DaskCluster for the context; a leftover cluster of the same name is replaced.

    Its owner is the pod of this process, if there is one, so Kubernetes deletes it with the pod.
    Raises ClusterError if another run uses the name, or it cannot be created.
    """
    name = manifest["metadata"]["name"]
    with _api_errors(f"create DaskCluster {name} in namespace {api.namespace}"):
        if (existing := api.get(name)) is not None:
            _replace_leftover(existing, api)
        pod, uid = _own_pod()
        if pod and uid:  # which owns the cluster
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}
            manifest = manifest | {"metadata": manifest["metadata"] | {"ownerReferences": [owner]}}
        api.create(manifest)
    try:
        yield ClusterMonitor(name, api)
    finally:
        with _api_errors(f"delete DaskCluster {name}"):
            api.delete(name)


class ClusterMonitor:
    """Checks the pods of a cluster, which the operator replaces, for errors that persist."""

    def __init__(self, name: str, api: Api) -> None:
        self._name, self._api = name, api
        self._since: dict[str, float] = {}

    def check(self) -> None:
        """Check that the cluster exists, and that some pod of each kind can start.

        An API server that does not answer is ignored. Raises ClusterError, with the reason, if the
        cluster was deleted, or no scheduler or no worker can start for half a minute.
        """
        try:
            with _api_errors("check the cluster"):
                cluster, pods = self._api.get(self._name), self._api.pods(self._name)
        except ClusterError:
            return
        if cluster is None:
            raise ClusterError(
                f"DaskCluster {self._name} was deleted during the run; finished work is kept: "
                "run it again to resume it"
            )
        faults: dict[str, list[str]] = defaultdict(list)
        for pod in pods:
            faults[pod["metadata"]["labels"].get("dask.org/component", "")].append(_fault(pod))
        for kind, of_kind in faults.items():
            if not all(of_kind):  # no fault is ""
                self._since.pop(kind, None)
            elif monotonic() - self._since.setdefault(kind, monotonic()) > _GRACE:
                raise ClusterError(f"no {kind} pod can start: {of_kind[0]}")


def _own_pod() -> tuple[str, str]:
    """Return the name and the uid of this pod, from the environment that its manifest sets."""
    return os.environ.get("POD_NAME", ""), os.environ.get("POD_UID", "")


def _replace_leftover(existing: Object, api: Api) -> None:
    """Delete the existing cluster of that name if no run can be using it."""
    metadata = existing["metadata"]
    name = metadata["name"]
    owners = [owner for owner in metadata.get("ownerReferences", []) if owner["kind"] == "Pod"]
    is_leftover = bool(owners) and not any(_is_running(owner, api) for owner in owners)
    if not is_leftover and "deletionTimestamp" not in metadata:
        raise ClusterError(
            f"DaskCluster {name} already exists: another run uses it, or left it behind; choose "
            f"another `instance`, or run `kubectl delete daskcluster {name}`"
        )
    api.delete(name)
    until = monotonic() + 120.0  # seconds that a deletion may take
    while api.get(name) is not None:
        if monotonic() > until:
            raise ClusterError(
                f"DaskCluster {name} of an earlier run is not deleted: is the operator running?"
            )
        sleep(1)


def _is_running(owner: dict[str, str], api: Api) -> bool:
    """Return whether the pod that owns a cluster is still running."""
    pod = api.pod(owner["name"])
    if pod is None or pod["metadata"]["uid"] != owner["uid"]:
        return False
    leaving = "deletionTimestamp" in pod["metadata"]
    return not leaving and pod["status"]["phase"] not in ("Succeeded", "Failed")


def _fault(pod: Object) -> str:
    """Return why a pod cannot start, empty if nothing prevents it."""
    for container in pod["status"].get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _PERSISTENT:
            message = waiting.get("message", "no message")
            return f"{pod['metadata']['name']}: {waiting['reason']} ({message})"
    return ""


def _if_present(request: Callable[..., Object], **arguments: str) -> Object | None:
    """Return the answer to a request, None if its object does not exist."""
    try:
        return request(**arguments, _request_timeout=_ANSWER)
    except OpenApiException as error:
        if getattr(error, "status", None) != 404:
            raise
        return None


@contextmanager
def _api_errors(action: str) -> Iterator[None]:
    """Turn errors of the API into a ClusterError that names the failed ``action``."""
    try:
        yield
    except OpenApiException as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise ClusterError(
            f"Kubernetes request failed: {action}: {_message(error) or reason}"
        ) from None
    except (config.ConfigException, HTTPError, OSError, yaml.YAMLError) as error:
        raise ClusterError(f"Kubernetes request failed: {action}: {error}") from None


def _message(error: OpenApiException) -> str:
    """Return only the message of the API server; its headers may hold confidential data."""
    try:
        return str(json.loads(getattr(error, "body", ""))["message"])
    except (KeyError, TypeError, ValueError):
        return ""
