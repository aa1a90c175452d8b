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
from fuzz.damage import DEEP, VALUES, damage_file, damage_json, files_of, places_in
from fuzz.runner import ID, Case, Outcome

NAME = "releases"
N_SOUND = 2
SIZE = 20
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
        _write(folder / f"releases/a-day-{day}.zarr", values, _attributes(first=24 * day))
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


HOSTILE, SOUND, LEDGER, POLICY = "hostile release", "sound releases", "ledger", "policy"
"""What was changed: it decides what must be as before."""


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
    if rule == HOSTILE and told.exists() and outcomes[0].exit_code == 0:
        if json.loads(told.read_text())["verdict"] != "pass":
            return "exits with 0 but does not pass"
    return None


def _rows(folder: Path) -> list[Any]:
    from clusterscale.reaudit.ledger import Ledger

    return Ledger(str(folder / "ledger")).rows


def _plain(value: Any) -> Any:
    return value if not isinstance(value, float) else repr(value)


def _attributes(**changes: Any) -> dict[str, Any]:
    return {"group_size": SIZE, "mechanism": {"name": "exact"}, "first": 0, "series": "s"} | changes


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


def _write(
    path: Path,
    values: Any,
    attributes: dict[str, Any],
    *,
    dims: tuple[str, ...] = ("roi", "epoch"),
    form: str = "zarr3",
    **others: Any,
) -> None:
    import xarray as xr

    dataset = xr.Dataset({"counts": (dims, np.asarray(values)), **others}, attrs=attributes)
    path.parent.mkdir(parents=True, exist_ok=True)
    if form.startswith("zarr"):
        dataset.to_zarr(path, zarr_format=int(form[-1]), consolidated=False)
    else:
        dataset.attrs = {
            key: json.dumps(value) if isinstance(value, dict | list | bool | None) else value
            for key, value in attributes.items()
        }
        dataset.to_netcdf(path, engine="h5netcdf" if form == "netcdf4" else "scipy")


def _place(rng: random.Random, folder: Path, form: str) -> Path:
    """Return where the hostile release is put: after the sound ones by its name."""
    return folder / "releases" / f"z-hostile.{'zarr' if form.startswith('zarr') else 'nc'}"


def _values_of(shared: Path, day: int = 0) -> np.ndarray:
    return np.load(shared / f"day-{day}.npy")


def _dated(rng: random.Random, path: Path, values: Any, attributes: dict[str, Any],
           form: str, **options: Any) -> None:  # fmt: skip
    """Write a release; what a form cannot hold is left as a file that is no release."""
    try:
        _write(path, values, attributes, form=form, **options)
    except Exception:
        if path.is_dir():
            shutil.rmtree(path)
        path.write_bytes(b"\x89HDF\r\n\x1a\n" + rng.randbytes(50))


def values(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Publish values of another shape, dtype, or kind."""
    sound = _values_of(shared)
    form = rng.choice(("zarr3", "zarr3", "zarr2", "netcdf4", "netcdf3"))
    one = sound.copy()
    one[rng.randrange(10), rng.randrange(24)] = rng.choice(
        (np.nan, np.inf, -np.inf, -1, -1e300, 1e308, 0.5, SIZE + 1, 1e15)
    )
    name, made = rng.choice(
        [
            ("one value", one),
            ("all NaN", np.full_like(sound, np.nan)),
            ("all huge", np.full_like(sound, 1e308)),
            ("all negative", -sound - 1),
            ("zeros", sound * 0),
            ("fewer ROIs", sound[:-1]),
            ("more ROIs", np.vstack([sound, sound[:1]])),
            ("one epoch", sound[:, :1]),
            ("no epoch", sound[:, :0]),
            ("no ROI", sound[:0]),
            ("transposed", sound.T),
            ("more epochs", np.hstack([sound, sound])),
            ("far too many epochs", np.hstack([sound] * 5)),
            ("int8", sound.astype(np.int8)),
            ("uint64", np.full(sound.shape, 2**64 - 1, np.uint64)),
            ("float16", sound.astype(np.float16)),
            ("bool", sound > 0),
            ("complex", sound.astype(complex)),
            ("text", sound.astype(str)),
            ("bytes", sound.astype("S3")),
            ("objects", sound.astype(int).astype(str).astype(object)),
            ("dates", sound.astype("M8[s]")),
            ("durations", sound.astype("m8[ns]")),
            ("big-endian", sound.astype(">f8")),
        ]
    )
    _dated(rng, _place(rng, folder, form), made, _attributes(), form)
    return f"{form}, {name}", HOSTILE


_MECHANISMS: tuple[Any, ...] = (
    "exact", "nothing", "", {"name": "laplace"}, {"name": "laplace", "epsilon": 1.0, "unit": "event"},
    {"name": "laplace", "epsilon": 1e-320, "unit": "event"},
    {"name": "laplace", "epsilon": 1e300, "unit": "user"},
    {"name": "laplace", "epsilon": -1, "unit": "user"},
    {"name": "laplace", "epsilon": float("nan"), "unit": "user"},
    {"name": "gaussian", "epsilon": 1.0, "delta": 1e-300},
    {"name": "suppress_small", "below": 10**9}, {"name": "suppress_small", "up_to": 2},
    {"name": "coarsen_time", "factor": 10**9}, {"name": "coarsen_time", "factor": 4},
    {"name": "coarsen_space", "factor": 3}, {"name": "chain", "steps": []},
    {"name": "chain", "steps": [{"name": "chain", "steps": [{"name": "exact"}]}]},
    {"name": "sample_traces", "remove": 1.0}, {"name": "cap_contributions", "per_day": 10**12},
    {"name": "fixed_ranges", "size": 2**62}, {"name": "fourier", "epsilon": 1.0, "coefficients": 99},
    {"name": "__import__('os').system('x')"}, {"title": "[red]x[/]\x1b[2J", "name": "exact"},
    {"name": ["exact"]}, {"name": {"name": "exact"}}, 3, None, [],
)  # fmt: skip


def attributes(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Publish sound values with attributes that are wrong, of other types or addresses."""
    form = rng.choice(("zarr3", "zarr3", "zarr2", "netcdf4"))
    key, value = rng.choice(
        [
            ("group_size", rng.choice((*VALUES, 2, 59, 60, 61, 2**31, 10**18))),
            ("mechanism", rng.choice(_MECHANISMS)),
            ("mechanism", rng.choice(_MECHANISMS)),
            ("mechanism", rng.choice((*VALUES, DEEP))),
            ("first", rng.choice((*VALUES, 24, 25, 47, 48, 2**62))),
            ("start", rng.choice((*VALUES, "2024-01-01", "9999-12-31T23:59", "0001-01-01"))),
            ("epochs", rng.choice((*VALUES, 24, 48, 2**62))),
            ("observed", rng.choice((*VALUES, [0], [24], [10**9], [0, 0]))),
            ("null_roi", rng.choice((*VALUES, 0, 1, 2))),
            ("series", rng.choice((*VALUES, "s", "../..", "x" * 10_000))),
            ("members", rng.choice(("/etc/passwd", "http://127.0.0.1:9/x", "reference::x", 3))),
            ("cube", rng.choice(("/", "memory://x", "file:///dev/zero", "s3://a/b", None))),
            ("coordinates", "roi epoch nothing"),
            ("_FillValue", 3),
            ("scale_factor", "x"),
        ]
    )
    made = _attributes(**{key: value})
    if key == "start":
        made.pop("first")
    if rng.random() < 0.1:
        made.pop(rng.choice(list(made)))
    _dated(rng, _place(rng, folder, form), _values_of(shared), made, form)
    return f"{form}, {key} = {str(value)[:60]!r}", HOSTILE


def others(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Publish totals, coordinates and variables that do not fit."""
    form = rng.choice(("zarr3", "zarr2", "netcdf4", "netcdf3"))
    sound = _values_of(shared)
    name, more = rng.choice(
        [
            ("wrong totals", {"roi_total": (("roi",), sound.sum(axis=1) + 1)}),
            ("NaN totals", {"epoch_total": (("epoch",), np.full(24, np.nan))}),
            ("infinite totals", {"epoch_total": (("epoch",), np.full(24, np.inf))}),
            ("text totals", {"roi_total": (("roi",), np.full(10, "x"))}),
            ("totals of another shape", {"roi_total": (("epoch",), np.zeros(24))}),
            ("scalar totals", {"roi_total": ((), 3.0)}),
            ("two variables", {"more": (("roi", "epoch"), sound)}),
            ("other names", {"roi": (("roi",), [f"x{i}" for i in range(10)])}),
            ("shuffled names", {"roi": (("roi",), [f"r{9 - i}" for i in range(10)])}),
            ("equal names", {"roi": (("roi",), ["r1"] * 10)}),
            ("numbers as names", {"roi": (("roi",), np.arange(10.0) * np.nan)}),
            ("epochs that fall", {"epoch": (("epoch",), np.arange(24)[::-1])}),
            ("epochs far away", {"epoch": (("epoch",), np.arange(24) + 10**12)}),
            ("NaN epochs", {"epoch": (("epoch",), np.full(24, np.nan))}),
            ("text epochs", {"epoch": (("epoch",), [f"e{i}" for i in range(24)])}),
            ("dates", {"epoch": (("epoch",), np.arange(24).astype("M8[h]").astype("M8[ns]"))}),
            ("no dates", {"epoch": (("epoch",), np.full(24, "NaT", "M8[ns]"))}),
            ("id as names", {"roi": (("roi",), [f"x{i}@y" for i in range(10)])}),
        ]
    )
    _dated(rng, _place(rng, folder, form), sound, _attributes(), form, **more)
    return f"{form}, {name}", HOSTILE


def damaged(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Publish a store whose files are damaged, or whose metadata declares what is not there."""
    form = rng.choice(("zarr3", "zarr3", "zarr2", "netcdf4", "netcdf3"))
    path = _place(rng, folder, form)
    _write(path, _values_of(shared, 1), _attributes(first=24), form=form)
    if not path.is_dir():
        return f"{form} {damage_file(rng, path, [path])}", HOSTILE
    files = files_of(path)
    file = rng.choice(files)
    metadata = [file for file in files if file.name in ("zarr.json", ".zarray", ".zattrs")]
    if rng.random() < 0.5:
        file = rng.choice(metadata)
        return f"{file.relative_to(path)}: {damage_json(rng, file)}", HOSTILE
    return f"{file.relative_to(path)} {damage_file(rng, file, files)}", HOSTILE


def declared(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Publish an array that declares a huge shape, huge chunks or other codecs."""
    path = _place(rng, folder, "zarr3")
    _write(path, _values_of(shared), _attributes())
    file = path / "counts" / "zarr.json"
    content = json.loads(file.read_text())
    key, value = rng.choice(
        [
            ("shape", [10, 2**40]),
            ("shape", [2**31, 2**31]),
            ("shape", [2**63, 24]),
            ("shape", [100_000, 24]),
            ("shape", [-1, 24]),
            ("shape", [10]),
            ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [2**30, 2**20]}}),
            ("chunk_grid", {"name": "regular", "configuration": {"chunk_shape": [0, 0]}}),
            ("data_type", rng.choice(("int8", "string", "complex128", "x", "float16", None))),
            ("codecs", rng.choice(([], [{"name": "numcodecs.pickle"}], [{"name": "bytes"}], None))),
            ("fill_value", rng.choice(VALUES)),
            ("dimension_names", rng.choice((["epoch", "roi"], ["roi", "roi"], None, ["a", "b"]))),
            ("attributes", rng.choice(VALUES)),
        ]
    )
    content[key] = value
    if key in ("shape", "chunk_grid") and rng.random() < 0.5:
        shutil.rmtree(path / "counts" / "c", ignore_errors=True)
    file.write_text(json.dumps(content))
    return f"{key} = {str(value)[:60]}", HOSTILE


def no_release(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Put anything else among the releases."""
    name = rng.choice(("z.zarr", "z.nc", "z.nc4", "z.netcdf", "z-\u202e[red].nc", "z\n.zarr"))
    path = folder / "releases" / name
    act = rng.choice(("file", "folder", "link", "FIFO", "cube", "HDF", "CDF", "loop"))
    if act == "folder":
        path.mkdir()
    elif act == "link":
        path.symlink_to(rng.choice(("/nowhere", "/dev/zero", "/etc/passwd", str(shared), "..")))
    elif act == "loop":
        path.symlink_to(path)
    elif act == "FIFO":
        os.mkfifo(path)
    elif act == "cube":
        path.symlink_to(shared / "cube.zarr")
    else:
        heads = {"HDF": b"\x89HDF\r\n\x1a\n", "CDF": b"CDF\x02"}
        path.write_bytes(heads.get(act, b"") + rng.randbytes(rng.choice((0, 4, 200))))
    return f"{name!r} {act}", HOSTILE


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
    _write(_place(rng, folder, "zarr3"), _values_of(shared), _attributes())
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
    values, values, attributes, attributes, attributes, others, damaged, damaged, declared,
    no_release, ledger, ledger, policy, members,
]  # fmt: skip
