"""What manifests of Kubernetes must keep to here, beyond their schemas: faults found, in words."""

import re
from itertools import pairwise

from pydantic import ByteSize, TypeAdapter

PROVIDED = {"clusterscale-tls", "clusterscale-s3"}  # secrets that the README says how to make
DIGEST = r"@sha256:[0-9a-f]{64}"
IMAGE = rf"[\w./-]+(:(?!latest$)[\w.-]+({DIGEST})?|{DIGEST})"


def pick(objects, kind):
    (found,) = [each for each in objects if each["kind"] == kind]
    return found


def pods(objects):
    """Yield the specification and the labels of every pod, by a name for it."""
    for each in objects:
        spec, labels = each.get("spec", {}), each["metadata"].get("labels", {})
        if each["kind"] == "DaskJob":
            parts = spec["cluster"]["spec"]
            # The operator gives the pods of a DaskJob its labels.
            yield "runner", spec["job"]["spec"], labels
            yield "scheduler", parts["scheduler"]["spec"], labels
            yield "worker", parts["worker"]["spec"], labels
        elif each["kind"] == "CronJob":
            template = spec["jobTemplate"]["spec"]["template"]
            yield "driver", template["spec"], template["metadata"]["labels"]
        elif each["kind"] == "DaskCluster":
            yield "scheduler", spec["scheduler"]["spec"], labels
            yield "worker", spec["worker"]["spec"], labels


def is_final(job, code):
    """Return whether a Job has failed, and is not tried again, if its pod ends with that code."""
    for rule in job["podFailurePolicy"]["rules"]:
        ended = rule.get("onExitCodes", {"operator": "In", "values": []})
        if (code in ended["values"]) == (ended["operator"] == "In"):  # the first that fits decides
            return rule["action"] == "FailJob"
    return False


def containers(pod):
    return [*pod["containers"], *pod.get("initContainers", [])]


def size(text):
    return int(TypeAdapter(ByteSize).validate_python(re.sub(r"i?$", "iB", text, count=1)))


def find_faults(objects):
    """Return all that is wrong with a set of objects, in words."""
    faults = [*_find_schedule_faults(objects), *_find_missing(objects), *_find_strangers(objects)]
    for name, pod, _ in pods(objects):
        faults += [f"{name}: {fault}" for fault in _find_pod_faults(name, pod)]
    return faults


def _find_schedule_faults(objects):
    for each in objects:
        if each["kind"] != "CronJob":
            continue
        try:
            check_schedule(each["spec"]["schedule"])
        except ValueError as error:
            yield f"schedule: {error}"
        if each["spec"].get("concurrencyPolicy") != "Forbid":
            yield "concurrencyPolicy: two runs at once"


def check_schedule(text):
    """Raise ValueError unless a schedule has five fields in the ranges of cron."""
    ranges = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]
    fields = text.split()
    if len(fields) != len(ranges):
        raise ValueError(f"{text!r} has {len(fields)} fields and not five")
    for field, (low, high) in zip(fields, ranges, strict=True):
        for part in field.split(","):
            match = re.fullmatch(r"(\*|(\d+)(?:-(\d+))?)(?:/(\d+))?", part)
            numbers = [int(number) for number in match.groups()[1:3] if number] if match else [-1]
            if not all(low <= number <= high for number in numbers) or numbers != sorted(numbers):
                raise ValueError(f"{part!r} is not from {low} to {high}")


def _find_pod_faults(name, pod):
    context = pod.get("securityContext", {})
    if context.get("runAsNonRoot") is not True or not context.get("runAsUser"):
        yield "may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "no seccomp profile"
    if pod.get("automountServiceAccountToken") is not (name == "driver"):
        yield "token of the API server"
    for container in containers(pod):
        yield from _find_container_faults(container)


def _find_container_faults(container):
    context = container.get("securityContext", {})
    if context.get("readOnlyRootFilesystem") is not True:
        yield "can write its root file system"
    if context.get("allowPrivilegeEscalation") is not False:
        yield "can gain privileges"
    if context.get("capabilities", {}).get("drop") != ["ALL"] or context["capabilities"].get("add"):
        yield "has capabilities"
    for bound in ("requests", "limits"):
        if set(container.get("resources", {}).get(bound, {})) != {"cpu", "memory"}:
            yield f"no {bound}"
    if not re.fullmatch(IMAGE, container["image"]):
        yield f"image {container['image']} is not pinned"
    for variable in container.get("env", []):
        secret = re.search(r"SECRET|PASSWORD|TOKEN|ACCESS_KEY", variable["name"])
        if secret and "value" in variable:
            yield f"{variable['name']} is written out"
    yield from _find_dask_faults(container)


def _find_dask_faults(container):
    command, args = container.get("command", []), container.get("args", [])
    if command[:1] != ["dask"]:
        return
    flags = dict(pairwise(args))
    for flag, file in {"ca-file": "ca.crt", "cert": "tls.crt", "key": "tls.key"}.items():
        if flags.get(f"--tls-{flag}") != f"/run/clusterscale/tls/{file}":
            yield f"no --tls-{flag}"
    if not flags.get("--dashboard-address", "").startswith("127.0.0.1:"):
        yield "its dashboard can be reached"
    if command == ["dask", "scheduler"]:
        variables = {each["name"]: each.get("value") for each in container["env"]}
        if variables.get("DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION") != "True":
            yield "encryption is not required"
        return
    if not args[0].startswith("tls://"):
        yield "joins without encryption"
    if flags.get("--nthreads") != "1":
        yield "more than one thread"
    allowed, limit = flags["--memory-limit"], container["resources"]["limits"]["memory"]
    if TypeAdapter(ByteSize).validate_python(allowed) >= size(limit):
        yield "may use all the memory of its pod"


def _find_missing(objects):
    """Find what pods mount and read and nobody makes."""
    made = {(each["kind"], each["metadata"]["name"]) for each in objects}
    made |= {("Secret", name) for name in PROVIDED} | {("PriorityClass", "clusterscale")}
    for name, pod, _ in pods(objects):
        wanted = [
            ("ServiceAccount", pod.get("serviceAccountName", "default")),
            ("PriorityClass", pod.get("priorityClassName")),
        ]
        for volume in pod.get("volumes", []):
            if "secret" in volume:
                wanted.append(("Secret", volume["secret"]["secretName"]))
            if "configMap" in volume:
                wanted.append(("ConfigMap", volume["configMap"]["name"]))
            if "persistentVolumeClaim" in volume:
                claim = volume["persistentVolumeClaim"]["claimName"]
                wanted.append(("PersistentVolumeClaim", claim))
        for container in containers(pod):
            sources = [each["secretRef"]["name"] for each in container.get("envFrom", [])]
            keys = [each.get("valueFrom", {}) for each in container.get("env", [])]
            sources += [key["secretKeyRef"]["name"] for key in keys if "secretKeyRef" in key]
            wanted += [("Secret", source) for source in sources]
            mounted = {each["name"] for each in container["volumeMounts"]}
            for lost in mounted - {each["name"] for each in pod["volumes"]}:
                yield f"{name}: mounts {lost}, which is no volume of its pod"
        for kind, what in set(wanted) - made - {("ServiceAccount", "default")}:
            yield f"{name}: {kind} {what} is not there"


def _find_strangers(objects):
    """Find pods that no policy holds."""
    policies = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
    for name, _, labels in pods(objects):
        for way in ("Ingress", "Egress"):
            held = [
                policy
                for policy in policies
                if way in policy["policyTypes"]
                and policy["podSelector"]["matchLabels"].items() <= labels.items()
            ]
            if not held:
                yield f"{name}: {way} is open"
