"""Releases, ledgers and catalogues that are hostile or damaged: sound ones are judged as before."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from fuzz import crowd
from fuzz.damage import VALUES, damage_file, damage_json, files_of, places_in
from fuzz.hostile_releases import (
    HOSTILE,
    HOSTILE_ACTS,
    SIZE,
    attributes_of,
    load_values,
    place,
    write,
)  # fmt: skip
from fuzz.runner import ID, Case, Outcome

NAME = "releases"
N_SOUND = 2
_LEFT = ("ledger", "ledger/*", "releases.yaml")
_FIELDS = (
    "verdict", "reasons", "n_targets", "mean_privacy_loss", "worst_privacy_loss", "published_auc",
    "epsilon_lower", "utility", "change", "n_common", "content", "audit",
)  # fmt: skip
_LEVELS = ("pass", "warn", "fail", "error")


def prepare(folder: Path) -> None:
    """Make a cube, two sound releases, and the ledger with their verdicts."""
    from clusterscale.cube import TraceCube
    from clusterscale.groups import count_visits

    crowd.write_cube(folder / "cube.zarr", chunk=200)
    cube = TraceCube(folder / "cube.zarr")
    for day in range(N_SOUND):
        traces = cube.traces(None, (24 * day, 24 * day + 24))
        values = count_visits(traces, np.arange(SIZE)[None])[0].astype(float)
        np.save(folder / f"day-{day}.npy", values)
        write(folder / f"releases/a-day-{day}.zarr", values, attributes_of(first=24 * day))
    os.chdir(folder)
    crowd.without_pages()
    _catalogue(folder, folder)
    assert crowd.call("reaudit", "releases.yaml") in (0, 3, 4)
    rows = [[_plain(getattr(row, name)) for name in _FIELDS] for row in _rows(folder)]
    (folder / "sound.json").write_text(json.dumps(rows))


def make(rng: random.Random, number: int, shared: Path, folder: Path) -> Case:
    """Add a hostile release to a catalogue, or damage its ledger, policy or members."""
    shutil.copytree(shared / "releases", folder / "releases")
    fresh = rng.random() < 0.1
    if not fresh:
        shutil.copytree(shared / "ledger", folder / "ledger")
    _catalogue(folder, shared)
    crowd.without_pages()
    act = rng.choice(_ACTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said, rule = act(rng, folder, shared)
    steps: list[tuple[str, ...]] = [("reaudit", "releases.yaml", "--json", "told.json")]
    if rng.random() < 0.3:
        steps += [("reaudit", "releases.yaml"), ("reaudit", "releases.yaml", "--list")]
    before = len(list((folder / "ledger/verdicts.parquet").glob("*"))) if not fresh else 0

    def check(folder: Path, outcomes: list[Outcome]) -> str | None:
        return _check(folder, outcomes, shared, rule, before)

    return Case(f"{'fresh, ' if fresh else ''}{act.__name__.strip('_')}: {said}", tuple(steps),
                check, (*_LEFT, "told.json"))  # fmt: skip


LEDGER, POLICY = "ledger", "policy"
"""What was changed, if not a hostile release was added: it decides what must be as before."""


def _check(
    folder: Path, outcomes: list[Outcome], shared: Path, rule: str, before: int
) -> str | None:
    from clusterscale.errors import ClusterscaleError

    sound = json.loads((shared / "sound.json").read_text())
    try:
        rows = _rows(folder)
    except ClusterscaleError as error:
        if rule == LEDGER and outcomes[0].exit_code in (2, 75) and "ledger" in outcomes[0].output:
            return None
        return f"the ledger cannot be read: {error}"
    if rule in (HOSTILE, LEDGER):
        last = {row.release: row for row in rows}
        for day, wanted in enumerate(sound):
            row = last.get(f"a-day-{day}")
            if row is None:
                if outcomes[0].exit_code in (0, 3, 4):
                    return f"a-day-{day} has no verdict"
                continue
            found = [_plain(getattr(row, name)) for name in _FIELDS]
            for name, one, other in zip(_FIELDS, found, wanted, strict=True):
                if one != other and rule == HOSTILE:
                    return f"a-day-{day}: {name} is {one}, not {other}"
                if name == "verdict" and _LEVELS.index(one) < _LEVELS.index(other):
                    return f"a-day-{day} is {one} and was {other}"
    told = folder / "told.json"
    exits_with_pass = rule == HOSTILE and told.exists() and outcomes[0].exit_code == 0
    if exits_with_pass and json.loads(told.read_text())["verdict"] != "pass":
        return "exits with 0 but does not pass"
    return None


def _rows(folder: Path) -> list[Any]:
    from clusterscale.reauditing.ledger import Ledger

    return Ledger(str(folder / "ledger")).rows


def _plain(value: Any) -> Any:
    return value if not isinstance(value, float) else repr(value)


def _catalogue(folder: Path, shared: Path, **changes: Any) -> None:
    content = {
        "cube": str(shared / "cube.zarr"),
        "output": "ledger",
        "releases": "releases",
        "everyone": False,
        "published": 4,
        "audit": {
            "seed": 3,
            "targets": {"random": 2},
            "priors": [{"name": "known_subset", "alpha": 0.5, "training": 20, "challenges": 10}],
            "attacks": [{"name": "projection"}],
            "utility": {"measures": [{"name": "pearson"}]},
            "verdict": {"trials": 100},
        },
        "cluster": {"name": "serial"},
    }
    (folder / "releases.yaml").write_text(yaml.safe_dump(content | changes))


def ledger(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Damage the ledger, or the folder of an audit."""
    if not (folder / "ledger").exists():
        shutil.copytree(shared / "ledger", folder / "ledger")
    home = folder / "ledger"
    table = home / "verdicts.parquet"
    files = files_of(rng.choice((home, table, table)))
    facts = [path for path in files_of(home) if path.name == "facts.json"]
    act = rng.choice(("file", "file", "folder", "row", "facts"))
    if act == "folder":
        path = rng.choice([path for path in home.rglob("*") if path.is_dir()])
        shutil.rmtree(path)
        return f"{path.name} lost", LEDGER
    if act == "row":
        return _edit_row(rng, rng.choice(files_of(table))), LEDGER
    if act == "facts":
        return f"facts.json: {damage_json(rng, rng.choice(facts))}", LEDGER
    path = rng.choice(files)
    return f"{path.relative_to(home)} {damage_file(rng, path, files)}", LEDGER


def _edit_row(rng: random.Random, path: Path) -> str:
    """Change a field of a row of the ledger, without its seal."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(path.read_bytes()))
    (row,) = table.to_pylist()
    key = rng.choice(list(row))
    row[key] = {str: "pass", int: 7, float: 0.0}[type(row[key])]
    schema = table.schema
    if rng.random() < 0.3:
        key += " and a column"
        schema = schema.append(pa.field("more", pa.string()))
        row["more"] = "x"
    pq.write_table(pa.Table.from_pylist([row], schema), path)
    return f"row {path.name}: {key}"


def policy(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Change any setting of the catalogue."""
    content = yaml.safe_load((folder / "releases.yaml").read_text())
    content["policy"] = {
        "mean_privacy_loss": {"warn": 0.1, "fail": 0.2}, "promise": "fail", "last": 4,
        "exposure": {"inconclusive": "warn"}, "consistency": "fail", "utility": {"pearson": 0.1},
    }  # fmt: skip
    places = places_in(content)
    if rng.random() < 0.7:
        places = [*places_in(content["policy"]), (content, "policy")]
    container, key = rng.choice(places)
    container[key] = value = rng.choice((*VALUES, "pass", "warn", "fail", {"fail": -1}, 1e308))
    with suppress(yaml.YAMLError, UnicodeError):
        (folder / "releases.yaml").write_text(yaml.safe_dump(content))
    return f"{key} = {str(value)[:40]!r}", POLICY


def members(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Name members of the hostile release in a file that is damaged or hostile."""
    write(place(rng, folder, "zarr3"), load_values(shared), attributes_of())
    users = [(ID.format(100 + i), i < 5) for i in range(10)]
    lines = [f"{user},{int(inside)}" for user, inside in users]
    name, text = rng.choice(
        [
            ("sound", "\n".join(("user,inside", *lines))),
            ("no header", "\n".join(lines)),
            ("other column", "\n".join(("user,member", *lines))),
            ("a further column", "\n".join(("user,inside,x", *(f"{line},1" for line in lines)))),
            ("twice", "\n".join(("user,inside", *lines, *lines))),
            ("unknown user", "\n".join(("user,inside", *lines, f"{ID.format(9999)},1"))),
            ("bad word", "\n".join(("user,inside", *lines[:-1], f"{users[0][0]},maybe"))),
            ("quote", "\n".join(("user,inside", *lines)) + '\n"'),
            ("ragged", "\n".join(("user,inside", *lines, "a,b,c,d,e"))),
            ("empty", ""),
            ("header only", "user,inside\n"),
            ("Parquet that is none", "PAR1" + "x" * 100),
            ("NUL", "user,inside\n\0\0,1\n"),
            ("equal columns", "user,inside,user\n" + "\n".join(f"{line},x" for line in lines)),
        ]
    )
    path = folder / "members.csv"
    path.write_text(text)
    if rng.random() < 0.3:
        name += f", {damage_file(rng, path, [path])}"
    entries = [{"counts": "releases/a-day-*.zarr"},
               {"counts": "releases/z-hostile.zarr", "members": "members.csv"}]  # fmt: skip
    _catalogue(folder, shared, releases=entries)
    return name, POLICY


_ACTS: list[Callable[[random.Random, Path, Path], tuple[str, str]]] = [
    *HOSTILE_ACTS, ledger, ledger, policy, members,
]  # fmt: skip
