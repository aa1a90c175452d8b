"""Folders of finished runs that were damaged: nothing is reported that was not computed."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from fuzz import crowd
from fuzz.damage import DEEP, VALUES, damage_file, damage_json, files_of
from fuzz.runner import Case, Outcome

NAME = "runs"
_LEFT = ("run", "run/*", "tables", "tables/*")
_BETTER = {0: 0, 3: 1, 4: 2}  # exit codes of gate, from pass to fail
_PARTS = ("", "screen/", "traits/")
_AGAIN = "run the command again"


def prepare(folder: Path) -> None:
    """Make a finished run with an audit, a screen, traits and a page, and one with an audit."""
    crowd.without_pages()
    crowd.write_cube(folder / "cube.zarr", chunk=200)
    config = crowd.write_config(folder, str(folder / "cube.zarr"), "run")
    for name in ("full", "small"):
        (folder / name).mkdir()
        os.chdir(folder / name)
        assert crowd.call("audit", config) == 0
        if name == "full":
            assert crowd.call("screen", config) == 0
            assert crowd.call("traits", config) == 0
        code = crowd.call("gate", "run")
        assert code in _BETTER
        assert crowd.call("report", "run", "--format", "csv", "--output", "tables") == 0
        (folder / name / "sound.json").write_text(json.dumps({"gate": code}))


def make(rng: random.Random, number: int, shared: Path, folder: Path) -> Case:
    """Damage a copy of a finished run."""
    name = rng.choice(("full", "small", "small"))
    shutil.copytree(shared / name / "run", folder / "run")
    run = folder / "run"
    act = rng.choice(_ACTS)
    said = act(rng, run, shared)
    pages = rng.random() < 0.1
    if not pages:
        crowd.without_pages()
    config = crowd.write_config(folder, str(shared / "cube.zarr"), "run")
    report = ("report", "run", "--format", "csv", "--output", "tables")
    if pages:
        report = ("report", "run", "--output", "tables.html")
    gate = ("gate", "run")
    steps = (report, gate, ("audit", config), gate)
    if rng.random() < 0.2:
        steps += (report,)

    def check(folder: Path, outcomes: list[Outcome]) -> str | None:
        return _check(folder, outcomes, shared / name)

    return Case(f"{name}, {act.__name__.strip('_')}: {said}", steps, check,
                (*_LEFT, "tables.html"))  # fmt: skip


def _check(folder: Path, outcomes: list[Outcome], sound: Path) -> str | None:
    report, gate, resume, gate_again, *last = outcomes
    code = json.loads((sound / "sound.json").read_text())["gate"]
    for outcome in (gate, gate_again):
        if outcome.exit_code in _BETTER and outcome.exit_code != code:
            return f"gate gives {outcome.exit_code} instead of {code}"
    if resume.exit_code == 0:
        fault = crowd.differs(folder / "run/results.zarr", sound / "run/results.zarr")
        if fault:
            return f"resumed with {fault}"
        if gate_again.exit_code != code and not _names(gate_again.output):
            return f"gate exits with {gate_again.exit_code} after the run was resumed"
    elif not _names(resume.output):
        return f"resuming exits with {resume.exit_code} and names no file: {resume.output[-500:]}"
    for outcome in (report, *last):
        if outcome.exit_code != 0 and not _names(outcome.output):
            return f"report names no file: {outcome.output[-500:]}"
    tables = folder / "tables"
    if (last or [report])[0].exit_code == 0 and tables.is_dir():
        for path in sorted(tables.glob("*.csv")):
            wanted = sound / "tables" / path.name
            if not wanted.exists():  # of a part that was put there, of a run of the same config
                wanted = sound.parent / "full" / "tables" / path.name
            if not wanted.exists() or _numbers(path) != _numbers(wanted):
                return f"{path.name} has other numbers"
    return None


def _numbers(path: Path) -> list[list[str]]:
    """Return the cells of a table, without measured times."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [[value for key, value in row.items() if "second" not in key] for row in rows]


def _names(output: str) -> bool:
    """Return whether an error names the run."""
    return "run" in output[output.rfind("error: ") :]


def file(rng: random.Random, run: Path, shared: Path) -> str:
    """Damage any files."""
    said = []
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        files = files_of(run)
        path = rng.choice(files)
        said.append(f"{path.relative_to(run)} {damage_file(rng, path, files)}")
    return ", ".join(said)


def important_file(rng: random.Random, run: Path, shared: Path) -> str:
    """Damage a file that is not a chunk."""
    files = [path for path in files_of(run) if "/c/" not in str(path)]
    files = [path for path in files if path.suffix != ".csv"]
    path = rng.choice(files)
    return f"{path.relative_to(run)} {damage_file(rng, path, files)}"


def verdict_chunk(rng: random.Random, run: Path, shared: Path) -> str:
    """Damage a chunk of what decides the gate."""
    names = ("verdict", "auc", "privacy_loss", "status", "level", "error", "auc_low", "auc_high")
    files = [
        path
        for name in names
        if (run / "results.zarr" / name).exists()
        for path in files_of(run / "results.zarr" / name)
    ]
    path = rng.choice(files)
    return f"{path.relative_to(run)} {damage_file(rng, path, files)}"


def lost_folder(rng: random.Random, run: Path, shared: Path) -> str:
    """Remove a folder, or put something else in its place."""
    path = rng.choice([path for path in (run, *run.rglob("*")) if path.is_dir()])
    act = rng.choice(("lost", "empty", "a file", "a link", "a FIFO", "elsewhere"))
    if act == "elsewhere" and path != run:
        path.rename(path.with_name(f"{path.name}-moved"))
        return f"{path.relative_to(run)} moved"
    shutil.rmtree(path)
    if act == "empty":
        path.mkdir()
    elif act == "a file":
        path.write_bytes(b"x")
    elif act == "a link":
        path.symlink_to(rng.choice(("/nowhere", "/etc", str(path), "..")))
    elif act == "a FIFO":
        os.mkfifo(path)
    return f"{path.name} {act}"


def json_value(rng: random.Random, run: Path, shared: Path) -> str:
    """Change a value in a JSON file."""
    files = [path for path in files_of(run) if path.suffix == ".json"]
    own = [path for path in files if ".zarr" not in str(path)]
    path = rng.choice(rng.choice((files, own)))
    return f"{path.relative_to(run)}: {damage_json(rng, path)}"


def json_file(rng: random.Random, run: Path, shared: Path) -> str:
    """Replace a JSON file by JSON of another type, deep or huge."""
    path = rng.choice([path for path in files_of(run) if path.suffix == ".json"])
    value = rng.choice(("value", "deep", "huge"))
    if value == "deep":
        path.write_text(rng.choice((DEEP, '{"a":' * 2000 + "1" + "}" * 2000)))
    elif value == "huge":
        path.write_text(json.dumps({str(i): "x" * 50 for i in range(20_000)}))
    else:
        path.write_text(json.dumps(rng.choice(VALUES)))
    return f"{path.relative_to(run)}: {value}"


def manifest(rng: random.Random, run: Path, shared: Path) -> str:
    """Edit a manifest, also so that its digest is right, or remove files and their entries."""
    from clusterscale.storage.manifest import digest

    store = rng.choice([path for path in run.rglob("results.zarr") if path.is_dir()])
    path = store / "manifest" / "zarr.json"
    group = json.loads(path.read_text())
    attributes = group["attributes"]
    name = rng.choice(sorted(attributes["files"]))
    act = rng.choice(("entry lost", "entry and file lost", "digest", "another", "files"))
    if act == "files":
        attributes["files"] = rng.choice(VALUES)
    elif act == "digest":
        attributes["files"][name] = rng.choice(VALUES)
    elif act == "another":
        other = rng.choice(("../../x", "/etc/passwd", "a\0b", "", "zarr.json/x", "[red]x[/]"))
        attributes["files"][other] = "0" * 32
    else:
        del attributes["files"][name]
        if act == "entry and file lost":
            (store / name).unlink()
    sealed = rng.random() < 0.5
    if sealed:
        attributes.pop("digest")
        attributes["digest"] = digest(json.dumps(attributes, sort_keys=True).encode())
    path.write_text(json.dumps(group))
    return f"{store.relative_to(run)}: {act} {name}{', sealed' if sealed else ''}"


def mixed(rng: random.Random, run: Path, shared: Path) -> str:
    """Put a part of another run in the place of one of this run."""
    other = shared / rng.choice(("full", "small")) / "run"
    source = rng.choice([path for path in other.rglob("*") if "/c/" not in str(path)])
    target = run / source.relative_to(other)
    name = rng.choice(("screen", "traits", "journal", "x.zarr", "results.zarr", target.name))
    target = target.with_name(name)
    if target.is_dir():
        shutil.rmtree(target)
    elif target.exists():
        target.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    return f"{source.relative_to(other)} as {target.relative_to(run)}"


_ACTS: list[Callable[[random.Random, Path, Path], str]] = [
    file, file, important_file, important_file, verdict_chunk, lost_folder, json_value, json_value,
    json_file, manifest, mixed,
]  # fmt: skip
