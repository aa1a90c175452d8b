"""Damage to files and folders: what disks, transfers and attackers do to them."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["VALUES", "damage_file", "damage_json", "files_of", "places_in"]

DEEP = "[" * 3000 + "]" * 3000

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 2**31, 2**63, 2**64, -(2**70), 1e308, -0.0, 0.5, float("nan"),
    float("inf"), "", "x", "NaN", "1", "../..", "/etc/passwd", "[red]markup[/]", "é\u202e\x1b[2J",
    "\ud800", "9" * 400, [], [[]], [1, "a", None], ["x"] * 500, {}, {"a": {"b": {}}}, {"": 0},
)  # fmt: skip
"""Values of every type of JSON that no writer of this package writes at most places."""


def files_of(folder: Path) -> list[Path]:
    """Return the files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def damage_file(rng: random.Random, path: Path, others: list[Path]) -> str:
    """Damage one file; return what was done. ``others`` may be swapped with it."""
    name, act = rng.choice(list(_ACTS.items()))
    act(rng, path, rng.choice(others))
    return name


def _flip(rng: random.Random, path: Path, other: Path) -> None:
    raw = bytearray(path.read_bytes() or b"\0")
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    path.write_bytes(raw)


def _truncate(rng: random.Random, path: Path, other: Path) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size or 1))


def _empty(rng: random.Random, path: Path, other: Path) -> None:
    path.write_bytes(b"")


def _delete(rng: random.Random, path: Path, other: Path) -> None:
    path.unlink()


def _zeros(rng: random.Random, path: Path, other: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def _noise(rng: random.Random, path: Path, other: Path) -> None:
    path.write_bytes(rng.randbytes(rng.choice((1, 7, 300, path.stat().st_size))))


def _append(rng: random.Random, path: Path, other: Path) -> None:
    with path.open("ab") as file:
        file.write(rng.choice((b"\0", b"\n", b"}", rng.randbytes(20))))


def _swap(rng: random.Random, path: Path, other: Path) -> None:
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


def _copy(rng: random.Random, path: Path, other: Path) -> None:
    content = other.read_bytes()
    path.write_bytes(content)


def _extra(rng: random.Random, path: Path, other: Path) -> None:
    name = rng.choice((f"{path.name}0", f".{path.name}", "99", "extra.parquet", "x.json", "é"))
    shutil.copy(other, path.with_name(name))


def _folder(rng: random.Random, path: Path, other: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(rng: random.Random, path: Path, other: Path) -> None:
    path.unlink()
    places = ("/dev/zero", "/etc/passwd", "/nowhere", str(path), "..", str(path.parent))
    path.symlink_to(rng.choice(places))


def _link_to_other(rng: random.Random, path: Path, other: Path) -> None:
    if other != path:
        path.unlink()
        path.symlink_to(other)


def _fifo(rng: random.Random, path: Path, other: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _text(rng: random.Random, path: Path, other: Path) -> None:
    texts = (DEEP, "null", "[]", "{}", '"text"', "9" * 5000, '{"a": NaN}', "\ufeff{}", "{" * 2000)
    path.write_text(rng.choice(texts))


_ACTS: dict[str, Callable[[random.Random, Path, Path], None]] = {
    "bits flipped": _flip,
    "truncated": _truncate,
    "emptied": _empty,
    "deleted": _delete,
    "zeros": _zeros,
    "random bytes": _noise,
    "bytes appended": _append,
    "swapped": _swap,
    "replaced by another": _copy,
    "a further file": _extra,
    "made a folder": _folder,
    "made a link": _link,
    "made a link to another": _link_to_other,
    "made a FIFO": _fifo,
    "other JSON": _text,
}


def places_in(content: Any) -> list[tuple[Any, Any]]:
    """Return the containers and keys of every value in JSON."""
    items: list[tuple[Any, Any]] = []
    if isinstance(content, dict):
        items = list(content.items())
    elif isinstance(content, list):
        items = list(enumerate(content))
    return [place for key, value in items for place in ((content, key), *places_in(value))]


def damage_json(rng: random.Random, path: Path) -> str:
    """Change, remove or add one value in a JSON file; return what was done."""
    content = json.loads(path.read_text())
    container, key = rng.choice(places_in(content))
    act = rng.choice(("change", "change", "change", "remove", "add"))
    if act == "remove":
        del container[key]
    elif act == "add" and isinstance(container, dict):
        key = rng.choice(("extra", "digest", "files", "must_understand", "é"))
        container[key] = rng.choice(VALUES)
    else:
        container[key] = rng.choice(VALUES)
    path.write_text(json.dumps(content))
    return f"{act} {key!r}"
