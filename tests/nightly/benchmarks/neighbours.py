"""Releases of neighbouring cubes: the same rows, dims, attributes and metadata with a guarantee.

    PYTHONPATH=tests python tests/nightly/benchmarks/neighbours.py --pairs 1000

Each pair is two files of records that differ in one record or in one user, ingested (or packed) and
published with the same settings, which are drawn at random: reader, places, calendar, filters of
users, lists of places and users, unit, steps and format. What a reader of the published files sees
is compared, except the noise and what follows from it or from chance: digests, the name of the run.
"""

import argparse
import csv
import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from show import sum_up

from clusterscale import study
from clusterscale.analyses.publish import PublishAnalysis, PublishPlan
from clusterscale.cube import Calendar, Geohash, Grid, Hexagons, TraceCube
from clusterscale.cube.dense import pack
from clusterscale.errors import ClusterscaleError
from clusterscale.ingestion import READERS, IngestOptions, ingest, read_points
from clusterscale.release import read_table
from clusterscale.runtime import SerialExecutor

BOX = "50,0,50.2,0.2"
STATIONS = [f"S{i}" for i in range(5)]
CHANCE = ("content", "run", "rules", "previous", "seal", "stored")
EVENT_COLUMNS = ("user", "timestamp", "zone", "lat", "lon")
TRIP_COLUMNS = ("user", "start_station", "start_time", "end_station", "end_time")


def draw_records(rng, reader):
    """Return rows of text, as of a file of a reader: few users, places and hours."""
    rows = []
    for user in range(rng.integers(2, 7)):
        for _ in range(rng.integers(1, 5)):
            hour, (start, end) = rng.integers(0, 22), rng.integers(0, len(STATIONS), 2)
            begin, until = (f"2026-03-02T{hour + more:02d}:10:00Z" for more in (0, 1))
            if reader == "events":
                lat, lon = 50 + 0.04 * start + 0.01, 0.04 * end + 0.01
                rows.append((f"u{user}", begin, STATIONS[start], f"{lat:.2f}", f"{lon:.2f}"))
            else:
                rows.append((f"u{user}", STATIONS[start], begin, STATIONS[end], until))
    return rows


def without(rng, rows):
    """Return the rows without one of them, or without one user."""
    gone = rows[rng.integers(len(rows))]
    if rng.random() < 0.5:
        return [row for row in rows if row[0] != gone[0]]
    index = rows.index(gone)
    return rows[:index] + rows[index + 1 :]


def draw_settings(rng, folder):
    """Return the settings that both cubes of a pair share, and those of their releases."""
    pick = lambda *options: options[rng.integers(len(options))]  # noqa: E731
    reader = pick("events", "events", "trips", "trip_pairs", "dense")
    places = pick("names", "points") if reader == "trips" else "names"
    places = pick("names", "points", "grid", "h3", "geohash") if reader == "events" else places
    cube = {
        "reader": reader,
        "places": places,
        "epoch": pick("15min", "1h", "6h"),
        "start": pick("2026-03-02T00:00", "2026-03-01T12:00"),
        "filters": pick({}, {}, {}, {}, {}, {}, {"min_events": 2}, {"top_users": 3}),
        "public": pick((), ("calendar",), ("calendar",), ("calendar", "places")),
    }
    unit = pick("event", "event", "user_day", "user")
    noise = {"name": "laplace", "epsilon": 0.5, "unit": unit, "discrete": True}
    steps = [noise | ({"sensitivity": 60.0} if unit == "user" else {})]
    if unit == "user_day":
        steps.insert(0, {"name": "cap_contributions", "per_day": 4})
    steps += pick([], [], [{"name": "threshold", "k": 2, "shown": "hidden"}])
    publication = {
        "mechanism": {"name": "chain", "steps": steps},
        "budget": {"unit": unit, "epsilon": 1.0},
        "period": {"name": "P", "first": 0, "epochs": 4},
        "series": "s",
        "null_roi": bool(rng.random() < 0.2) and unit != "event",
        "format": pick("csv", "zarr", "netcdf", "parquet"),
        "group_size": pick(None, 4),
        "among": pick(None, 50),
    }
    if rng.random() < 0.6:
        names = [*STATIONS, "Clinic"]
        names += [f"{start} → {end}" for start in STATIONS for end in STATIONS]
        (folder / "places.csv").write_text("\n".join(["name", *names]) + "\n")
        publication["places"] = str(folder / "places.csv")
        publication["other_places"] = pick("drop", "one_row")
    if rng.random() < 0.2:
        (folder / "panel.csv").write_text("user\nu0\nu1\n")
        publication["population"] = str(folder / "panel.csv")
    if rng.random() < 0.15:
        publication |= {"mechanism": {"name": "exact"}, "budget": None}
    return cube, publication


def make_cube(folder, name, rows, made):
    """Write the records as a cube."""
    uri, reader = str(folder / f"{name}.zarr"), made["reader"]
    if reader == "dense":
        return pack_rows(rows, uri, made["public"])
    path = folder / f"{name}.csv"
    with open(path, "w", newline="") as file:
        columns = EVENT_COLUMNS if reader == "events" else TRIP_COLUMNS
        csv.writer(file).writerows([columns, *rows])
    (folder / "points.csv").write_text(
        "name,lat,lon\n" + "".join(f"{name},50.0{i},0.0{i}\n" for i, name in enumerate(STATIONS))
    )
    locators = {
        "names": lambda: None,
        "points": lambda: read_points(str(folder / "points.csv")),
        "grid": lambda: Grid.parse(f"{BOX}/5x5"),
        "h3": lambda: Hexagons.parse(f"{BOX}/5"),
        "geohash": lambda: Geohash.parse(f"{BOX}/4"),
    }
    named = reader == "events" and made["places"] == "names"
    options = IngestOptions(
        reader=READERS.create(reader, **({"roi": "zone"} if named else {})),
        locator=locators[made["places"]](),
        calendar=Calendar.parse(made["start"], made["epoch"], 96, "UTC"),
        **made["filters"],
    )
    ingest(str(path), uri, options, scheduler="synchronous")
    return TraceCube(uri)


def pack_rows(rows, uri, public):
    """Write trips as a dense cube; what is not public is that of the records."""
    users = sorted({row[0] for row in rows})
    places = STATIONS if "places" in public else sorted({row[1] for row in rows})
    hours = [0, 23] if "calendar" in public else sorted({int(row[2][11:13]) for row in rows})
    trace = np.zeros((len(users), len(places), max(hours) - hours[0] + 4), bool)
    for user, place, time, *_ in rows:
        trace[users.index(user), places.index(place), int(time[11:13]) - hours[0]] = True
    first = pd.Timestamp("2026-03-02") + pd.Timedelta(hours=hours[0])
    coords = {"user": users, "roi": places}
    coords["epoch"] = pd.date_range(first, periods=trace.shape[2], freq="h").to_numpy()
    dense = xr.DataArray(trace, coords, ("user", "roi", "epoch"), name="trace")
    return pack(dense, uri, public=public)


def read_facts(uri):
    """Return what a published file shows, except noise and what follows from it or from chance."""
    release = read_table(uri)
    about = release.metadata.model_dump(mode="json", exclude_unset=True)
    about["ledger"] = {key: value for key, value in about["ledger"].items() if key not in CHANCE}
    files = {"": Path(uri)} if Path(uri).is_file() else {}
    files |= {path.name: path for path in Path(uri).rglob("*.json")} if not files else {}
    beside = Path(f"{uri}-metadata.json")
    texts = {name: scrub(json.loads(path.read_text())) for name, path in files.items() if name}
    texts |= {"beside": scrub(json.loads(beside.read_text()))} if beside.exists() else {}
    axes = release.rois, None if release.epochs is None else release.epochs.tolist()
    return json.dumps([release.values.shape, axes, about, texts], sort_keys=True, default=str)


def scrub(value):
    """Return JSON without the fields that follow from noise or chance."""
    if isinstance(value, dict):
        return {key: scrub(item) for key, item in value.items() if key not in CHANCE}
    return [scrub(item) for item in value] if isinstance(value, list) else value


def publish(folder, name, cube, publication):
    """Publish a cube, and return what readers see, or why it was refused."""
    try:
        plan = PublishPlan.model_validate(publication | {"releases": str(folder / f"to-{name}")})
        done = study.run(PublishAnalysis(plan), cube, str(folder / f"run-{name}"), SerialExecutor())
    except (ClusterscaleError, ValueError) as error:
        return None, str(error).replace(f"{folder}/", "").partition(":")[0]
    return read_facts(done.attrs["release"]), ""


def try_pair(rng, folder, found):
    """Publish one pair of neighbours, and count what came out."""
    made, publication = draw_settings(rng, folder)
    rows = draw_records(rng, made["reader"])
    pair = rows, without(rng, rows)
    kind = "guarantee" if publication["budget"] else "no guarantee"
    results = []
    for name, some in zip(("first", "second"), pair, strict=True):
        try:
            cube = make_cube(folder, name, some, made)
        except (ClusterscaleError, ValueError, IndexError):
            found[kind, "one cube has no events or users, so it cannot be written"] += 1
            return
        results.append(publish(folder, name, cube, publication))
    (one, why), (other, why_other) = results
    if one is None and other is None:
        found[kind, f"both refused: {why}"] += 1
    elif one is None or other is None:
        found[kind, f"one refused: {why or why_other}"] += 1
    else:
        found[kind, "both published, equal" if one == other else "both published, different"] += 1
        if one != other and publication["budget"]:
            print(made, publication, one, other, sep="\n")


def main():
    """Print how many pairs are equal, different or refused."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = Counter()
    for number in range(options.pairs):
        with tempfile.TemporaryDirectory() as folder:
            try_pair(np.random.default_rng((options.seed, number)), Path(folder), found)
        if number % 100 == 99 or number + 1 == options.pairs:
            print(f"after {number + 1:,} pairs:")
            for (kind, outcome), n in sorted(found.items()):
                print(f"{n:6,}  {kind}: {outcome}", flush=True)
    n_equal, n_different = (
        found["guarantee", f"both published, {how}"] for how in ("equal", "different")
    )
    sum_up(
        "neighbours", f"with a guarantee: {n_equal} published and equal, {n_different} different"
    )
    return n_different


if __name__ == "__main__":
    raise SystemExit(main())
