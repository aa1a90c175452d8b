"""Damaged records: `ingest` gives the cube of the sound ones, or refuses them without leftovers."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzz.records import CALENDAR, GRID, draw, in_every_format, ingest_events
from fuzz.runner import ID, Case, Outcome

NAME = "sources"

N_VARIANTS = 4  # of the sound records
COMPRESSED = (".csv.gz", ".csv.bz2", ".csv.xz")
CHECKED = (*COMPRESSED, ".parquet", ".pages.parquet")
"""Endings of files with a checksum: damage is found, or changes nothing that is read."""
TEXTS = (".csv", ".geojson", ".geojsonl", ".cabs")


def prepare(folder: Path) -> None:
    """Write the same few records in every format, and keep the fingerprint of their cube."""
    prints = {}
    for variant in range(N_VARIANTS):
        table = draw(random.Random(variant), 20 + 20 * variant)
        for ending, content in in_every_format(table).items():
            (folder / f"sound{variant}{ending}").write_bytes(content)
        for ending in CHECKED:
            path = folder / f"sound{variant}{ending}"
            prints.setdefault(variant, ingest_events(path, folder / "cube.zarr"))
    (folder / "prints.json").write_text(json.dumps(prints))
    shutil.rmtree(folder / "cube.zarr")


def make(rng: random.Random, number: int, shared: Path, folder: Path) -> Case:
    """Damage a source, or ask for what a sound one cannot give."""
    variant = rng.randrange(N_VARIANTS)
    act = rng.choice((_bytes_of_checked, _bytes_of_checked, _bytes_of_any, _rows, _rows, _names,
                      _folders, _tables, _settings))  # fmt: skip
    description, name, words, sound = act(rng, f"{shared}/sound{variant}", folder)
    reader = _reader_of(name)
    options = words if act is _settings else (*GRID, *CALENDAR, *words)
    step = ("ingest", name, "cube.zarr", "--reader", reader, *options)
    wanted = json.loads((shared / "prints.json").read_text())[str(variant)] if sound else None
    return Case(f"{act.__name__[1:]}: {description}", (step,),
                lambda place, outcomes: _check(wanted, place, outcomes))  # fmt: skip


def _reader_of(name: str) -> str:
    if "geojson" in name:
        return "geojson"
    return "cabspotting" if "cabs" in name else "events"


def _check(wanted: str | None, folder: Path, outcomes: list[Outcome]) -> str | None:
    cube = folder / "cube.zarr"
    if outcomes[0].exit_code != 0:
        return "a cube is left" if cube.exists() else None
    from clusterscale.cube import TraceCube

    found = TraceCube(str(cube)).fingerprint
    return f"the cube {found} instead of {wanted}" if wanted and found != wanted else None


Damaged = tuple[str, str, tuple[str, ...], bool]
"""What was done, the source, further options, and whether the cube must be the sound one."""


def _damage(rng: random.Random, raw: bytes) -> tuple[str, bytes]:
    content = bytearray(raw)
    act = rng.choice(("flip", "flip", "flip", "cut", "append", "zero", "swap", "noise", "double"))
    at = rng.randrange(len(content))
    if act == "flip":
        for _ in range(rng.choice((1, 1, 1, 2, 9))):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif act == "cut":
        del content[at:]
    elif act == "append":
        content += rng.randbytes(rng.choice((1, 20, 500)))
    elif act == "zero":
        length = rng.choice((1, 8, 64, 4096))
        content[at : at + length] = bytes(len(content[at : at + length]))
    elif act == "swap":
        other = rng.randrange(len(content))
        content[at], content[other] = content[other], content[at]
    elif act == "noise":
        content[at : at + 8] = rng.randbytes(len(content[at : at + 8]))
    else:
        content += content[at:]
    return f"{act} at {at}", bytes(content)


def _bytes_of_checked(rng: random.Random, sound: str, folder: Path) -> Damaged:
    ending = rng.choice(CHECKED)
    act, content = _damage(rng, Path(f"{sound}{ending}").read_bytes())
    (folder / f"source{ending}").write_bytes(content)
    return f"{act} of {ending}", f"source{ending}", (), True


def _bytes_of_any(rng: random.Random, sound: str, folder: Path) -> Damaged:
    ending = rng.choice(TEXTS)
    act, content = _damage(rng, Path(f"{sound}{ending}").read_bytes())
    name = _write(folder, ending, content)
    return f"{act} of {ending}", name, (), False


def _write(folder: Path, ending: str, content: bytes) -> str:
    """Write a source, cabs as a folder of one cab, and return its name."""
    if ending != ".cabs":
        (folder / f"source{ending}").write_bytes(content)
        return f"source{ending}"
    (folder / "cabs").mkdir()
    (folder / "cabs" / f"new_{ID.format(3)}.txt").write_bytes(content)
    return "cabs"


_FIELDS = (
    b"", b"nan", b"inf", b"-inf", b"1e999", b"-1e308", b"999999999999999999999",
    b"-9223372036854775808",
    b"\xe9t\xe9", b"\xff\xfe", b"\x00", b"1,5", b'"', b'""', b'"a\nb"', b"2024-01-01T00:00:00",
    b"2024-01-01T05:00:00Z", b"2024-02-30T00:00:00Z", b"0001-01-01T00:00:00Z", b"=1+1", b"\x1b[2J",
    b"1e5", b"0x1F", b" 0.5 ", b"+0.5", b"180.0001", b"-90", b"1704067200.5", b"1704067200000",
    b"x" * 70_000, b"null", b"true", b"[red]", b"{}", b"\xe2\x80\xae", b"\r",
    b"resident0003@example.org",
)  # fmt: skip


def _rows(rng: random.Random, sound: str, folder: Path) -> Damaged:
    """Replace fields in some or all rows of a text."""
    ending = rng.choice(TEXTS)
    between = {".csv": b",", ".cabs": b" "}.get(ending, b":")
    lines = Path(f"{sound}{ending}").read_bytes().splitlines(keepends=True)
    value, share = rng.choice(_FIELDS), rng.choice((0.05, 0.3, 1.0))
    column = rng.randrange(4)
    for i, line in enumerate(lines):
        if rng.random() < share and (i or rng.random() < 0.1):
            fields = line.rstrip(b"\n").split(between)
            fields[column % len(fields)] = value
            lines[i] = between.join(fields) + b"\n"
    extra = rng.choice((b"", b"", b"\n\n", b",,,\n", b'"', b"\xef\xbb\xbf", b"a\n"))
    content = rng.choice((b"".join(lines) + extra, extra + b"".join(lines)))
    return (
        f"{value!r:.30} in column {column} of {ending}",
        _write(folder, ending, content),
        (),
        False,
    )


def _names(rng: random.Random, sound: str, folder: Path) -> Damaged:
    """Name a file as if it had another format."""
    endings = [*CHECKED, *TEXTS[:3], ".csv.zip"]
    real, claimed = rng.choice(endings), rng.choice([*endings, ".csv.zst", ".tsv", "", ".xlsx"])
    (folder / f"source{claimed}").write_bytes(Path(f"{sound}{real}").read_bytes())
    return f"{real} named {claimed}", f"source{claimed}", (), False


def _folders(rng: random.Random, sound: str, folder: Path) -> Damaged:
    """Make the source something else than one regular file."""
    source = folder / "source"
    source.mkdir()
    acts: dict[str, Callable[[], object]] = {
        "empty": lambda: None,
        "two formats": lambda: [shutil.copy(f"{sound}{e}", source) for e in (".csv", ".parquet")],
        "a FIFO": lambda: os.mkfifo(source / "a.csv"),
        "a FIFO of Parquet": lambda: os.mkfifo(source / "a.parquet"),
        "an endless device": lambda: (source / "a.csv").symlink_to("/dev/zero"),
        "a loop": lambda: (source / "a.csv").symlink_to("a.csv"),
        "a loop of folders": lambda: (source / "a").symlink_to(source),
        "a missing target": lambda: (source / "a.csv").symlink_to("/nowhere"),
        "a folder named as a file": lambda: (source / "a.csv").mkdir(),
        "a name that is not UTF-8": lambda: shutil.copy(
            f"{sound}.csv", os.fsencode(source) + b"/\xff.csv"
        ),
        "a name with controls": lambda: shutil.copy(f"{sound}.csv", source / "a\x1b[2J\n.csv"),
        "an empty file beside": lambda: [shutil.copy(f"{sound}.csv", source),
                                         (source / "b.csv").touch()],
    }  # fmt: skip
    name = rng.choice(list(acts))
    acts[name]()
    address = rng.choice(("source", "source", "source/a.csv", "file://source", "./source/"))
    return f"{name}, as {address}", address, (), False


def _tables(rng: random.Random, sound: str, folder: Path) -> Damaged:
    """Write Parquet with other columns, types or row groups."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    frame = pd.read_parquet(f"{sound}.parquet")
    column = rng.choice(list(frame))
    values: list[Any] = [None, [1, 2], {"a": 1}, b"\xff", True, float("nan"), float("inf"), 2**62,
                         "x", pd.Timestamp("2024-01-01"), "é" * 9, -1]  # fmt: skip
    value = rng.choice(values)
    act = rng.choice(("value", "values", "without", "no rows", "type", "twice"))
    table = pa.Table.from_pandas(frame, preserve_index=False)
    at = table.schema.get_field_index(column)
    if act in ("value", "values", "type"):
        replaced = pa.array([value] * len(frame))
        if act == "type":
            kinds = (pa.float32(), pa.string(), pa.large_string(), pa.binary(), pa.dictionary(
                pa.int32(), pa.string()))  # fmt: skip
            replaced = pa.array(frame[column].astype(str)).cast(pa.string())
            replaced = _cast(replaced, rng.choice(kinds))
        table = table.set_column(at, column, replaced)
    elif act == "without":
        table = table.remove_column(at)
    elif act == "twice":
        table = table.append_column(column, table.column(at))
    else:
        table = table.slice(0, 0)
    pq.write_table(table, folder / "source.parquet")
    return f"{act} of {column}, {value!r:.20}", "source.parquet", (), False


def _cast(values: Any, kind: Any) -> Any:
    try:
        return values.cast(kind)
    except Exception:  # text that is no number stays text
        return values


_OPTIONS = {
    "--grid": ("0,0,1,1/0x0", "0,0,1,1/99999x99999", "1,1,0,0/3x3", "nan,0,1,1/3x3", "0,0,1,1/-1x3",
               "-91,0,1,1/3x3", "0,0,1,1/1e3x3", "0,0,1e999,1/3x3", "0,0,1,1", "",
               "0,0,1,1/3000x3000",
               "0,0,1,1/9x9", "0,0,0,0/1x1", "0,0,1,1/٣x٣"),
    "--h3": ("0,0,1,1/16", "0,0,1,1/-1", "-90,-180,90,180/15", "0,0,1,1/7", "0,0,1,1/5",
             "0,0,1,1/x",
             "0,0,1e-9,1e-9/0", "nan,nan,nan,nan/5", "-90,-180,90,180/2", ""),
    "--geohash": ("0,0,1,1/0", "0,0,1,1/10", "-90,-180,90,180/9", "-90,-180,90,180/2", "0,0,1,1/5",
                  "0,0,1,1/x", "nan,0,1,1/3", ""),
    "--inspire": ("0,0,1,1/1000", "48,2,49,3/1", "48,2,49,3/300", "48,2,49,3/1000", "48,2,49,3/x",
                  "25,-33,84,44/100", "24,-33,84,44/100000", ""),
    "--points": ("missing.csv", "/dev/zero", "source.csv", "", "http://127.0.0.1:9/x"),
    "--epochs": ("0", "-1", "x", "99999999999", "1000000000", "9223372036854775807", "1", "1e3"),
    "--epoch": ("0h", "-1h", "1s", "1ns", "1y", "99999999d", "7min", "", "1h ", "1.5h", "x"),
    "--start": ("2024-02-30", "0001-01-01", "9999-12-31T23:59", "x", "", "2024-01-01T00:00Z", "nan",
                "1704067200", "2262-04-12", "1677-09-20", "2024-01-01T00:30"),
    "--timezone": ("Mars/Olympus", "../../etc/passwd", "/etc/passwd", "", "UTC+25",
                   "America/New_York",
                   "Pacific/Apia", "\x1b[2J", "a" * 5_000),
    "--column": ("user=", "=x", "user=card", "x=y", "user=lat", "roi=user", "lat=lon", "user"),
    "--setting": ("timezone=x", "delimiter=;", "delimiter=,,", "delimiter=\n", "delimiter=é",
                  "a=b"),
    "--top-users": ("0", "-1", "1", "99999999999999999999", "x"),
    "--min-events": ("0", "-1", "99999999999999999999", "2", "x"),
    "--cutoff": ("-1", "nan", "inf", "1", "x"),
    "--pseudonymise": ("missing", "source.csv", "/dev/urandom", "short", "long"),
    "--reader": ("x", "trips", "geojson", "cabspotting", ""),
}  # fmt: skip


def _settings(rng: random.Random, sound: str, folder: Path) -> Damaged:
    """Ask for absurd regions, epochs and options, with a sound source."""
    shutil.copy(f"{sound}.csv", folder / "source.csv")
    (folder / "short").write_bytes(b"k")
    (folder / "long").write_bytes(bytes(range(32)))
    options = {GRID[0]: GRID[1], CALENDAR[0]: CALENDAR[1], CALENDAR[2]: CALENDAR[3]}
    for name in rng.sample(list(_OPTIONS), rng.choice((1, 1, 2))):
        if name in ("--h3", "--geohash", "--inspire", "--points") and rng.random() < 0.8:
            options.pop("--grid", None)
        options[name] = rng.choice(_OPTIONS[name])
    words = tuple(f"{name}={value}" for name, value in options.items())
    return " ".join(words)[:200], "source.csv", words, False
