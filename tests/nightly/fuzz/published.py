"""Published tables that were damaged: ``check`` judges what is there, or refuses it in a line."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from fuzz.damage import DEEP, VALUES, damage_file
from fuzz.runner import Case

NAME = "published"

METHOD = "threshold(k=5, shown='hidden')"
SETTINGS = {
    "week.csv": "long(total='Total')",
    "week.parquet": "long(total='Total')",
    "wide.csv": "wide(total='Total')",
    "week.geojson": "geojson",
    "sdmx.csv": "sdmx_csv",
    "flows.csv": "flow_data_frame",
    "week.nc": "arrays",
    "week.zarr": "arrays",
}
_TEXTS = (
    "", "*", "<5", "-1", "1e400", "nan", "9" * 500, "=1+1", "\x00", "\x1b[2J", "é" * 300, '"', "'",
    "2026-13-45T99:99", "0001-01-01T00:00Z", "9999-12-31T23:59Z", "1e18", "Total", "null", ",,,,",
)  # fmt: skip

_METHODS = (
    "exact",
    "x" * 5000,
    DEEP,
    "chain(steps=[])",
    "threshold(k=1e9)",
    "cell_key(deviation=50, variance=1e300)",
    "cell_key(deviation=1, variance=1e-300)",
    "cell_key(table='i;j;p\\n0;0;1')",
    "round_to_base(base=2147483647)",
    "expand(factor=1e-300)",
    "expand(factor=1e300)",
    "laplace(epsilon=1.0)",
    "fourier(epsilon=1.0, coefficients=3)",
    "top_code(at=3)",
    "bottom_code(at=4, least=2)",
    "share_of_total()",
    "dominance(share=1e-300)",
    "fixed_ranges(size=7)",
    "../..",
    "randomized_response(p=0.3)",
    "coarsen_time(factor=4)",
    "a(",
    "a(b)",
    "/dev/zero",
    "gaussian(epsilon=1.0, delta=0.1, l2_sensitivity=1.0, integers='round')",
    "sample_events(remove=0.3)",
    "adaptive_ranges(ranges=3)",
    "{name: exact",
)


def prepare(folder: Path) -> None:
    """Write one release in every format."""
    import numpy as np

    from clusterscale.config import parse_entry
    from clusterscale.release import TABLE_FORMATS, PublishedTotals, RawRelease, ReleaseMetadata

    counts = np.random.default_rng(1).poisson(8, (9, 30)).astype(float)
    shown = np.where(counts < 5, np.nan, counts)
    hours = np.datetime64("2026-03-02T00:00:00", "s") + np.arange(30) * 3600
    names = tuple(f"zone {i}" for i in range(9))
    pairs = tuple(f"{i} → {j}" for i in range(3) for j in range(3))
    said = ReleaseMetadata(group_size=300, mechanism={"name": "exact"}, series="zones")
    totals = PublishedTotals(counts.sum(1), counts.sum(0))
    for name, form in SETTINGS.items():
        some = totals if "Total" in form else PublishedTotals()
        places = pairs if name == "flows.csv" else names
        release = RawRelease(shown, places, hours, some, said)
        parse_entry(TABLE_FORMATS, form).write(str(folder / name), release)


def make(rng: random.Random, number: int, shared: Path, folder: Path) -> Case:
    """Damage a table, its description, or the settings with which it is read."""
    name, form = rng.choice(list(SETTINGS.items()))
    source = shared / name
    (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    beside = shared / f"{name}-metadata.json"
    if beside.exists():
        shutil.copy(beside, folder / beside.name)
    act = rng.choice((_bytes, _bytes, _cells, _cells, _description, _settings, _method))
    said, form, method = act(rng, folder, name, form)
    words = ("check", name, "--method", method, "--format", form, "--json", "found.json")
    if rng.random() < 0.3:
        words += ("--page", "found.html", "--junit", "found.xml")
    if rng.random() < 0.3:
        words += ("--beside", str(shared / "week.csv"))
    return Case(f"{name}, {act.__name__[1:]}: {said}", (words,))


Damaged = tuple[str, str, str]
"""What was done, and the format and the method of the command."""


def _bytes(rng: random.Random, folder: Path, name: str, form: str) -> Damaged:
    files = [folder / name]
    if (folder / name).is_dir():
        files = sorted(path for path in (folder / name).rglob("*") if path.is_file())
    return damage_file(rng, rng.choice(files), files), form, METHOD


def _cells(rng: random.Random, folder: Path, name: str, form: str) -> Damaged:
    """Replace fields of a text, or repeat, drop and reorder its lines."""
    if not name.endswith(".csv"):
        return _bytes(rng, folder, name, form)
    lines = [line.split(",") for line in (folder / name).read_text().splitlines()]
    said = []
    for _ in range(rng.choice((1, 1, 2, 5))):
        line = rng.choice(lines)
        act = rng.choice(("field", "field", "field", "drop", "double", "add", "swap"))
        if act == "field":
            line[rng.randrange(len(line))] = rng.choice(_TEXTS)
        elif act == "drop" and len(lines) > 1:
            lines.remove(line)
        elif act == "double":
            lines.append(list(line))
        elif act == "add":
            line.append(rng.choice(_TEXTS))
        else:
            rng.shuffle(lines)
        said.append(act)
    content = "\n".join(map(",".join, lines))
    encoding = rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"))
    (folder / name).write_bytes(content.encode(encoding, "replace"))
    return f"{', '.join(said)} in {encoding}", form, METHOD


def _description(rng: random.Random, folder: Path, name: str, form: str) -> Damaged:
    notes = ("[]", '{"group_size": -1}', '{"mechanism": {"name": "x"}}',
             '{"cube": "/dev/zero", "members": "x"}')  # fmt: skip
    texts = (DEEP, "{}", "[]", "null", '{"notes": 3}', "\x00", "9" * 5000)
    content = rng.choice((*texts, *(f'{{"notes": {{"clusterscale": {one}}}}}' for one in notes)))
    (folder / f"{name}-metadata.json").write_text(content)
    return f"description {content[:40]}", form, METHOD


def _settings(rng: random.Random, folder: Path, name: str, form: str) -> Damaged:
    keys = ("place", "time", "count", "hidden", "total", "timezone", "time_format", "step", "slots",
            "absent", "delimiter", "add_rows", "hour", "status", "times")  # fmt: skip
    key = rng.choice(keys)
    zones = ("zero", "hidden", "Europe/Paris", "%Y", "%", "1h", "1s", "900000d")
    values = (*_TEXTS, *VALUES, *zones)
    value = rng.choice(values)
    kind = form.partition("(")[0]
    return f"{key} = {value!r:.40}", f"{kind}({key}={value!r})", METHOD


def _method(rng: random.Random, folder: Path, name: str, form: str) -> Damaged:
    method = rng.choice(_METHODS)
    return f"method {method[:40]}", form, method
