"""The scheduled check for known vulnerabilities names files and commands that exist."""

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


def test_every_lower_bound_is_listed():
    command = [sys.executable, ".ci/lowest"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = {Requirement(line).name for line in text.splitlines()}
    assert {"cryptography", "fsspec", "s3fs", "pytest"} <= names
