"""A Kubernetes API whose pods are processes of this machine, with the real Dask operator on it.

The API is the test double ``fakekube.py`` of the tools beside the real data. It mounts no volume
and no secret, so all of it runs in a mount namespace of its own, where ``/run/clusterscale`` and
``/mnt/clusterscale`` hold what the pods would find there.
"""

import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from doubles.waiting import LIMIT, wait_for
from oracles.processes import free_port

NAMESPACE = "clusterscale"
NEEDED = ["aiohttp", "dask_kubernetes", "jsonpatch", "jsonschema", "kopf"]
MOUNTS = """
mount -t tmpfs none /run
mount -t tmpfs none /mnt
for name in tls config scratch; do
  mkdir -p "/run/clusterscale/$name"
  mount --bind "$1/$name" "/run/clusterscale/$name"
done
mkdir /mnt/clusterscale
mount --bind "$1/data" /mnt/clusterscale
shift
exec "$@"
"""


def tools():
    """Return the folder of fakekube.py, or skip with what is missing."""
    folder = Path(os.environ.get("CLUSTERSCALE_DATA", "nowhere")).parent / "tools"
    if not (folder / "fakekube.py").is_file():
        pytest.skip("fakekube.py is absent: no tools beside CLUSTERSCALE_DATA")
    return folder


def check_machine():
    """Skip unless everything is here that pods as processes need."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    for module in NEEDED:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: clusterscale[deploy-test] has it")
    if not list(Path("/usr/lib").glob("*/libnss_wrapper.so")):
        pytest.skip("libnss-wrapper is not installed")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here: that takes root")


def render(folder):
    """Return the objects of a kustomization, as kubectl makes them; skip where it cannot."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed", allow_module_level=True)
    version = subprocess.run(
        ["kubectl", "version", "--client", "--output", "json"], capture_output=True, text=True
    )
    if "kustomizeVersion" not in version.stdout:
        pytest.skip("kubectl is too old: its kustomize knows no labels", allow_module_level=True)
    done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


KINDS = {
    "pods": "api/v1",
    "services": "api/v1",
    "jobs": "apis/batch/v1",
    "daskclusters": "apis/kubernetes.dask.org/v1",
    "daskjobs": "apis/kubernetes.dask.org/v1",
}
ATTEMPTS = 5  # another process may take the port of the double before it does


def reserve_net():
    """Return a socket that reserves a net of loopback addresses, and the start of its addresses.

    The double gives pods and services addresses in 127.77, the same ones in each double.
    """
    while True:
        net = f"127.{random.SystemRandom().randrange(2, 250)}"
        with suppress(OSError):
            return socket.create_server((f"{net}.0.1", 8786)), net


WRITE_HOSTS = "open(f'{WORK}/hosts', 'w')"
REPLACE_HOSTS = """
from contextlib import contextmanager


@contextmanager
def replacing(path):
    with open(f"{path}.new", "w") as file:
        yield file
    os.replace(f"{path}.new", path)


def loop_ip"""


def patched(source, net):
    """Return the source of the double with its addresses in ``net``, and with a safe hosts file.

    nss_wrapper reads the hosts file again only if its time, in whole seconds, or the file itself is
    another. A driver that looked up a name between two writes of one second never saw the second.
    """
    for old, new in {
        "f'127.77.": f"f'{net}.",
        WRITE_HOSTS: "replacing(f'{WORK}/hosts')",
        "\ndef loop_ip": REPLACE_HOSTS,
    }.items():
        assert old in source, f"the double has no {old}"
        source = source.replace(old, new)
    return source


class Kube:
    """The double and the operator, and how tests talk to them.

    ``folder`` has ``tls``, ``config``, ``scratch`` and ``data``, as the pods will find them.
    """

    def __init__(self, folder, *, operator=True, environment=None):
        check_machine()
        self.folder = Path(folder)
        for name in ("tls", "config", "scratch", "data"):
            (self.folder / name).mkdir(exist_ok=True)
        self.work = self.folder / "kube"
        self.environment = os.environ | {"KUBECONFIG": str(self.work / "kubeconfig")}
        self.environment |= environment or {}
        # Names of services are looked up in the file that the double keeps.
        self.resolving = self.environment | {
            "LD_PRELOAD": "libnss_wrapper.so",
            "NSS_WRAPPER_HOSTS": str(self.work / "hosts"),
        }
        self._processes = []
        self._reserved, net = reserve_net()
        (self.folder / "double.py").write_text(patched((tools() / "fakekube.py").read_text(), net))
        try:
            self._start(operator)
        except BaseException:
            self.close()
            raise

    def _start(self, operator):
        inside = ["unshare", "--mount", "sh", "-euc", MOUNTS, "sh", str(self.folder)]
        log = self.folder / "double.log"
        for _ in range(ATTEMPTS):
            port = free_port()
            double = [sys.executable, str(self.folder / "double.py"), str(port), str(self.work)]
            process = self._spawn("double", [*inside, *double], self.environment)
            wait_for(
                lambda process=process: (
                    "fakekube up" in log.read_text() or process.poll() is not None
                ),
                log.read_text,
            )
            if process.poll() is None:
                break
        assert process.poll() is None, log.read_text()
        self.server = f"http://127.0.0.1:{port}"
        spec = importlib.util.find_spec("dask_kubernetes")
        crds = "operator/deployment/helm/dask-kubernetes-operator/crds/"
        self.kubectl("apply", "--validate=false", "-f", str(Path(spec.origin).parent / crds))
        if operator:
            kopf = [sys.executable, "-m", "kopf", "run", "--all-namespaces", "--standalone"]
            module = ["-m", "dask_kubernetes.operator.controller"]
            self._spawn("operator", [*kopf, *module], self.resolving)

    def _spawn(self, name, command, environment):
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self._processes.append(process)
        return process

    def kubectl(self, *args, **options):
        """Return what kubectl prints."""
        command = ["kubectl", "--namespace", NAMESPACE, *args]
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=LIMIT, **options
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *manifests):
        listed = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "--validate=false", "-f", "-", input=json.dumps(listed))

    def get(self, kind, name="", **labels):
        """Return an object as Kubernetes has it, or all of a kind that have some labels.

        This asks the API server itself: starting kubectl again and again is slow.
        """
        selector = ",".join(f"dask.org/{label}={value}" for label, value in labels.items())
        place = self._place(kind)
        uri = f"{place}/{name}" if name else f"{place}?labelSelector={selector}"
        found = self._ask(uri)
        return found if name else found["items"]

    def empty(self):
        """Delete all jobs and clusters, and wait until they and their workers are gone."""
        kinds = ("daskjobs", "jobs", "daskclusters")
        for kind in kinds:
            for name in [each["metadata"]["name"] for each in self.get(kind)]:
                with suppress(urllib.error.HTTPError):  # it went with its owner
                    self._ask(f"{self._place(kind)}/{name}", "DELETE")
        wait_for(
            lambda: not any(map(self.get, kinds)) and not self.pods("worker"),
            "the end of all jobs and clusters",
        )

    def _place(self, kind):
        return f"{self.server}/{KINDS[kind]}/namespaces/{NAMESPACE}/{kind}"

    @staticmethod
    def _ask(uri, method="GET"):
        request = urllib.request.Request(uri, method=method)
        with urllib.request.urlopen(request, timeout=LIMIT) as answer:
            return json.load(answer)

    def pods(self, component):
        return self.get("pods", component=component)

    def kill(self, pod):
        """End the processes of a pod as a node's end would: at once."""
        log = str(self._log(pod))
        started = wait_for(  # a pod is there some time before its process
            lambda: [pid for pid in self._pids() if self._writes_to(pid) == log],
            "the process of a pod",
        )
        os.killpg(started[0], signal.SIGKILL)

    def log(self, pod):
        """Return what a pod printed."""
        return self._log(pod).read_text()

    def _log(self, pod):
        return self.work / f"pod-{pod['metadata']['uid']}.log"

    def close(self):
        """End the operator, the double and every pod, and make sure of it."""
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(LIMIT / 10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pid in self._pids():
            if self._writes_to(pid).startswith(str(self.work)):  # no other process of that number
                os.killpg(pid, signal.SIGKILL)
        self._reserved.close()

    def _pids(self):
        listed = self.work / "pids"
        return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []

    @staticmethod
    def _writes_to(pid):
        try:
            return os.readlink(f"/proc/{pid}/fd/1")
        except OSError:
            return ""
