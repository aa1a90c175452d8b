"""Cubes that are damaged, mixed up or made to be wrong: refused, or read as what was written."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from fuzz import crowd
from fuzz.damage import VALUES, damage_file, damage_json, files_of, places_in
from fuzz.runner import Case, Outcome
from fuzz.wrong_events import CHANGES

NAME = "cubes"
SETTINGS: dict[str, dict[str, Any]] = {
    "chunked": {"chunk": 100},
    "whole": {},
    "pseudonyms": {"chunk": 64, "pseudonyms": True, "timezone": "Europe/Paris", "seed": 2},
}
ARRAYS = ("user", "user_offset", "event_cell", "roi", "roi_lat", "roi_lon")
_LEFT = ("run", "run/*", "screen", "screen/*")


def prepare(folder: Path) -> None:
    """Write sound cubes, and what the commands give of each."""
    crowd.without_pages()
    for name, settings in SETTINGS.items():
        home = folder / name
        home.mkdir()
        crowd.write_cube(home / "cube.zarr", **settings)
        config = crowd.write_config(home, str(home / "cube.zarr"), str(home / "run"))
        assert crowd.call("audit", config) == 0
        assert crowd.call("screen", config, "--output", home / "screen") == 0
    crowd.write_cube(folder / "other.zarr", chunk=100, seed=3)


def make(rng: random.Random, number: int, shared: Path, folder: Path) -> Case:
    """Damage a copy of a cube, or write one that is wrong from the start."""
    crowd.without_pages()
    setting = rng.choice(list(SETTINGS))
    cube = folder / "cube.zarr"
    shutil.copytree(shared / setting / "cube.zarr", cube)
    name, act = rng.choice(_ACTS)
    said, rule = act(rng, cube, shared)
    config = crowd.write_config(folder, "cube.zarr", "run")
    steps = (("inspect", "cube.zarr"), ("audit", config), ("screen", config, "--output", "screen"))

    def check(folder: Path, outcomes: list[Outcome]) -> str | None:
        return _check(folder, outcomes, shared / setting, rule)

    return Case(f"{setting}, {name}: {said}", steps, check, _LEFT)


SAME, REFUSED, VALID = "same numbers", "refused", "valid"
"""What a case requires: the numbers of the sound cube or a refusal; a refusal; neither."""


def _check(folder: Path, outcomes: list[Outcome], sound: Path, rule: str) -> str | None:
    for outcome, step in zip(outcomes, ("inspect", "run", "screen"), strict=True):
        if outcome.exit_code != 0:
            continue
        if rule == REFUSED:
            return f"{step} accepts a cube that is wrong"
        if rule == SAME and step != "inspect":
            store = "results.zarr" if step == "run" else "screen/results.zarr"
            fault = crowd.differs(folder / step / store, sound / step / store)
            if fault:
                return f"{step}: {fault}"
        if rule == SAME and step == "inspect" and _fingerprint(sound) not in outcome.output:
            return "inspect shows another fingerprint"
    return None


def _fingerprint(sound: Path) -> str:
    attributes = json.loads((sound / "cube.zarr" / "zarr.json").read_text())["attributes"]
    return str(attributes["fingerprint"])


def _seal(cube: Path) -> None:
    """Write all digests anew, as somebody who knows how."""
    from clusterscale.cube.attributes import digest

    content = json.loads((cube / "zarr.json").read_text())
    attributes = content["attributes"]
    if not isinstance(attributes, dict):
        return
    attributes["files"] = {
        str(path.relative_to(cube)): blake2b(path.read_bytes(), digest_size=16).hexdigest()
        for path in files_of(cube)
        if path != cube / "zarr.json"
    }
    attributes.pop("digest", None)
    attributes["digest"] = digest(attributes)
    (cube / "zarr.json").write_text(json.dumps(content))


def _any_file(rng: random.Random, cube: Path, shared: Path) -> tuple[str, str]:
    files = files_of(cube)
    said = []
    for _ in range(rng.choice((1, 1, 2))):
        path = rng.choice([path for path in files if path.is_file()])
        done = damage_file(rng, path, [other for other in files if other.is_file()])
        said.append(f"{path.relative_to(cube)} {done}")
    return ", ".join(said), SAME


def _folder(rng: random.Random, cube: Path, shared: Path) -> tuple[str, str]:
    folders = [path for path in (cube, *cube.rglob("*")) if path.is_dir()]
    path = rng.choice(folders)
    shutil.rmtree(path)
    act = rng.choice(("lost", "empty", "a file", "of another cube"))
    if act == "empty":
        path.mkdir()
    elif act == "a file":
        path.write_bytes(b"x")
    elif act == "of another cube" and path != cube:
        shutil.copytree(shared / "other.zarr" / path.relative_to(cube), path)
    return f"{path.name} {act}", SAME


def _from_other(rng: random.Random, cube: Path, shared: Path) -> tuple[str, str]:
    """Replace a file by that of another cube, also of the same size."""
    other = shared / rng.choice(("other.zarr", "chunked/cube.zarr", "pseudonyms/cube.zarr"))
    path = rng.choice([path for path in files_of(other)])
    target = cube / path.relative_to(other)
    if target == cube / "zarr.json":
        target = cube / "user/zarr.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, target)
    return f"{path.relative_to(other)} of {other.parent.name}", SAME


def _metadata(rng: random.Random, cube: Path, shared: Path) -> tuple[str, str]:
    path = cube / rng.choice(("zarr.json", *(f"{name}/zarr.json" for name in ARRAYS)))
    return f"{path.relative_to(cube)}: {damage_json(rng, path)}", SAME


def _sealed_metadata(rng: random.Random, cube: Path, shared: Path) -> tuple[str, str]:
    """Change metadata of an array and seal it: values that differ in type, order or codec."""
    path = cube / rng.choice(ARRAYS) / "zarr.json"
    content = json.loads(path.read_text())
    key, value = rng.choice(
        [
            ("shape", [rng.choice((0, 1, -1, 2**40, 2**63, 59, 61))]),
            ("shape", rng.choice(([], [60, 1], "60", None, [1.5], [True]))),
            ("data_type", rng.choice(("int8", "float32", "complex64", "string", "bytes", "bool",
                                      "uint64", "r8", {"name": "struct"}, None, 3))),
            ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape":
                            [rng.choice((0, 1, -1, 7, 2**21, 2**40))]}}),
            ("chunk_grid", rng.choice((None, {}, {"name": "other"}))),
            ("codecs", rng.choice(([], None, [{"name": "bytes"}], [{"name": "gzip"}],
                                   [{"name": "numcodecs.pickle"}], [{"name": "vlen-utf8"}]))),
            ("fill_value", rng.choice(VALUES)),
            ("zarr_format", rng.choice((2, 4, "3", None))),
            ("node_type", rng.choice(("group", "x", None))),
            ("dimension_names", rng.choice((None, [], ["x", "y"], 3))),
            ("storage_transformers", [{"name": "x"}]),
            ("attributes", rng.choice(VALUES)),
        ]
    )  # fmt: skip
    content[key] = value
    path.write_text(json.dumps(content))
    if rng.random() < 0.3:
        damage_json(rng, path)
    _seal(cube)
    harmless = key in ("dimension_names", "attributes", "fill_value")
    return f"{path.parent.name}.{key}", VALID if harmless else SAME


_LIES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("n_users", (0, 59, 61, -1, 2**40, 2**70, 60.0, "60", True, None)),
    ("n_rois", (0, 9, 11, -1, 2**40, "10", None)),
    ("n_events", (0, 1, -1, 2**62, 1e9, None)),
    ("version", (0, 1, 3, -1, "2", 2.5, None)),
    ("format", ("", None, 3, "other")),
    ("provenance", (None, 3, [], "x")),
    ("fingerprint", (None, 3, ["x"])),
)


def _sealed_lie(rng: random.Random, cube: Path, shared: Path) -> tuple[str, str]:
    """Change an attribute to a value that no sound cube has, and seal it."""
    content = json.loads((cube / "zarr.json").read_text())
    key, values = rng.choice(_LIES)
    content["attributes"][key] = value = rng.choice(values)
    if rng.random() < 0.1:
        del content["attributes"][key]
    (cube / "zarr.json").write_text(json.dumps(content))
    _seal(cube)
    return f"{key} = {value!r}", REFUSED


def _sealed_calendar(rng: random.Random, cube: Path, shared: Path) -> tuple[str, str]:
    content = json.loads((cube / "zarr.json").read_text())
    calendar = content["attributes"]["calendar"]
    key, value = rng.choice(
        [
            ("start", rng.choice((2**40, -(2**40), 2**70, 0.5, None, "x"))),
            ("step", rng.choice((0, -3600, 2**40, 2**70, None, 0.5, True))),
            ("n_epochs", rng.choice((0, -1, 2**31, 2**70, None, "48"))),
            ("timezone", rng.choice(("", "Nowhere", "../../etc/passwd", "/etc/localtime", "\0",
                                     "é", 3, None, "[red]UTC[/]", "x" * 5000))),
        ]
    )  # fmt: skip
    calendar[key] = value
    (cube / "zarr.json").write_text(json.dumps(content))
    _seal(cube)
    return f"calendar.{key} = {str(value)[:40]!r}", REFUSED


def _sealed_other(rng: random.Random, cube: Path, shared: Path) -> tuple[str, str]:
    """Change any attribute to anything, and seal it: perhaps a valid cube."""
    content = json.loads((cube / "zarr.json").read_text())
    attributes = {
        key: value for key, value in content["attributes"].items() if key not in ("digest", "files")
    }
    container, key = rng.choice(places_in(attributes))
    container[key] = value = rng.choice(VALUES)
    content["attributes"] = attributes
    (cube / "zarr.json").write_text(json.dumps(content))
    _seal(cube)
    return f"{key} = {str(value)[:40]!r}", VALID


def _crafted(rng: random.Random, cube: Path, shared: Path) -> tuple[str, str]:
    """Write a cube with wrong events, sealed by the writer itself."""
    name, change = rng.choice(list(CHANGES.items()))
    shutil.rmtree(cube)
    user = rng.randrange(60)

    def edit(sizes: np.ndarray, cells: np.ndarray) -> None:
        change(sizes, cells, user)

    crowd.write_cube(cube, chunk=rng.choice((64, 100, 1 << 20)), change=edit)
    return f"{name}, of user {user}", REFUSED


_ACTS: list[tuple[str, Callable[[random.Random, Path, Path], tuple[str, str]]]] = [
    ("file", _any_file),
    ("file", _any_file),
    ("file", _any_file),
    ("folder", _folder),
    ("file of another cube", _from_other),
    ("metadata", _metadata),
    ("sealed metadata", _sealed_metadata),
    ("sealed lie", _sealed_lie),
    ("sealed calendar", _sealed_calendar),
    ("sealed attribute", _sealed_other),
    ("crafted", _crafted),
    ("crafted", _crafted),
]
