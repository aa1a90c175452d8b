"""Damaged configs: `config check`, and what only reads a config, refuse them in a few words."""

from __future__ import annotations

import os
import random
import re
from copy import deepcopy
from pathlib import Path

from fuzz.plans import draw_plan
from fuzz.runner import ID, Case, Outcome
from fuzz.yaml_damage import change_number, damage_bytes, damage_text, damage_values, dump

NAME = "configs"

# What has no meaning in a config, so that it must be refused wherever it is.
_NEVER = ("further key 'extra'", "literal '!!", "a NUL", "UTF-16", "UTF-32", "too large")
_INTERNAL = re.compile(r"function-\w+\[|tuple\[|should [A-Z]|Input should|pydantic")
_READERS = (("audit",), ("screen",), ("traits",), ("recover",))


def prepare(folder: Path) -> None:
    """Write a small cube."""
    import numpy as np

    from clusterscale.cube import Calendar, Grid, new_cube

    dense = np.random.default_rng(1).random((40, 6, 48)) < 0.1
    sizes = dense.reshape(len(dense), -1).sum(axis=1)
    cells = np.nonzero(dense.reshape(len(dense), -1))[1]
    calendar = Calendar.parse("2024-01-01T00:00", "1h", 48, "UTC")
    regions = Grid.parse("50,0,51,1/1x6").regions
    with new_cube(str(folder / "cube.zarr"), regions, calendar, provenance={}) as writer:
        writer.append([ID.format(i) for i in range(len(dense))], sizes, cells)


def warm_up() -> None:
    """Compute the schemas that messages about keys read."""
    from clusterscale.config import Config, ReleasesConfig
    from clusterscale.papers import PaperStudy
    from clusterscale.reauditing import Policy
    from clusterscale.validation_messages import _schema

    for model in (Config, ReleasesConfig, PaperStudy, Policy):
        _schema(model)


def make(rng: random.Random, number: int, shared: Path, folder: Path) -> Case:
    """Damage a config in one to three places, and choose the command that reads it."""
    if rng.random() < 0.02:
        return _no_file(rng, folder)
    kind, content = draw_plan(rng, str(shared / "cube.zarr"))
    other = draw_plan(rng, str(shared / "cube.zarr"))[1]
    done: list[str] = []
    if rng.random() < 0.3:
        acts = [change_number(rng, content) for _ in range(rng.choice((1, 1, 2, 4)))]
        return _write(rng, kind, acts, dump(content).encode(), folder)
    if rng.random() < 0.75:
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            # a copy, because a graft shares values with the other config
            content = deepcopy(content)
            done.append(damage_values(rng, content, other))
    try:
        text = dump(content)
    except Exception:  # YAML has no form for it
        text = dump({"cube": repr(content)})
    if rng.random() < 0.2 or not done:
        act, text = damage_text(rng, text)
        done.append(act)
    raw = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.15:
        act, raw = damage_bytes(rng, raw.decode("utf-8", "replace"))
        done.append(act)
    return _write(rng, kind, done, raw, folder)


def _write(rng: random.Random, kind: str, done: list[str], raw: bytes, folder: Path) -> Case:
    (folder / "config.yaml").write_bytes(raw)
    steps = _steps(rng, kind, raw)
    description = f"{kind}: {'; '.join(done)}: {' '.join(steps[0])}"
    return Case(description, steps, lambda place, found: _check(kind, done, place, found))


def _steps(rng: random.Random, kind: str, raw: bytes) -> tuple[tuple[str, ...], ...]:
    file = "config.yaml"
    if kind == "policy":
        return (("gate", "missing", "--policy", file),)
    roll = rng.random()
    # a preset would be written, with as many users as the config has
    if b"preset" in raw or kind in ("file", "study") or roll < 0.7:
        return (("config", "check", file),) if roll < 0.65 else (("config", "show", file),)
    if kind == "catalogue":
        return (("reaudit", file, "--list"),)
    return ((*rng.choice(_READERS), file, "--explain"),)


def _check(kind: str, done: list[str], folder: Path, outcomes: list[Outcome]) -> str | None:
    code, output = outcomes[-1].exit_code, outcomes[-1].output
    if found := _INTERNAL.search(output):
        return f"the message has words of a library: {found.group()}"
    if code not in (0, 2):
        return f"a config ends with {code}"
    if code == 0 and kind != "study":
        accepted = [act for act in done if any(word in act for word in _NEVER)]
        if accepted and len(done) == 1:
            return f"accepted: {accepted}"
    return _read_study(folder) if kind == "study" else None


def _read_study(folder: Path) -> str | None:
    """Read the file as a study, which no command reads from a path."""
    from clusterscale.config import load_study
    from clusterscale.errors import ClusterscaleError

    try:
        load_study(folder / "config.yaml", quick=True)
    except ClusterscaleError as error:
        message = str(error)
        return "a long message" if len(message.splitlines()) > 10 else None
    except Exception as error:
        return f"a study raises {error!r:.300}"
    return None


def _no_file(rng: random.Random, folder: Path) -> Case:
    """Name something that is no regular file."""
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "link").symlink_to("/dev/zero")
    names = (
        "fifo",
        "folder",
        "loop",
        "link",
        "/dev/zero",
        "/dev/stdin",
        "/proc/self/environ",
        "/proc/self/mem",
        "missing",
        "",
        "a" * 300,
        "x/" * 3_000,
        "é\x1b[2J",
        "\udcff",
        ".",
        "http://127.0.0.1:9/x",
        "ftp://ann:geheim@127.0.0.1/x",
        "[red]x[/]",
        "a\nb",
    )
    name = rng.choice(names)
    verb = rng.choice((("config", "check"), ("config", "show"), ("audit", "--explain")))
    return Case(f"no file: {name!r:.40}", ((*verb, "--", name),))
