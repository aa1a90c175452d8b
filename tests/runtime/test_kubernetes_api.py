"""What the kubernetes cluster asks of an API server, and what it may ask; no operator runs."""

import json
import urllib.error
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from doubles.kube import Kube
from doubles.waiting import wait_for

from clusterscale.errors import ClusterError
from clusterscale.runtime.clusters.kubernetes import Kubernetes, dask_cluster

pytestmark = [
    pytest.mark.nightly(group="kubernetes"),
    pytest.mark.timeout(1800),
    pytest.mark.dask,
    pytest.mark.xdist_group("kubernetes-api"),
]

ACCOUNT = Path(__file__).parents[2] / "deploy" / "kubernetes" / "base" / "account.yaml"


@pytest.fixture(scope="module")
def kube(tmp_path_factory):
    made = Kube(tmp_path_factory.mktemp("kube"), operator=False)
    yield made
    made.close()


@pytest.fixture
def api(kube, monkeypatch):
    from clusterscale.runtime.kubernetes_api import connect

    monkeypatch.setenv("KUBECONFIG", kube.environment["KUBECONFIG"])
    for name in ("POD_NAME", "POD_UID"):
        monkeypatch.delenv(name, raising=False)
    with connect("clusterscale") as api:
        yield api


@pytest.fixture
def manifest():
    return dask_cluster(Kubernetes(), "clusterscale", "image:1")


@pytest.fixture
def pod(kube, monkeypatch):
    """A pod that stands for that of the driver; its name is in the environment."""
    spec = {"containers": [{"name": "driver", "image": "mine:1", "command": ["sleep", "3600"]}]}
    metadata = {"name": "driver", "namespace": "clusterscale"}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    made = kube.get("pods", "driver")
    monkeypatch.setenv("POD_NAME", "driver")
    monkeypatch.setenv("POD_UID", made["metadata"]["uid"])
    yield made
    kube.kubectl("delete", "pod", "driver", "--ignore-not-found", "--wait=false")
    wait_for(lambda: not there(kube, "pods"), "the end of the pod")


def there(kube, kind="daskclusters"):
    return [each["metadata"]["name"] for each in kube.get(kind)]


def test_a_cluster_is_there_while_it_is_needed_and_only_one_has_it(kube, api, manifest):
    from clusterscale.runtime.kubernetes_api import hosted

    with hosted(manifest, api):
        assert there(kube) == ["clusterscale"]
        with (
            pytest.raises(ClusterError, match="another run uses it, or left it behind"),
            hosted(manifest, api),
        ):
            pass
        assert there(kube) == ["clusterscale"]
    assert there(kube) == []


def test_a_pod_takes_its_image_for_all_and_its_cluster_with_it(kube, api, manifest, pod):
    from clusterscale.runtime.kubernetes_api import hosted, own_image

    assert own_image(api) == "mine:1"
    with hosted(manifest, api):
        kube.kubectl("delete", "pod", "driver", "--wait=false")
        wait_for(lambda: there(kube) == [], "the end of what the pod owned")


def test_an_image_must_come_from_somewhere(api):
    from clusterscale.runtime.kubernetes_api import own_image

    with pytest.raises(ClusterError, match=r"cluster\.image is missing"):
        own_image(api)


def test_what_a_pod_left_behind_is_replaced(kube, api, manifest, pod, monkeypatch):
    from clusterscale.runtime.kubernetes_api import hosted

    killed = hosted(manifest, api)
    killed.__enter__()
    first = kube.get("daskclusters", "clusterscale")["metadata"]["uid"]
    monkeypatch.delenv("POD_UID")
    with pytest.raises(ClusterError, match="another run uses it"):  # its pod still runs
        hosted(manifest, api).__enter__()
    kube.kill(pod)
    wait_for(lambda: kube.get("pods", "driver")["status"]["phase"] == "Failed", "a failed pod")
    with hosted(manifest, api):
        assert kube.get("daskclusters", "clusterscale")["metadata"]["uid"] != first
    assert there(kube) == []
    with suppress(ClusterError):  # now, and not when the API server has gone
        killed.__exit__(None, None, None)


def test_a_cluster_that_somebody_deleted_is_said_to_be_gone(kube, api, manifest):
    from clusterscale.runtime.kubernetes_api import hosted

    with hosted(manifest, api) as monitor:
        monitor.check()
        kube.kubectl("delete", "daskcluster", "clusterscale", "--wait=false")
        with pytest.raises(ClusterError, match="was deleted during the run"):
            monitor.check()


def test_pods_without_hope_end_the_wait(kube, api, manifest, monkeypatch):
    from clusterscale.runtime import kubernetes_api

    for name in ("stuck", "sound"):
        labels = {"dask.org/cluster-name": "clusterscale", "dask.org/component": "worker"}
        metadata = {"name": name, "namespace": "clusterscale", "labels": labels}
        spec = {"containers": [{"name": "worker", "image": "i:1", "command": ["sleep", "3600"]}]}
        kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    wait_for(lambda: _running(kube, "stuck") and _running(kube, "sound"), "two pods")
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    container = {"name": "worker", "image": "i:1", "imageID": "", "ready": False}
    container |= {"restartCount": 0, "state": {"waiting": waiting}}
    status = {"containerStatuses": [container]}
    patch = json.dumps({"status": status})
    kube.kubectl("patch", "pod", "stuck", "--subresource=status", "--type=merge", "-p", patch)
    monkeypatch.setattr(kubernetes_api, "_GRACE", -1)
    with kubernetes_api.hosted(manifest, api) as monitor:
        monitor.check()  # another worker is sound
        kube.kubectl("delete", "pod", "sound", "--wait=false")
        wait_for(lambda: there(kube, "pods") == ["stuck"], "one pod")
        with pytest.raises(ClusterError, match="no worker pod can start: stuck: ImagePullBackOff"):
            monitor.check()
    kube.kubectl("delete", "pod", "stuck", "--wait=false")


def _running(kube, name):
    return kube.get("pods", name).get("status", {}).get("phase") == "Running"


def _asked(method, path):
    """Return the group, the resource and the verb of a request, as rules name them."""
    path, _, query = path.partition("?")
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis") or "namespaces" not in parts:
        return None
    group = parts[1] if parts[0] == "apis" else ""
    resource, *name = parts[parts.index("namespaces") + 2 :]
    verbs = {"POST": "create", "DELETE": "delete", "PATCH": "patch", "PUT": "update"}
    read = "get" if name else "watch" if "watch=" in query else "list"
    return group, resource, verbs.get(method, read)


@pytest.fixture
def guarded(kube, monkeypatch, tmp_path):
    """An API server that lets the role of the manifests do what it may, and counts the rest."""
    (role,) = [each for each in yaml.safe_load_all(ACCOUNT.read_text()) if each["kind"] == "Role"]
    allowed = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    config = yaml.safe_load(Path(kube.environment["KUBECONFIG"]).read_text())
    behind, used, refused = config["clusters"][0]["cluster"]["server"], set(), set()

    class Guard(BaseHTTPRequestHandler):
        def answer(self):
            asked = _asked(self.command, self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if asked is not None and asked not in allowed:
                refused.add(asked)
                return self.reply(403, b'{"message": "forbidden"}')
            used.add(asked)
            request = urllib.request.Request(
                behind + self.path,
                body or None,
                method=self.command,
                headers={"Content-Type": self.headers.get("Content-Type", "application/json")},
            )
            try:
                with urllib.request.urlopen(request) as answer:
                    return self.reply(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    return self.reply(error.code, error.read())

        def reply(self, status, body):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = answer

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Guard)
    Thread(target=server.serve_forever, daemon=True).start()
    config["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{server.server_port}"
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    yield allowed, used, refused
    server.shutdown()
    server.server_close()


def test_the_role_suffices_and_has_nothing_to_spare(kube, guarded, pod, manifest):
    from clusterscale.runtime.kubernetes_api import connect, hosted, own_image

    allowed, used, refused = guarded
    with connect("clusterscale") as api:
        assert own_image(api) == "mine:1"
        with hosted(manifest, api) as monitor:
            monitor.check()
    assert refused == set()
    assert used - {None} == allowed


def test_what_the_role_does_not_allow_is_said(kube, guarded, manifest):
    from clusterscale.runtime.kubernetes_api import connect, hosted

    allowed, _, refused = guarded
    allowed.discard(("kubernetes.dask.org", "daskclusters", "create"))
    with (
        pytest.raises(ClusterError, match=r"create DaskCluster clusterscale in .* forbidden"),
        connect("clusterscale") as api,
        hosted(manifest, api),
    ):
        pass
    assert refused == {("kubernetes.dask.org", "daskclusters", "create")}
