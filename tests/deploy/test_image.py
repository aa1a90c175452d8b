"""The image is locked, small in rights, and made of what is in the repository."""

import fnmatch
import json
import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from loops import for_each
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
IGNORED = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text()
LOCK = (ROOT / "deploy" / "requirements.txt").read_text()
BASE = re.search(r"^FROM (\S+)$", DOCKERFILE, re.MULTILINE)[1]
EXTRAS = ("gateway", "kubernetes", "s3")


@dataclass
class Stage:
    image: str
    name: str = ""
    steps: list = field(default_factory=list)

    def all(self, instruction):
        return [text for found, text in self.steps if found == instruction]


def parse(text):
    """Return the stages of a Dockerfile, comments dropped and lines joined."""
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\\\n\s*", " ", text)
    stages = []
    for line in filter(None, map(str.strip, text.splitlines())):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            image, *alias = rest.split()
            stages.append(Stage(image, alias[-1] if alias else ""))
        else:
            stages[-1].steps.append((instruction, rest.strip()))
    return stages


def find_faults(text, ignored=IGNORED):
    """Return all that is wrong with a Dockerfile, in words."""
    stages = parse(text)
    last = stages[-1]
    base = re.compile(r"python:3\.13-slim@sha256:[0-9a-f]{64}")
    faults = [f"base {stage.image}" for stage in stages if not base.fullmatch(stage.image)]
    if len({stage.image for stage in stages}) > 1:
        faults.append("two bases")
    if len(stages) != 2 or not stages[0].name:
        faults.append("not two stages")
    if [user for user in last.all("USER") if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)]:
        faults.append("USER is root or a name")
    if [step for step, _ in last.steps if step in ("USER", "RUN", "COPY")][-1:] != ["USER"]:
        faults.append("USER is not the last word")
    for run in last.all("RUN"):
        if re.search(r"\b(apt|apt-get|pip|gcc|make|curl|git)\b", run):
            faults.append(f"builds in the last stage: {run}")
    for stage in stages:
        faults += _find_stage_faults(stage, {each.name for each in stages}, ignored)
    labels = " ".join(last.all("LABEL"))
    faults += [f"no label {key}" for key in ("title", "version", "licenses") if key not in labels]
    return faults


def _find_stage_faults(stage, names, ignored):
    for text in [*stage.all("ENV"), *stage.all("ARG")]:
        if re.search(r"SECRET|PASSWORD|TOKEN|ACCESS_KEY", text, re.IGNORECASE):
            yield f"secret in {text}"
    for run in stage.all("RUN"):
        if "pip" in run and "install" in run and run.count("--no-deps") != run.count(" install "):
            yield f"installs what is not locked: {run}"
        if "-r requirements.txt" in run and "--require-hashes" not in run:
            yield f"does not check hashes: {run}"
    if stage.all("ADD"):
        yield "ADD may fetch from anywhere"
    for copy in stage.all("COPY"):
        source = re.match(r"--from=(\S+)", copy)
        if source:
            if source[1] not in names:
                yield f"copies from {source[1]}"
            continue
        for path in copy.split()[:-1]:
            if not (ROOT / path).exists():
                yield f"{path} is not there"
            if not is_sent(path, ignored):
                yield f"{path} is not sent to the builder"


def is_sent(path, ignored):
    """Return whether a path is part of the context; of the lines that match, the last counts."""
    sent = True
    for line in ignored.splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!").removeprefix("**/")
        if fnmatch.fnmatch(path, pattern) or path.startswith(f"{pattern}/"):
            sent = line.startswith("!")
    return sent


def test_the_image_is_sound():
    assert find_faults(DOCKERFILE) == []


@for_each(
    ("old", "new", "fault"),
    [
        (BASE, "python:latest", "base python:latest"),
        (BASE, "python:3.13-slim", "base python:3.13-slim"),
        (f"{BASE} AS build", f"{BASE[:-1]}0 AS build", "two bases"),
        ("USER 10001:10001", "USER root", "USER is root"),
        ("USER 10001:10001", "USER 10001:0", "USER is root"),
        ("USER 10001:10001\n", "", "USER is not the last word"),
        ("USER 10001:10001\n", "USER 10001:10001\nRUN true\n", "USER is not the last word"),
        ("RUN groupadd", "RUN apt-get install -y gcc && groupadd", "builds in the last stage"),
        ("PYTHONUNBUFFERED=1", "AWS_SECRET_ACCESS_KEY=1", "secret in"),
        ("--no-deps \\\n        --require-hashes -r", "-r", "installs what is not locked"),
        ("--require-hashes ", "", "does not check hashes"),
        ("COPY configs", "COPY config", "config is not there"),
        ("COPY configs", "COPY tests", "tests is not sent"),
        ("COPY configs", "ADD configs", "ADD may fetch"),
        ("--from=build", "--from=somewhere", "copies from somewhere"),
        ("image.licenses", "image.other", "no label licenses"),
    ],
)
def test_each_check_finds_its_fault(old, new, fault):
    assert old in DOCKERFILE
    found = find_faults(DOCKERFILE.replace(old, new))
    assert any(fault in each for each in found), found


def test_data_and_results_are_not_sent():
    for path in (".git", "runs", "tests", "cube.zarr", "deploy/Dockerfile"):
        assert not is_sent(path, IGNORED), path


def locked():
    """Return the locked versions by canonical name."""
    text = "".join(line for line in LOCK.splitlines(True) if not line.startswith("#"))
    lines = text.replace(" \\\n    ", " ").splitlines()
    names = [line.partition("==")[0] for line in lines]
    assert names == sorted(names, key=str.lower)
    hashes = r"( --hash=sha256:[0-9a-f]{64})+"
    pairs = [re.fullmatch(rf"([\w.-]+)==([\w.+!]+){hashes}", line) for line in lines]
    assert all(pairs), "every entry is NAME==VERSION with hashes"
    return {canonicalize_name(pair[1]): pair[2] for pair in pairs}


def wanted():
    """Return what the package and the extras of the image ask for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [each for name in EXTRAS for each in project["optional-dependencies"][name]]
    return [Requirement(each) for each in [*project["dependencies"], *extras]]


def test_the_lock_has_what_the_package_asks_for():
    versions = locked()
    for requirement in wanted():
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{name} is not locked"
        assert requirement.specifier.contains(versions[name], prereleases=True), requirement


def test_versions_are_the_same_in_every_place():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    labels = " ".join(parse(DOCKERFILE)[-1].all("LABEL"))
    assert f'image.version="{version}"' in labels
    for path in (ROOT / "deploy" / "kubernetes").rglob("*.yaml"):
        for found in re.findall(r"clusterscale:([\d.]+)", path.read_text()):
            assert found == version, path


@pytest.fixture(scope="module")
def python():
    """The Python of the image, wherever it is on this machine."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = sorted(root.glob("versions/3.13*/bin/python3.13"))
    path = str(found[-1]) if found else shutil.which("python3.13")
    if path is None:
        pytest.skip("there is no Python 3.13 here, as the image has")
    return path


@pytest.mark.nightly(group="image")
@pytest.mark.timeout(3600)
def test_the_steps_of_the_image_work(python, tmp_path):
    """As the Dockerfile does it: what is locked, then the package, nothing else; and it runs."""
    venv, source = tmp_path / "venv", tmp_path / "source"

    def do(*command, **options):
        done = subprocess.run(command, capture_output=True, text=True, **options)
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout

    source.mkdir()
    for path in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / path, source)
    for path in ("clusterscale", "configs"):
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / path, source / path, ignore=skip)
    do(python, "-m", "venv", str(venv))
    pip = [str(venv / "bin" / "pip"), "--retries", "10", "--disable-pip-version-check"]
    lock = str(ROOT / "deploy" / "requirements.txt")
    do(*pip, "install", "--quiet", "--no-compile", "--no-deps", "-r", lock)
    do(*pip, "install", "--quiet", "--no-deps", str(source))
    do(*pip, "check")
    installed = json.loads(do(*pip, "list", "--format", "json"))
    names = {canonicalize_name(each["name"]): each["version"] for each in installed}
    names = {name: version for name, version in names.items() if name not in ("pip", "setuptools")}
    assert names.pop("clusterscale")
    assert names == locked()
    for module in ("kubernetes", "dask_gateway", "s3fs", "cryptography"):
        do(str(venv / "bin" / "python"), "-c", f"import {module}")
    shown = do(str(venv / "bin" / "clusterscale"), "config", "show", cwd=tmp_path)
    assert "cluster:" in shown
