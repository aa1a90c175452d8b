"""The manifests as they are, run by the real operator; pods are processes of this machine."""

import copy
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import yaml
from conftest import draw_dense, write_cube
from doubles.gate import Gate
from doubles.kube import Kube, render
from doubles.waiting import LIMIT, wait_for
from oracles.manifests import is_final

from clusterscale import __version__
from clusterscale.analyses.audit import open_results
from clusterscale.cli.releases import EXIT_CODES

Client = pytest.importorskip("distributed").Client

pytestmark = [
    pytest.mark.nightly(group="kubernetes"),
    pytest.mark.timeout(1800),
    pytest.mark.dask,
    pytest.mark.xdist_group("kubernetes-deploy"),
]

DEPLOY = Path(__file__).parents[3] / "deploy" / "kubernetes"

QUESTION = {
    "seed": 5,
    "targets": {"random": 6},
    "group_sizes": [10],
    "periods": [{"name": "all", "first": 0, "epochs": 96}],
    "priors": [{"name": "known_subset", "alpha": 0.5, "training": 100, "challenges": 50}],
    "mechanisms": [{"name": "exact"}, {"name": "laplace", "epsilon": 1.0, "unit": "event"}],
    "attacks": [{"name": "logistic"}, {"name": "projection"}],
}

# The double hands no pod its name and namespace, by which a driver finds its image and place.
PLACE = {"workers": 2, "image": f"clusterscale:{__version__}", "namespace": "clusterscale"}


@pytest.fixture(scope="module")
def objects():
    """The overlay with a volume, as kubectl renders it."""
    return render(DEPLOY / "pvc")


FILES = {"ca.pem": "ca.crt", "cert.pem": "tls.crt", "key.pem": "tls.key"}
N_TICKETS = 2  # tasks that may end before a pod is killed


def pick(objects, kind):
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def make_do(container):
    """Change what the double cannot do: fill in fields of the pod, and search domains of names."""
    container["env"] = [each for each in container["env"] if "value" in each]
    for argument in container["args"]:
        if "audit-scheduler:" in argument:
            i = container["args"].index(argument)
            container["args"][i] = argument.replace(":8786", ".clusterscale:8786")
    return container


@pytest.fixture(scope="module")
def kube(objects, tmp_path_factory):
    from clusterscale.runtime.security import make_certificates

    folder = tmp_path_factory.mktemp("kube")
    make_certificates(folder / "tls")
    for ours, name in FILES.items():  # as the README has it
        (folder / "tls" / ours).rename(folder / "tls" / name)
    (folder / "config").mkdir()
    (folder / "data").mkdir()
    write_cube(
        str(folder / "data" / "cube.zarr"), draw_dense(np.random.default_rng(3), 200, 12, 96)
    )
    files = pick(objects, "ConfigMap")["data"]
    config = yaml.safe_load(files["audit.yaml"]) | {"audit": QUESTION}
    config["cluster"] = yaml.safe_load(files["releases.yaml"])["cluster"] | PLACE
    (folder / "config" / "audit.yaml").write_text(yaml.safe_dump(config))
    gate = Gate(folder / "gate")
    made = Kube(folder, environment=gate.environment)
    made.gate = gate
    yield made
    made.close()


@pytest.fixture(scope="module")
def reference(kube):
    """The same audit without any cluster; what it compiles is there for the pods."""
    config = yaml.safe_load((kube.folder / "config" / "audit.yaml").read_text())
    config |= {"cube": str(kube.folder / "data" / "cube.zarr"), "cluster": {"name": "serial"}}
    (kube.folder / "serial.yaml").write_text(yaml.safe_dump(config))
    folder = kube.folder / "serial"
    compiled = kube.folder / "scratch" / "numba"
    with auditing(kube.folder / "serial.yaml", folder, NUMBA_CACHE_DIR=compiled):
        pass
    return open_results(str(folder))


@contextmanager
def auditing(config, folder, **variables):
    """Run an audit as a process of its own, to its end; kill it at once if the test has failed."""
    log = folder.with_suffix(".log")
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "clusterscale", "audit", str(config), "--output", str(folder)],
            env=os.environ | {name: str(value) for name, value in variables.items()},
            stdout=output,
            stderr=output,
            cwd=folder.parent,
        )
    try:
        yield process
        code, failures = process.wait(2 * LIMIT), folder / "failures.txt"
        assert code == 0, log.read_text() + (failures.read_text() if failures.exists() else "")
    finally:
        process.kill()
        process.wait()


@pytest.fixture(autouse=True)
def _nothing_left(kube):
    """Delete what a failed test leaves behind, so that the next one does not fail as well."""
    yield
    kube.gate.open()
    kube.empty()


def n_kept(folder):
    """Return how many tasks a run has kept while the gate was shut."""
    return len(list((folder / "journal").glob("*.record")))


def ended(kube, kind, name):
    """Return whether a run is over; fail with what its pod says if it failed."""
    status = kube.get(kind, name).get("status", {})
    failed = status.get("jobStatus") == "Failed" or status.get("failed")
    assert not failed, [kube.log(pod)[-3000:] for pod in kube.get("pods")]
    return status.get("jobStatus") == "Successful" or status.get("succeeded")


def said(kube):
    """Return what all pods said."""
    return "\n".join(kube.log(pod)[-3000:] for pod in kube.get("pods"))


def replace_pod(kube, component, folder, driver=None):
    """Kill a pod while tasks are left, and wait until another is there in its place."""

    def begun():
        assert driver is None or driver.poll() is None, folder.with_suffix(".log").read_text()
        return n_kept(folder) == N_TICKETS

    wait_for(begun, lambda: f"the first tasks: {said(kube)}")
    before = {pod["metadata"]["name"]: pod for pod in kube.pods(component)}
    lost = sorted(before)[0]
    kube.kill(before[lost])

    def replaced():
        names = {pod["metadata"]["name"] for pod in kube.pods(component)}
        return len(names) == len(before) and lost not in names

    wait_for(replaced, lambda: f"a new {component} pod: {said(kube)}")
    assert n_kept(folder) >= N_TICKETS  # a worker that closes ends its task, and writes its result
    kube.gate.open()


def check(folder, reference):
    """Compare results bit by bit, but for the time that things took."""
    left, right = (each.drop_vars("seconds") for each in (open_results(str(folder)), reference))
    xr.testing.assert_identical(left, right)


def test_a_dask_job_replaces_a_worker_pod(kube, objects, reference):
    job = pick(objects, "DaskJob")
    job["metadata"]["namespace"] = "clusterscale"
    parts = job["spec"]["cluster"]["spec"]
    parts["worker"]["replicas"] = 2
    for pod in (job["spec"]["job"], parts["scheduler"], parts["worker"]):
        make_do(pod["spec"]["containers"][0])
    kube.gate.shut(N_TICKETS)
    kube.apply(job)
    folder = kube.folder / "data" / "runs" / "first"
    wait_for(lambda: n_kept(folder) == N_TICKETS, lambda: f"the first tasks: {said(kube)}")
    address = kube.get("services", "audit-scheduler")["spec"]["clusterIP"]
    with pytest.raises(OSError, match=r"Timed out|TCP"):  # a stranger without certificates
        Client(f"tcp://{address}:8786", timeout=2)
    replace_pod(kube, "worker", folder)
    wait_for(
        lambda: ended(kube, "daskjobs", "audit"), lambda: f"the end of the DaskJob: {said(kube)}"
    )
    check(folder, reference)
    wait_for(lambda: not kube.pods("worker"), "the end of the cluster")


def test_a_driver_makes_its_cluster_and_outlives_a_scheduler_pod(kube, reference):
    config = yaml.safe_load((kube.folder / "config" / "audit.yaml").read_text())
    config["cube"] = str(kube.folder / "data" / "cube.zarr")
    files = dict(zip(("ca", "certificate", "key"), FILES.values(), strict=True))
    config["cluster"]["tls"] = {key: str(kube.folder / "tls" / file) for key, file in files.items()}
    (kube.folder / "elsewhere.yaml").write_text(yaml.safe_dump(config))
    folder = kube.folder / "elsewhere"
    kube.gate.shut(N_TICKETS)
    with auditing(kube.folder / "elsewhere.yaml", folder, **kube.resolving) as driver:
        replace_pod(kube, "scheduler", folder, driver)
    check(folder, reference)
    assert kube.get("daskclusters") == []


@pytest.fixture(scope="module")
def released(kube, objects):
    """The catalogue of the overlay, asked less, and one release that gives away who is in it."""
    listed = yaml.safe_load(pick(objects, "ConfigMap")["data"]["releases.yaml"])
    question = {key: QUESTION[key] for key in ("seed", "priors", "attacks")}
    listed["audit"] = question | {"targets": {"random": 4}, "control": False}
    listed |= {"everyone": False, "policy": {"mean_privacy_loss": 0.1}}
    listed["cluster"] |= PLACE
    (kube.folder / "config" / "releases.yaml").write_text(yaml.safe_dump(listed))
    counts = draw_dense(np.random.default_rng(3), 200, 12, 96)[:10].sum(axis=0)
    dataset = xr.Dataset({"counts": (("roi", "epoch"), counts)})
    dataset.attrs = {"group_size": 10, "mechanism": json.dumps({"name": "exact"}), "first": 0}
    folder = kube.folder / "data"
    dataset.to_zarr(folder / "releases" / "week-1.zarr", consolidated=False)
    return folder


def run_schedule(kube, objects, name):
    """Run the CronJob once, as it is written; return its Job and how its pod ended."""
    # The double has no clock, and does not read what `kubectl create job --from` sends.
    metadata = {"name": name, "namespace": "clusterscale"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    job |= {"spec": copy.deepcopy(pick(objects, "CronJob")["spec"]["jobTemplate"]["spec"])}
    make_do(job["spec"]["template"]["spec"]["containers"][0])
    kube.apply(job)
    wait_for(
        lambda: kube.get("jobs", name).get("status"), lambda: f"the end of the Job: {said(kube)}"
    )
    owned = [
        each
        for each in kube.get("pods")
        if each["metadata"].get("ownerReferences", [{}])[0].get("name") == name
    ]
    (pod,) = owned
    (status,) = pod["status"]["containerStatuses"]
    return job["spec"], status["state"]["terminated"]["exitCode"], kube.log(pod)


def test_the_schedule_audits_what_is_new_and_a_verdict_ends_the_job(kube, objects, released):
    spec, code, said = run_schedule(kube, objects, "reaudit-schedule-1")
    assert code == EXIT_CODES["fail"], said
    assert is_final(spec, code)
    assert "fail  week-1" in said
    assert list((released / "reaudit" / "runs").iterdir()) != []
    assert kube.get("daskclusters") == [], "its cluster was left"
    _, code, said = run_schedule(kube, objects, "reaudit-schedule-2")
    assert code == 0, said
    assert "nothing new among 1 releases" in said


def test_bad_input_ends_the_job_too(kube, objects, released):
    path = kube.folder / "config" / "releases.yaml"
    path.write_text(path.read_text().replace("known_subset", "known_subway"))
    spec, code, said = run_schedule(kube, objects, "reaudit-schedule-3")
    assert code == 2, said
    assert is_final(spec, code)
    assert "known_subway" in said
