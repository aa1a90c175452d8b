"""The scheduled check for known vulnerabilities names files and commands that exist."""

import re
import subprocess
import sys
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "vulnerabilities.yml"


def test_the_workflow_checks_lower_bounds_and_the_image_every_week():
    flow = yaml.load(WORKFLOW.read_text(), yaml.BaseLoader)  # else `on` is read as true
    (cron,) = flow["on"]["schedule"]
    assert cron["cron"].split()[2:4] == ["*", "*"]
    assert cron["cron"].split()[4].isdigit()
    assert flow["permissions"] == {"contents": "read"}
    (job,) = flow["jobs"].values()
    made, image = job["strategy"]["matrix"]["requirements"]
    assert (ROOT / image).is_file()
    commands = "\n".join(step.get("run", "") for step in job["steps"])
    assert f"-o {made}" in commands
    assert "pip-audit --no-deps --disable-pip -r ${{ matrix.requirements }}" in commands


def read_flow(name):
    return yaml.load((WORKFLOW.parent / name).read_text(), yaml.BaseLoader)


def commands_of(flow):
    steps = [step for job in flow["jobs"].values() for step in job["steps"]]
    return "\n".join(step.get("run", step.get("uses", "")) for step in steps)


def test_the_site_is_built_as_ci_builds_it():
    flow = read_flow("docs.yml")
    assert "--strict -f deploy/docs/mkdocs.yml" in commands_of(flow)
    assert "--strict -f deploy/docs/mkdocs.yml" in (ROOT / ".ci" / "run").read_text()
    assert (ROOT / "deploy/docs/mkdocs.yml").is_file()


def test_releases_are_attested_and_published_without_a_token():
    flow = read_flow("release.yml")
    assert flow["permissions"] == {"contents": "read"}
    assert commands_of(flow).count("actions/attest-build-provenance@") == 3
    assert flow["jobs"]["pypi"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in (WORKFLOW.parent / "release.yml").read_text()


def test_an_image_gets_its_tag_after_it_was_scanned_and_signed():
    steps = read_flow("release.yml")["jobs"]["image"]["steps"]
    texts = [step.get("run", step.get("uses", "")) for step in steps]
    (push,) = [step["with"] for step in steps if step.get("id") == "push"]
    assert "tags" not in push
    assert "push-by-digest=true" in push["outputs"]
    assert push["sbom"] == "true"
    marks = [
        "docker/build-push-action@",
        "anchore/scan-action@",
        "cosign sign",
        "imagetools create",
    ]
    (order,) = [[i for i, text in enumerate(texts) for mark in marks if mark in text]]
    assert len(order) == len(marks)
    assert [next(mark for mark in marks if mark in texts[i]) for i in order] == marks
    scan = steps[order[1]]
    assert scan["with"]["image"].endswith("@${{ steps.push.outputs.digest }}")
    assert scan["with"]["fail-build"] == "true"
    for text in (texts[order[1]], *[each for each in texts if "cosign-installer" in each]):
        assert re.search(r"@[0-9a-f]{40}$", text), f"{text}: a tag can be moved"


def test_every_lower_bound_is_listed():
    command = [sys.executable, ".ci/lowest"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = {Requirement(line).name for line in text.splitlines()}
    assert {"cryptography", "fsspec", "s3fs", "pytest"} <= names
