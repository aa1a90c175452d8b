"""Releases that publishers may not have made: values, attributes and stores that are hostile."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.damage import DEEP, VALUES, damage_file, damage_json, files_of

__all__ = ["HOSTILE", "HOSTILE_ACTS", "SIZE", "attributes_of", "load_values", "place", "write"]

SIZE = 20
HOSTILE = "hostile release"


def attributes_of(**changes: Any) -> dict[str, Any]:
    return {"group_size": SIZE, "mechanism": {"name": "exact"}, "first": 0, "series": "s"} | changes


def write(
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


def place(rng: random.Random, folder: Path, form: str) -> Path:
    """Return where the hostile release is put: after the sound ones by its name."""
    return folder / "releases" / f"z-hostile.{'zarr' if form.startswith('zarr') else 'nc'}"


def load_values(shared: Path, day: int = 0) -> np.ndarray:
    return np.load(shared / f"day-{day}.npy")


def _write_or_break(rng: random.Random, path: Path, values: Any, attributes: dict[str, Any],
           form: str, **options: Any) -> None:  # fmt: skip
    """Write a release; what a form cannot hold is left as a file that is no release."""
    try:
        write(path, values, attributes, form=form, **options)
    except Exception:
        if path.is_dir():
            shutil.rmtree(path)
        path.write_bytes(b"\x89HDF\r\n\x1a\n" + rng.randbytes(50))


def values(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Publish values of another shape, dtype, or kind."""
    sound = load_values(shared)
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
    _write_or_break(rng, place(rng, folder, form), made, attributes_of(), form)
    return f"{form}, {name}", HOSTILE


_MECHANISMS: tuple[Any, ...] = (
    "exact", "nothing", "", {"name": "laplace"},
    {"name": "laplace", "epsilon": 1.0, "unit": "event"},
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
    {"name": "fixed_ranges", "size": 2**62},
    {"name": "fourier", "epsilon": 1.0, "coefficients": 99},
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
    made = attributes_of(**{key: value})
    if key == "start":
        made.pop("first")
    if rng.random() < 0.1:
        made.pop(rng.choice(list(made)))
    _write_or_break(rng, place(rng, folder, form), load_values(shared), made, form)
    return f"{form}, {key} = {str(value)[:60]!r}", HOSTILE


def others(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Publish totals, coordinates and variables that do not fit."""
    form = rng.choice(("zarr3", "zarr2", "netcdf4", "netcdf3"))
    sound = load_values(shared)
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
    _write_or_break(rng, place(rng, folder, form), sound, attributes_of(), form, **more)
    return f"{form}, {name}", HOSTILE


def damaged(rng: random.Random, folder: Path, shared: Path) -> tuple[str, str]:
    """Publish a store whose files are damaged, or whose metadata declares what is not there."""
    form = rng.choice(("zarr3", "zarr3", "zarr2", "netcdf4", "netcdf3"))
    path = place(rng, folder, form)
    write(path, load_values(shared, 1), attributes_of(first=24), form=form)
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
    path = place(rng, folder, "zarr3")
    write(path, load_values(shared), attributes_of())
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


HOSTILE_ACTS = [
    values, values, attributes, attributes, attributes, others, damaged, damaged, declared,
    no_release,
]  # fmt: skip
