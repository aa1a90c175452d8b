"""Manifests are valid, shut in, and hang together; each check is shown to find its fault."""

import copy
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from doubles.kube import render
from oracles.manifests import (
    check_schedule,
    containers,
    find_faults,
    is_final,
    pick,
    pods,
    size,
)

from clusterscale import __version__
from clusterscale.cli.releases import EXIT_CODES
from clusterscale.config import parse
from clusterscale.config.reading import parse_releases
from clusterscale.errors import TEMPORARY
from clusterscale.runtime.clusters.base import ENVIRONMENT
from clusterscale.runtime.clusters.kubernetes import dask_cluster

DEPLOY = Path(__file__).parents[2] / "deploy"
OVERLAYS = ("base", "s3", "pvc")
COMPONENTS = {  # those that take the place of another, and what is then left to the reader
    "identity-aws": "static-keys",
    "identity-gcp": "static-keys",
    "identity-azure": "static-keys",
    "cert-manager": None,
    "cilium": None,
}
MADE = ("made-s3", "made-pvc", "no-such-key", "no-number", "no-such-core-key", "no-text")


@cache
def rendered(overlay):
    return render(DEPLOY / "kubernetes" / overlay)


@cache
def with_component(name):
    """Return the objects of a copy of the overlay for stores that is edited as the README says."""
    with TemporaryDirectory() as folder:
        copied = Path(shutil.copytree(DEPLOY / "kubernetes", f"{folder}/kubernetes")) / "s3"
        file, line = copied / "kustomization.yaml", "  - ../components/static-keys\n"
        text = file.read_text()
        assert line in text
        kept = "" if COMPONENTS[name] else line
        file.write_text(text.replace(line, f"{kept}  - ../components/{name}\n"))
        return render(copied)


@pytest.fixture(params=OVERLAYS)
def objects(request):
    return copy.deepcopy(rendered(request.param))


def test_everything_is_shut_in_and_there(objects):
    missing = [fault for fault in find_faults(objects) if "ConfigMap" not in fault]
    assert missing == []
    assert [name for name, *_ in pods(objects)] == ["driver", "runner", "scheduler", "worker"]


@pytest.mark.parametrize("overlay", ["s3", "pvc"])
def test_an_overlay_lacks_nothing(overlay):
    assert find_faults(rendered(overlay)) == []
    assert {each["metadata"].get("namespace") for each in rendered(overlay)} == {"clusterscale"}


@pytest.mark.parametrize("name", COMPONENTS)
def test_a_component_lacks_nothing(name):
    objects = with_component(name)
    assert find_faults(objects) == []
    assert {each["metadata"].get("namespace") for each in objects} == {"clusterscale"}


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_with_an_identity_pods_have_no_keys(cloud):
    objects = with_component(f"identity-{cloud}")
    annotated = [each for each in objects if each["metadata"].get("annotations")]
    assert {each["kind"] for each in annotated} == {"ServiceAccount"}
    names = {each["metadata"]["name"] for each in annotated}
    for name, pod, labels in pods(objects):
        assert not any("envFrom" in each for each in containers(pod)), name
        assert name == "scheduler" or pod["serviceAccountName"] in names
        assert ("azure.workload.identity/use" in labels) == (cloud == "azure")


def test_with_cilium_no_policy_lets_pods_reach_any_address():
    assert "0.0.0.0/0" in json.dumps(rendered("s3"))
    objects = with_component("cilium")
    assert "0.0.0.0/0" not in json.dumps(objects)
    (store,) = [each for each in objects if "toFQDNs" in json.dumps(each)]
    names = [each["toFQDNs"] for each in store["spec"]["egress"] if "toFQDNs" in each]
    assert {tuple(each) for each in names[0]} == {("matchName",), ("matchPattern",)}


def test_cert_manager_makes_the_secret_that_pods_mount():
    made = [each for each in with_component("cert-manager") if each["kind"] == "Certificate"]
    authority, leaf = made
    assert authority["spec"]["isCA"]
    assert leaf["spec"]["secretName"] == "clusterscale-tls"
    assert {"server auth", "client auth"} <= set(leaf["spec"]["usages"])


def test_an_image_is_set_by_its_digest_in_all_pods(tmp_path):
    """By the lines that the overlays have as comments."""
    text = (DEPLOY / "kubernetes/s3/kustomization.yaml").read_text()
    digest = "sha256:" + 64 * "a"
    lines = re.findall(r"^# (images:|  - name: .*|    newName: .*|    digest: ).*$", text, re.M)
    assert len(lines) == 4
    block = "\n".join(line.split("  # ")[0] for line in lines) + digest
    shutil.copytree(DEPLOY / "kubernetes", tmp_path / "kubernetes")
    with open(tmp_path / "kubernetes/s3/kustomization.yaml", "a") as file:
        file.write(f"{block}\n")
    objects = render(tmp_path / "kubernetes/s3")
    assert find_faults(objects) == []
    images = {containers(pod)[0]["image"] for _, pod, _ in pods(objects)}
    assert images == {f"registry.example.org/clusterscale@{digest}"}


def test_the_quota_is_enough_for_both_audits_at_a_time():
    quota = pick(rendered("admin"), "ResourceQuota")["spec"]["hard"]
    every = list(pods([*rendered("pvc"), made_by("pvc")]))
    workers = pick(rendered("pvc"), "DaskJob")["spec"]["cluster"]["spec"]["worker"]["replicas"]
    for bound in ("requests", "limits"):
        for unit in ("cpu", "memory"):
            needed = 0.0
            for name, pod, _ in every:
                amount = containers(pod)[0]["resources"][bound][unit]
                needed += quantity(amount) * (workers if name == "worker" else 1)
            assert needed <= quantity(quota[f"{bound}.{unit}"]), (bound, unit)


def quantity(text):
    """Return a quantity of Kubernetes in units, or in bytes."""
    if text.endswith("m"):
        return float(text[:-1]) / 1000
    return float(text) if text.isdigit() else size(text)


def test_the_namespace_admits_restricted_pods_only():
    labels = pick(rendered("admin"), "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"


def test_the_single_runner_outlives_a_drained_node():
    budgets = [each for each in rendered("base") if each["kind"] == "PodDisruptionBudget"]
    kept = {
        each["spec"]["selector"]["matchLabels"]["dask.org/component"]: each["spec"].get(
            "minAvailable"
        )
        for each in budgets
    }
    assert kept == {"job-runner": 1, "worker": None}


def test_the_base_says_where_it_is_to_go_nowhere():
    assert not any("namespace" in each["metadata"] for each in rendered("base"))


def edit(path, value=None):
    """Return what sets, or without a value deletes, the item of an object at a path."""

    def change(objects):
        kind, *keys = path
        place = pick(objects, kind)
        for key in keys[:-1]:
            place = place[key]
        if value is None:
            del place[keys[-1]]
        else:
            place[keys[-1]] = value

    return change


RUNNER = ("DaskJob", "spec", "job", "spec")
CLUSTER = ("DaskJob", "spec", "cluster", "spec")
WORKER = (*CLUSTER, "worker", "spec", "containers", 0)
SCHEDULER = (*CLUSTER, "scheduler", "spec", "containers", 0)
DRIVER = ("CronJob", "spec", "jobTemplate", "spec", "template")
MAIN = (*RUNNER, "containers", 0)

FAULTS = [
    (edit(("CronJob", "spec", "schedule"), "17 24 * * 1"), "schedule: '24' is not from 0 to 23"),
    (edit(("CronJob", "spec", "schedule"), "17 2 * *"), "schedule: '17 2 * *' has 4 fields"),
    (edit(("CronJob", "spec", "schedule"), "@weakly"), "has 1 fields"),
    (edit(("CronJob", "spec", "concurrencyPolicy"), "Allow"), "concurrencyPolicy"),
    (edit((*RUNNER, "securityContext", "runAsNonRoot")), "runner: may run as root"),
    (edit((*RUNNER, "securityContext", "seccompProfile")), "runner: no seccomp"),
    (edit((*RUNNER, "automountServiceAccountToken")), "runner: token"),
    (edit((*MAIN, "securityContext", "readOnlyRootFilesystem"), False), "root file system"),
    (edit((*MAIN, "securityContext", "allowPrivilegeEscalation")), "gain privileges"),
    (edit((*MAIN, "securityContext", "capabilities", "drop"), ["NET_RAW"]), "capabilities"),
    (edit((*MAIN, "resources", "limits")), "runner: no limits"),
    (edit((*MAIN, "resources", "requests", "memory")), "runner: no requests"),
    (edit((*MAIN, "image"), "clusterscale:latest"), "not pinned"),
    (edit((*MAIN, "image"), "clusterscale"), "not pinned"),
    (
        edit((*MAIN, "env"), [{"name": "AWS_SECRET_ACCESS_KEY", "value": "x"}]),
        "runner: AWS_SECRET_ACCESS_KEY is written out",
    ),
    (edit((*WORKER, "args", 0), "tcp://audit-scheduler:8786"), "worker: joins without encryption"),
    (edit((*WORKER, "args", 4), "2"), "worker: more than one thread"),
    (edit((*WORKER, "resources", "limits", "memory"), "4Gi"), "worker: may use all the memory"),
    (edit((*WORKER, "args", -1)), "worker: no --tls-key"),
    (edit((*SCHEDULER, "env", -1)), "scheduler: encryption is not required"),
    (edit((*SCHEDULER, "args", 1), ":8787"), "scheduler: its dashboard can be reached"),
    (edit((*RUNNER, "volumes", 2, "secret", "secretName"), "gone"), "runner: Secret gone"),
    (edit((*RUNNER, "volumes", 0)), "mounts scratch"),
    (edit((*DRIVER, "spec", "serviceAccountName"), "root"), "driver: ServiceAccount root"),
    (edit((*DRIVER, "metadata", "labels", "app.kubernetes.io/name"), "other"), "Ingress is open"),
    (edit((*RUNNER, "priorityClassName"), "urgent"), "runner: PriorityClass urgent"),
    (edit((*MAIN, "envFrom"), [{"secretRef": {"name": "lost"}}]), "runner: Secret lost"),
]


@pytest.mark.parametrize(("change", "expected"), FAULTS, ids=[fault for _, fault in FAULTS])
def test_each_check_finds_its_fault(change, expected):
    objects = copy.deepcopy(rendered("s3"))
    change(objects)
    assert any(expected in fault for fault in find_faults(objects)), find_faults(objects)


@pytest.mark.parametrize("text", ["17 2 * * 1", "*/15 0-6,22 1 1-12/3 *", "0 0 31 12 6"])
def test_good_schedules_are_let_through(text):
    check_schedule(text)


@pytest.fixture(scope="module")
def invalid(tmp_path_factory):
    """What the tools find wrong by the operator's CRDs and the schema of Kubernetes, by name."""
    path = Path(os.environ.get("CLUSTERSCALE_DATA", "nowhere")).parent / "tools/validate_k8s.py"
    if not path.is_file():
        pytest.skip("validate_k8s.py is absent: no tools beside CLUSTERSCALE_DATA")
    for module in ("dask_kubernetes", "jsonschema", "kubernetes_validate"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: clusterscale[deploy-test] has it")
    folder = tmp_path_factory.mktemp("rendered")
    for name, objects in examples().items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump_all(objects))
    files = sorted(map(str, folder.glob("*.yaml")))
    done = subprocess.run([sys.executable, str(path), *files], capture_output=True, text=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == sum(map(len, examples().values())), done.stderr
    return {
        name: [" ".join(line) for line in lines if line[0] == f"{name}.yaml" and line[4] != "OK"]
        for name in examples()
    }


def broken(kind, change):
    """Return an object of the base after a change."""
    objects = copy.deepcopy(rendered("base"))
    change(objects)
    return [pick(objects, kind)]


def catalogue(overlay):
    """Return the catalogue that is re-audited."""
    return parse_releases(pick(rendered(overlay), "ConfigMap")["data"]["releases.yaml"])


def made_by(overlay):
    """Return the DaskCluster that a scheduled run would have, called as the DaskJob's."""
    cluster = catalogue(overlay).cluster.model_copy(update={"instance": "audit"})
    return dask_cluster(cluster, "clusterscale", f"clusterscale:{__version__}")


@cache
def examples():
    known = {name: rendered(name) for name in (*OVERLAYS, "admin")}
    # Kinds of cert-manager and Cilium have no schema here.
    others = {name: with_component(name) for name in COMPONENTS if name.startswith("identity")}
    return (
        known
        | others
        | {
            "made-s3": [made_by("s3")],
            "made-pvc": [made_by("pvc")],
            "no-such-key": broken("DaskJob", edit((*WORKER, "comand"), ["dask"])),
            "no-number": broken("DaskJob", edit((*CLUSTER, "worker", "replicas"), "many")),
            "no-such-core-key": broken(
                "CronJob", edit(("CronJob", "spec", "scheduel"), "1 2 3 4 5")
            ),
            "no-text": broken("CronJob", edit((*DRIVER, "spec", "containers", 0, "image"), 5)),
        }
    )


@pytest.mark.nightly(group="kubernetes")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "name", [*OVERLAYS, "admin", "identity-aws", "identity-gcp", "identity-azure", *MADE]
)
def test_objects_follow_their_schemas_or_are_found(name, invalid):
    assert len(invalid[name]) == (1 if name.startswith("no-") else 0), invalid[name]


@pytest.mark.parametrize("overlay", ["s3", "pvc"])
def test_the_kubernetes_cluster_makes_the_same_pods(overlay, monkeypatch):
    """What a scheduled run has made for it is what the DaskJob has written out."""
    monkeypatch.delenv("CLUSTERSCALE_RETRY_SECONDS")
    made, others = made_by(overlay), [o for o in rendered(overlay) if o["kind"] != "DaskJob"]
    written = copy.deepcopy(pick(rendered(overlay), "DaskJob")["spec"]["cluster"]["spec"])
    # A driver knows its namespace; manifests are applied to any.
    address = written["worker"]["spec"]["containers"][0]["args"]
    address[0] = "tls://audit-scheduler.clusterscale.svc:8786"
    assert sort(made["spec"]) == sort(written)
    assert find_faults([*others, made]) == []


def sort(value):
    """Return a value whose lists of named things are in the order of the names."""
    if isinstance(value, dict):
        return {key: sort(each) for key, each in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted(map(sort, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


@pytest.mark.parametrize("overlay", ["s3", "pvc"])
def test_configs_and_files_agree_on_paths(overlay):
    """Where runs read and write is what pods mount, and no two of them write to one place."""
    objects = rendered(overlay)
    config, listed = parse(pick(objects, "ConfigMap")["data"]["audit.yaml"]), catalogue(overlay)
    assert listed.cube == config.cube
    assert listed.output != config.output
    paths = [config.cube.path, config.output, listed.output, listed.releases]
    if overlay == "s3":
        assert {path.split("/")[2] for path in paths} == {"clusterscale"}
        return
    for name, pod, _ in pods(objects):
        if name != "scheduler":
            mounts = [each["mountPath"] for each in containers(pod)[0]["volumeMounts"]]
            for path in paths:
                assert any(path.startswith(f"{mount}/") for mount in mounts), (name, path)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_schedule_runs_the_one_command_and_tries_again_what_may_go_on(overlay):
    job = pick(rendered(overlay), "CronJob")["spec"]["jobTemplate"]["spec"]
    (driver,) = job["template"]["spec"]["containers"]
    config = "/run/clusterscale/config/releases.yaml"
    assert [*driver["command"], *driver["args"]] == ["clusterscale", "reaudit", config]
    assert job["backoffLimit"] == 3
    codes = {code: is_final(job, code) for code in (1, 2, 3, 4, TEMPORARY, 130, 137, 143)}
    assert [code for code, final in codes.items() if final] == [
        1,
        2,
        EXIT_CODES["warn"],
        EXIT_CODES["fail"],
    ]


def test_workers_retry_for_as_long_as_the_driver(monkeypatch):
    monkeypatch.setenv("CLUSTERSCALE_RETRY_SECONDS", "300")
    worker = json.dumps(made_by("s3"))
    assert '{"name": "CLUSTERSCALE_RETRY_SECONDS", "value": "300"}' in worker


@pytest.mark.parametrize("overlay", ["s3", "pvc"])
def test_workers_are_set_as_on_any_other_cluster(overlay):
    (worker,) = [pod for name, pod, _ in pods(rendered(overlay)) if name == "worker"]
    variables = {each["name"]: each.get("value") for each in containers(worker)[0]["env"]}
    assert variables.items() >= ENVIRONMENT.items()
