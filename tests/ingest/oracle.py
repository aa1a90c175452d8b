"""An ingest by hand (dictionaries of sets, one row at a time), and the one of the package."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from clusterscale.cube.calendar import Calendar
from clusterscale.cube.regions import Box, Grid
from clusterscale.cube.store import TraceCube
from clusterscale.ingestion import Events, IngestOptions, IngestReport, ingest

START = 1_700_000_000
STEP = 100
N_EPOCHS = 6
SIDE = 4
GRID = Grid(Box(0.0, 0.0, 8.0, 8.0), SIDE, SIDE)
CALENDAR = Calendar(START, STEP, N_EPOCHS, "UTC")
_ZONED = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(Z|[+-]\d{2}:\d{2})")


def ingest_records(source: str, uri: str, **options: Any) -> IngestReport:
    """Ingest events on ``GRID`` and ``CALENDAR`` unless ``options`` say otherwise."""
    run = {
        name: options.pop(name)
        for name in ("force", "on_progress", "block_bytes", "scheduler")
        if name in options
    }
    defaults = {"reader": Events(), "locator": GRID, "calendar": CALENDAR}
    return ingest(source, uri, IngestOptions(**(defaults | options)), **run)


@dataclass(frozen=True)
class Row:
    """One row as text; None where it holds nothing."""

    user: str | None
    time: str | None
    lat: str | None
    lon: str | None


def expected(rows: list[Row]) -> tuple[dict[str, set[int]], Counter[str]]:
    """Return each user's cells and how many rows are dropped for which reason."""
    cells: dict[str, set[int]] = {}
    dropped: Counter[str] = Counter()
    for row in rows:
        reason, cell = _place(row)
        if reason:
            dropped[reason] += 1
        elif cell in cells.setdefault(row.user or "", set()):
            dropped["duplicate"] += 1
        else:
            cells[row.user or ""].add(cell)
    return {user: found for user, found in cells.items() if found}, dropped


def _place(row: Row) -> tuple[str, int]:
    if not row.lat or not row.lon:
        return "no_place", -1
    time, lat, lon = _seconds(row.time), _number(row.lat), _number(row.lon)
    if not row.user or time is None or lat is None or lon is None:
        return "unparsable", -1
    if abs(lat) > 90 or abs(lon) > 180:
        return "out_of_range", -1
    if not START <= time < START + STEP * N_EPOCHS:
        return "outside_period", -1
    if not (0 <= lat < 8 and 0 <= lon < 8):
        return "outside_region", -1
    roi = int(lat / 8 * SIDE) * SIDE + int(lon / 8 * SIDE)
    return "", roi * N_EPOCHS + int((time - START) // STEP)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _seconds(text: str | None) -> float | None:
    value = _number(text)
    if value is None and text is not None and _ZONED.fullmatch(text):
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError:
            return None
    return value


def content(cube: str | Path) -> dict[str, set[int]]:
    """Return each user's cells in a cube, checking that users stand in order."""
    store = TraceCube(str(cube))
    traces = store.traces()
    users = [str(user) for user in store.user_ids()]
    assert users == sorted(users)
    return {user: set(traces.trace(i).tolist()) for i, user in enumerate(users)}
