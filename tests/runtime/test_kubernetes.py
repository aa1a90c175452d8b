"""The kubernetes cluster as far as it goes without an API server."""

import json

import pytest
from loops import for_each

from clusterscale.errors import ClusterError, ConfigError, MissingError
from clusterscale.runtime import CLUSTERS
from clusterscale.runtime.clusters.kubernetes import Kubernetes, dask_cluster

pytestmark = pytest.mark.dask


@for_each(
    ("fields", "fault"),
    [
        ({"memory": "lots"}, "memory 'lots' is not a size such as 4GiB"),
        ({"memory": "200MiB"}, "less than a worker needs, 256MiB"),
        ({"instance": "Audit_1"}, "instance"),
        ({"instance": "a" * 41}, "instance"),
        ({"volumes": [{"claim": "data", "path": "mnt"}]}, "path"),
        ({"workers": 0}, "workers"),
        ({"pod": {"hostNetwork": True}}, "hostNetwork"),
        ({"pod": {"securityContext": {}}}, "securityContext"),
        ({"labels": {"team": 1}}, "team"),
    ],
)
def test_fields_that_cannot_be(fields, fault):
    with pytest.raises(ConfigError, match=fault):
        CLUSTERS.create("kubernetes", **fields)


def test_no_encryption_must_be_said_and_leaves_no_trace():
    plain = Kubernetes(tls=False)
    assert plain.scheduler_address("here") == "tcp://clusterscale-scheduler.here.svc:8786"
    assert "tls" not in json.dumps(dask_cluster(plain, "here", "image:1")).lower()
    secure = Kubernetes()
    assert secure.scheduler_address("here") == "tls://clusterscale-scheduler.here.svc:8786"
    assert json.dumps(dask_cluster(secure, "here", "image:1")).count("--tls-key") == 2
    with pytest.raises(ConfigError):
        Kubernetes(tls=True)


def test_pods_get_what_the_site_wants_and_stay_shut_in():
    fields = {"serviceAccountName": "store", "tolerations": [{"operator": "Exists"}]}
    name = "app.kubernetes.io/name"
    made = dask_cluster(Kubernetes(pod=fields, labels={"team": "x", name: "y"}), "here", "image:1")
    assert made["metadata"]["labels"].items() >= {"team": "x", name: "clusterscale"}.items()
    for part in ("scheduler", "worker"):
        assert made["spec"][part]["spec"].items() >= fields.items()
        assert made["spec"][part]["spec"]["automountServiceAccountToken"] is False


def test_certificates_that_are_not_there_are_named():
    pytest.importorskip("kubernetes")
    with pytest.raises(MissingError, match=r"tls.ca: /run/clusterscale/tls/ca.crt"):
        Kubernetes(image="image:1").open().__enter__()


def test_no_kubernetes_is_one_clear_error(monkeypatch, tmp_path):
    pytest.importorskip("kubernetes")
    config = {"clusters": [], "users": [], "contexts": []}
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with pytest.raises(ClusterError, match="request failed: find the API server"):
        Kubernetes(image="image:1", tls=False).open().__enter__()
